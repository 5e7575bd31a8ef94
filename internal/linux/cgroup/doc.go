// Package cgroup gives each task a cgroup of its own: version 2 where its
// controllers are, version 1 otherwise, and the freezer and kill of version 2 also
// beside version 1. Everything is found by the files in the directories, so a
// Group is plain data that outlives the daemon that has made it, and that a
// supervisor in other namespaces can use.
package cgroup
