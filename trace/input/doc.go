// Package input reads the files of traces: unpacked, line by line or record by record, in
// bounded memory, with the line in every error, and counted for whoever waits.
package input
