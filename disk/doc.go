// Package disk knows the devices below files: which one a file is on, who may
// read it next, and what it has done.
//
// A disk is fast when one reader at a time reads long extents in order. The
// Scheduler hands out turns to that end; it does not read itself.
package disk
