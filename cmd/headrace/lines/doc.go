// Package lines merges what several tasks write, line by line.
package lines
