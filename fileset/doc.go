// Package fileset finds the regular files that somebody means by a path: a file,
// a directory with all that is below it, or a pattern.
package fileset
