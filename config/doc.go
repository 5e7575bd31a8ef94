// Package config reads files of settings: sections of keys with values, as
// systemd's units have them.
//
//	# a comment
//	[daemon]
//	slots = 4
//	store = disk=/srv/headrace,zstd
//
//	[limits user alice]
//	waiting = 100
//
// It knows the form alone. What the keys mean is the business of those who ask
// for a file; they say what is wrong with an entry by File.Errorf, with the line.
package config
