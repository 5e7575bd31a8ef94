// Package dfs compares the file system of Headrace with a real HDFS, through Hadoop's own
// client, on the same disks: reading and writing side by side, operations on names, the loss
// of a node, and what the daemons use.
package dfs
