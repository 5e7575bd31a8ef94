// Package inspect looks at a stopped process tree for what CRIU would leave out
// of a checkpoint without a word, or could dump and not restore. Such a checkpoint
// is refused: a task that goes on after a restore without an event that it waits
// for, or that cannot be restored, is worse off than one that is suspended.
//
// Most of what cannot be saved CRIU refuses by itself, with a reason that package
// internal/criu puts into words. That is not looked for here, but for message queues, which it takes for something else. What is: a tracer; descriptors that leave
// CRIU no room; what is queued in descriptors of inotify and fanotify, and in terminals; watches of deleted
// files; namespaces of their own, also of single threads; sessions that cannot be made again; semaphores to be undone; locks that cannot be taken again; requests of asynchronous I/O in flight; eventfds that are semaphores; scheduling policies that CRIU does not know; unread urgent data and connections that the kernel encrypts; keys of the
// session; and, of other users than root, files of
// the kernel's that would be more to them if root had opened them (package reopen).
package inspect
