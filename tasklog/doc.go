// Package tasklog keeps the logs of tasks within what their users may have on the
// disk, and leaves some of the file system to others. It reads them as they grow.
//
// A log that is to hold less keeps its beginning and its end; what is between them
// becomes a hole with a line before it that says why. The size of the file, and
// every offset in it, stay as they are: the task goes on appending, a reader goes on
// reading, and a checkpoint finds the file as it left it.
package tasklog
