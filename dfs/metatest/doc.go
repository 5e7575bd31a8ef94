// Package metatest compares the namespace of package meta with a real HDFS: both are
// given the same random operations, and must answer alike, errors and all.
package metatest
