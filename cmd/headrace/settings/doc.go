// Package settings reads what a daemon is told in a file besides its flags: settings, which count where no flag was
// given, and limits of users, which are read again on SIGHUP.
package settings
