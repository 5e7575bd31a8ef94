// Package reopen makes a restore open exactly the files that the task had open.
//
// CRIU writes down the path of every file, and opens these paths again as root,
// following links. Whoever owns a directory on the way chooses what such a path
// leads to, and would be given any file of the machine. So:
//
// While a dumped tree stands still, [Observe] records which file each path meant:
// device, inode, owner, file handle (which tells a file from a later one with the
// same inode) and time of birth.
//
// Before the restore, [Prepare] opens each path as the task's user and without
// following links (O_PATH: nothing but a name is opened), and compares the file
// with the record. A difference is an error that says which path it is and what
// differs; nothing has been started then, and the checkpoint stays. Then it
// rewrites a copy of the images: in the place of the path stands the link to its
// own descriptor, /proc/1/fd/N, which leads to the very file that was looked at,
// whatever is done to the path from then on. The restored descriptor shows the
// true path again, so that the next dump records that. While CRIU holds the restored tree,
// [Opened.Verify] compares device and inode of what it has with what was opened for it.
//
// Sockets get their ports from [Opened.Bind], when they belong to whom they belonged,
// and not from CRIU, which binds and listens as root: the kernel lets those of one user
// share a port, and goes on to.
//
// Deleted files, which CRIU makes anew beside where they were, are made in a
// directory that only root can enter, where no set-user-id bit counts.
//
// It is root who opens, and some ask who that was: the kernel of its own files, for as long as
// they are open (ErrMoreToRoot), and servers of files, of which root may be nobody. [Rehearse] finds
// both while the dumped tree can still go on.
//
// [Check] says why a task of another user than the daemon's cannot be restored
// safely at all: CRIU would bind its unix sockets, or link its files, as root and
// by path; or a process of it has rights that its user has not.
package reopen
