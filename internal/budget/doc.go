// Package budget shares out what a daemon has of something, such as connections or
// memory for requests, so that no user takes it from the others, and all users
// together not from root.
package budget
