// Package read lets many readers read from one disk, with regions of their own and from
// a stream (veloxdfs, figures 1, 4, 5 and 8, for one node), on a device of this machine
// and on a modelled hard disk. What the processes of a run use is counted by a cgroup;
// every consumer counts the records that it was given, and a record that is missing or
// was given twice is a failed run.
package read
