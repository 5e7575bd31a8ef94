// Package clienttest has clients of HDFS that are not Hadoop's do their work on headrace dfs start: what is here, or can be had from a
// registry of packages. The rest is skipped, with the reason.
package clienttest
