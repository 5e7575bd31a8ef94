// Package share runs two jobs on the same files of a real HDFS, one after the other or some
// time apart, with Spark on a real YARN, which goes by what is in memory or does not,
// or by what HDFS's own cache holds (quartet, section 5.2, figures 1 and 2).
package share
