// Package presence tells whether a checkpoint store is the one that it was, or only the directory that its file
// system is mounted on; and whether it is this daemon's. What is in a store that is not there is not gone, and nothing
// is to be written in its place.
package presence
