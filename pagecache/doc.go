// Package pagecache tells which parts of which files are in the kernel's page
// cache, keeps parts of them there, and lets them go.
//
// It works on open files of this machine and knows nothing of jobs. What a
// caller may read is the caller's business: it passes files that it has opened.
package pagecache
