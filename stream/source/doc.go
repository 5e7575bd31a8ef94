// Package source opens the files that streams read. A Source is where files are:
// Local has those of this machine. What reads them (package scan) knows no more of
// them than File says, so that another source needs nothing but these two
// interfaces. Files are found and opened with the rights of the stream's owner.
package source
