// Package checkpoint keeps the images of checkpointed process trees: where they
// are, which of them can be trusted, and how little of a new one has to be
// written.
//
// # Layout
//
// A [Store] is a directory. A file .id in it names it, if it is marked ([Mark]), a file .owner
// says whose it is ([Claim]). The images of a task are the directories
// <store>/<task>/<number>, numbered from 000001. Each holds the files that CRIU
// writes, the files that our page server writes, and at the end a manifest:
//
//	manifest          commit marker: every file with its size and checksum
//	parent            link to the image that unchanged pages are in
//	pagemap-7.img     which pages process 7 has, and where (CRIU's format)
//	pages-1.img       those pages' bytes; zero pages are holes
//	pages-1.img.zst   instead of it, when the store compresses
//	pages-1.sum       checksums of the extents of the pages file
//	pagemap-7.idx     a hash of every page, for the next checkpoint
//	core-7.img ...    everything else, written by CRIU
//
// Images hold the memory of programs, so directories have mode 0700 and files
// 0600.
//
// # Incremental checkpoints
//
// CRIU can leave out unchanged pages by itself only where the kernel tracks soft
// dirty pages, which many do not. So CRIU sends every page to a page server
// (criu dump --page-server --ps-socket), which is in this package: it hashes
// each page (xxh3, 128 bits), compares it with the hash of the page at the same
// address of the same image of the parent checkpoint, and stores it only when it
// differs. The result is an ordinary incremental image that a plain criu restore
// reads (checkpoint-preemption, section 4.1: the second dump of a task costs what
// has changed). Two pages with one hash would be mistaken for each other; by
// accident that does not happen, and a program that constructs them harms only
// itself.
//
// The protocol is that of CRIU 4.2, whose requests have 32 bytes; CRIU before 4.2
// has requests of 24 bytes and is refused with an error that says so.
//
// # Durability
//
// [Writer.Commit] makes every file durable, then the manifest, then the
// directories, in this order; an image without a manifest does not exist. A
// process tree may be killed when Commit has returned. The points at which a
// test can end the process (package headrace/internal/crash) are, in order:
//
//	checkpoint.begun            the directory exists
//	checkpoint.pages            a block of pages was stored (passed many times)
//	checkpoint.before-fsync     all files are written
//	checkpoint.before-manifest  all files are durable
//	checkpoint.before-rename    the manifest is durable under a temporary name
//	checkpoint.before-dirsync   the manifest has its name
//	checkpoint.committed        everything is durable
//	checkpoint.import           an imported image is about to get its manifest (passed once per image)
//	checkpoint.collect          an image lost its manifest and is about to be set aside (passed once per image)
//	checkpoint.aside            Collect has set images aside, has unlocked the task, and is about to delete them
//
// CRIU takes the contents of an image on trust; with a truncated pages file its
// restore never ends. So an image must be checked before each restore:
// [Image.Verify], or [Image.Open] for a compressed one.
//
// # Concurrency
//
// Several processes may use one store. While a dump is being written or an image
// is open for a restore, a lock on the task makes Begin, Collect and Remove on
// the same task wait, and fail with [ErrBusy] after some time; different tasks never
// wait for each other. Collect holds the lock only for a moment: what it removes is
// renamed to <store>/<task>/removed-* under the lock and deleted without it. What is
// left of that after a crash is deleted by whoever comes next.
package checkpoint
