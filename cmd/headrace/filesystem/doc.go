// Package filesystem has the verbs of headrace dfs: it runs nodes of a file system, by
// themselves or beside the daemon of a machine, shows their ring, and copies files.
//
// ask.go connects to a node as HDFS's clients do, peers.go is how a node reaches others.
package filesystem
