// Package hdfstest runs a real HDFS on this machine, for tests: a name node and a data
// node from Hadoop's own jars, together a process with a small heap; and Hadoop's client (Shell).
package hdfstest
