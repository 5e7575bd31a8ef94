// Package crash lets a test end a process at a named point, as if the power had
// failed for it, so that what it leaves behind can be examined.
//
// The environment variable HEADRACE_CRASH names one point, for example
// checkpoint.before-fsync; a number after a colon (checkpoint.pages:3) means
// the point's third passing. It is read once, when the process starts; when it
// is unset, a point costs one comparison. Packages list the points they have in
// their documentation.
package crash
