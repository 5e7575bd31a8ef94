// Package outfile writes files with results whole or not at all, several of them together.
package outfile
