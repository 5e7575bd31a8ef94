// Package warm reads the inputs of jobs that still wait into memory and keeps
// them there until the jobs have read them. What is read next and who gives up
// what is decided by package policy, after ignem, section III; this package
// carries it out with package pagecache and waits for its turns at the disks with
// package disk.
//
// # Requests
//
// A Request is a plain value: files, whose they are, and how long they stay. The
// caller may keep it durably and give it again after a restart. The engine keeps
// nothing on disk. What it has locked is mapped by its process: the kernel lets
// all of it go when the process ends, however that happens. Its pages stay in
// memory as long as the kernel likes, and are found there by the next engine,
// which follows them, and reads again, and locks, what the kernel drops.
//
// A request may get further files, and lose some (Put, Drop). Who has very many files uses few
// requests: what is read next is chosen among all that wait.
//
// # Blocks and references
//
// Files are cut into blocks of Config.Block bytes; a smaller file is one block.
// Blocks are known by device and inode, so that several names of a file and
// several requests share them. Each block has the list of requests that will read
// it, and is released when the list is empty: when a job has ended (Release), when
// it has read the block and asked for that (Read, Request.Implicit), when a user
// lets it go (Evict, Remove), and when it turns out that a job has gone without a
// word (Config.Alive). Room that is wanted for other blocks releases nothing; memory that
// others need does (Config.Spare), and what was released waits for room again.
//
// A block that is in memory without being locked by the engine is left as it is
// and looked at again from time to time (Config.FollowUp); when it has gone it is
// read, unless whoever asked sees to that (Request.Leave). Files of file systems that live in memory are left as they are. A block whose last reference goes while another request still waits for
// its turn at the same path is handed to that one.
//
// # Limits of what is known
//
// A file is taken to be as large as its request says. What it has grown by since
// is not warmed. A file that has become shorter, was replaced between two of its
// blocks, cannot be opened with its owner's rights or is no regular file has
// failed, with a reason in the Status; nothing else is harmed. A file that was
// written to in place stays warm: the page cache always has what was written.
//
// Memory is constant per file: 12 bytes and one byte for each block, beside what
// the Request itself takes. A file is open only while one of its blocks is read
// or looked at.
//
// # Concurrency
//
// All methods of Engine may be called from any goroutine. There is one goroutine
// for each device that has something to do. Nothing that may block is done while
// the engine's lock is held: a device that hangs stops the warming of that device. A path
// may come to lead to a file server that does not answer: who has given it is passed over
// then, and nobody else.
package warm
