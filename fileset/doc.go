// Package fileset finds the regular files that somebody means by a path: a file,
// a directory with all that is below it, or a pattern; it opens them, and tells
// whether one is still what it was.
package fileset
