// Package token reads and makes the files with the secret that the daemons of a cluster
// share: a manager with its nodes, nodes of a file system among themselves.
package token
