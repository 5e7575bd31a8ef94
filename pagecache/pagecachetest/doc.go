// Package pagecachetest has what tests need in place of the page cache: Memory, a
// model of it; Faulty, which makes calls fail; and Conform, the table of what
// every pagecache.Cache does alike.
package pagecachetest
