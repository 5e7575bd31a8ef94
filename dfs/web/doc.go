// Package web is WebHDFS, the file system over HTTP, on top of a node: see Hadoop's WebHDFS.md, NamenodeWebHdfsMethods,
// WebHdfsHandler and JsonUtil, which are all the specification there is.
//
// Operations are functions in tables, by their names: look and change of the name space, data, and refused, those that
// there are not. What they do is a command or a query of package meta, as in dfs/gateway.
//
// # Bytes
//
// OPEN, CREATE, APPEND and GETFILECHECKSUM are redirected, since clients expect that, to the address that they have used, with
// data=true behind it: this node serves the bytes itself, and a name that reached it once does so again.
//
// A node that does not lead the names has the one that does answer (Config.Pass), and lets the bytes pass: all that it looks at is who calls.
//
// A file whose bytes stop coming is closed at what has come, as in HDFS, and nothing was answered then.
//
// # Who calls
//
// A caller is who user.name says, "dr.who" without it; of one on this machine the kernel is asked whether that is so
// (dfs.Callers.Prove). Nobody may act for somebody else (doas), and
// there are no delegation tokens. Web pages are refused: to a browser every site may send requests to this machine, and
// whoever reaches the port can do all.
package web
