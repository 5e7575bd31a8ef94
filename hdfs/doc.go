// Package hdfs is a client of HDFS. It speaks WebHDFS, the REST API of name node and
// data nodes; see "WebHDFS REST API" in Hadoop's documentation. Directories are listed in
// parts (LISTSTATUS_BATCH), which name nodes do since Hadoop 2.9.
//
// A [Client] has the operations of a file system, by absolute paths. With several name
// nodes it finds the active one. Errors satisfy errors.Is with fs.ErrNotExist,
// fs.ErrExist and fs.ErrPermission where that is what HDFS says; [RemoteError] has the
// rest. No error holds a delegation token. A cluster with security is asked with a principal
// and its keys ([Kerberos]).
//
// [Client.Find] finds what paths and patterns mean, as Hadoop's input formats do, and
// [Client.Blocks] tells which blocks a file has and which machines have replicas.
// [Client.As] acts for another user, as a proxy user. hdfs/replica finds the files of
// these blocks on a data node's machine.
//
// No library is used for the protocol: github.com/colinmarc/hdfs (v2.4.0), the Go client of HDFS's own
// protocol, tells no IDs of blocks, which are what this is for, and knows
// no proxy users. Kerberos is that of github.com/jcmturner/gokrb5/v8, which other Go clients of Hadoop use too.
//
// Tests run against a real name node and data node; hdfs/hdfstest starts them.
package hdfs
