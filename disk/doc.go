// Package disk knows the devices below files: which one a file is on, who may
// use it next, and what it has done.
//
// # Turns
//
// A disk is fast when one reader at a time reads long extents in order. The
// Scheduler hands out turns to that end; it does not read itself. On each device
// one at a time reads files, about Device.Extent bytes in a turn, and beside it one
// at a time moves a checkpoint: a dump or a restore, which is one turn whatever its
// length, because nobody can stop CRIU between two extents. Readers that somebody
// waits for do not wait for it: they would stand still for all of it.
//
// Demand goes before warming: while a demand reader waits or reads, no turn of
// warming begins. Nor does one while a checkpoint is moved.
//
// Dumps and restores are dealt by Moves. They are done for users: for who asked for one, or whose task
// goes on or has to have room. Among users that one is next who has had the device for the least time of late, whatever came of it:
// so who has a hundred tasks that cannot be dumped has each other user wait for one of them, and not for all. Of one
// user a restore goes before the dumps that wait, for its task has been given its place already; restores go in the order
// in which they were asked for, and so do dumps. They take turns at a device in memory as well,
// where readers need none: what they share there are processors.
//
// A turn that has begun is never interrupted. But a reader that gets on with nothing for
// Patience is not waited for any more: nothing can end a read from a disk or a file server that
// does not answer, and others may want what does. They read beside it then. Where the next one hangs as well all
// others wait, without a thread each and until their contexts end: one at a time tries, each time when the silence has
// doubled, and when anything comes of any of them it is as before. Dumps and restores that have their turn for far longer than was expected
// are not waited for, either.
//
// Inside a class of readers the turns are dealt by start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM
// 1996): a reader's turn gets a start tag, which is the end of its last turn in
// virtual time or the present virtual time, whichever is later; the smallest tag
// goes next, those that have waited longest first among equals; virtual time is
// the tag of the turn that was granted last. A turn moves its reader's virtual
// time on by the bytes that it read, and by a sixteenth of an extent at least,
// because a turn without a byte costs the disk a seek all the same. So readers
// that are always waiting or reading differ by at most two extents over any
// time, and a reader that was away has no claim to what it did not use. The readers of
// one user count as one among those of others, and share what it gets in the same way.
//
// A device is never idle while demand waits. Warming stays away for a few
// milliseconds after each turn of demand, so that a lone reader whose next Begin
// follows its End at once need not wait for a turn of warming each time. Among
// readers of one class nobody is waited for: one that ends its turn with End is
// behind one of those who wait even if it is back at once. With Turn.Next it
// keeps its place.
//
// # Meters
//
// A Meter counts the bytes, requests and seeks of block devices: by a BPF program
// on the tracepoint block_rq_issue, otherwise from /proc/diskstats, which knows
// no seeks.
package disk
