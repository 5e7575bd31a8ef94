// Package hdfs is a client of HDFS. It speaks WebHDFS, the REST API of name node and
// data nodes, which every HDFS since Hadoop 2 serves; see "WebHDFS REST API" in Hadoop's
// documentation.
//
// A [Client] has the operations of a file system, by absolute paths. With several name
// nodes it finds the active one. Errors satisfy errors.Is with fs.ErrNotExist,
// fs.ErrExist and fs.ErrPermission where that is what HDFS says; [RemoteError] has the
// rest. No error holds a delegation token.
//
// Tests run against a real name node and data node; hdfs/hdfstest starts them.
package hdfs
