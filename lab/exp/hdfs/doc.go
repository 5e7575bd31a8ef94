// Package hdfs runs the jobs of ignem (section IV) on a real HDFS, with inputs on disk, read
// into memory before jobs start, and in memory beforehand.
package hdfs
