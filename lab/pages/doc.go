// Package pages puts files out of the page cache, holds them in it, and tells how much
// of them is there. It works on files of this machine, for experiments that begin cold.
package pages
