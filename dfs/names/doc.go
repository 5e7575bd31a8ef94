// Package names is what the nodes of a file system agree on: the names (package meta), the ring's table (package
// ring), who its members are, and who of them votes. All of it is one state, of one group of package quorum, so
// whatever depends on two of them is one command.
//
// # In the directory
//
//	meta.db  log/
//
// meta.db is a bbolt database that the caller has opened: its bucket "node" says which seat this node has, "state" or
// "state2" has the keys of package meta, and those of this package, which begin with a zero byte. log is quorum's.
//
// # The state and the log
//
// A command is durable when a majority has it in its log: one fsync on each of them, at the same time, for all
// commands that came during the one before. It is applied in memory, to a sorted map above bbolt, and answered. Every
// 5 seconds, or 4 MB, a goroutine takes what was applied to bbolt, in one transaction; it is what an fsync of two would
// have cost each batch. After a crash the log has what bbolt lacks, and applies it again.
//
// Maps are copied when they are shown, which copies no entries (github.com/tidwall/btree). So a query reads a state that
// does not change, and waits neither for who applies nor for who flushes, however long it takes. Nor do they wait for it;
// but while a database has to grow beyond what is mapped of it (64 GB in package dfs), a flush waits for readers to end.
//
// # Reads
//
// A query asks a majority first whether this node leads (quorum.Node.Read), with no clocks involved; all who come while that is
// being asked share the next round. A node that is all of
// the group need not; it knows so only in a term of its own in which all that came before was applied, for the end of its
// log may have other members.
//
// # Seats
//
// The leader gives seats: to three members, five of five and more, to both of two. A seat is a number that is never given
// twice, and makes a quorum.Replica. Who has one, by what it is told of the ring, makes the replica, and is a learner, then a
// voter, all new ones at once, when they have what the log had some seconds ago: beside quick clients they never have all. Who is out or leaves loses its seat. A node whose seat is gone drops the replica and
// the state, and never makes that one again: it would have forgotten what it promised. All this follows from what was agreed
// on, so a new leader goes on with it.
//
// Of two nodes both vote. So without the other one nothing is answered, but neither can be lost with what was
// answered.
//
// # When something fails
//
// A log or database that cannot be written ends the node's answering: see Failed. A command in which package meta panics
// is refused on all nodes, because otherwise none could go on.
//
// # Decay
//
// bbolt has no checksums of its pages. So a sum of all keys and values is kept with the state (digestKey): each write takes away what
// the old value has added, as it is read then, and adds the new one. Who reads all adds up again, and another sum is damage (ErrDamaged), also of what
// has been overwritten since. All is read after each start, then once an hour (in a hundredth of the time at most), and when it is sent as a snapshot,
// which has no end then; and when a command or a query panics, so that a mistake in the program is told from a page that makes no sense. A node with
// damage ends, and the next start reads all before it serves anything. Until it is found, what is read is believed; what is read wrongly once, and
// rightly later, is found only if it was overwritten meanwhile.
//
// # Straying
//
// A state may be as it was written, and another one than the others have: after a wrong read, or a mistake in the program. Each node that has a seat tells the others
// every two seconds the sums that its state had after each 64th entry lately, and has now (comparison). Who has another one than more than half of all ends,
// as with damage (ErrStrays). Where there is no such majority, as of two, all say so and go on (Differing).
//
// # Versions
//
// Nodes of two versions of the program are there while they are updated one after the other. So which commands there are, how, and what views look like as bytes, has a version
// (version1 and those after it), and one is in force: it is part of the view that is agreed on, so it changes only by a command (raise), from whose place in the log on it
// counts. Whoever leads writes nothing newer (Group.permitted; package meta writes commands by the rules of then), and whoever applies goes by what it finds, as ever. The view's
// bytes are those of the version in force, since they are part of the state, of which all have the same sum.
//
// What each node understands it says when it joins, and with each beat (package member). The one that leads believes only what it has heard lately in its term, waits for all that are up, and those that it has taken
// for sure are named in the command: it is refused where another one is in the ring meanwhile (roster.raise), as is a member that understands less than what is in force
// (roster.admit). So it does not matter who leads, and when.
//
// A program that is too old stops at the command that raises, before it: all up to there it knows (machine.one). It does not start with a state in which more is in force, nor take
// one over as a snapshot. Who adds a version of meta's commands, or an event of the ring, adds one here: TestVersionsAreNoted.
//
// # Healing
//
// A node that starts with a state that is damaged or strays, of three seats and more, sets it aside with its log, and follows without a seat (Ill, Renew): so nobody hears of that
// replica any more, as of one whose machine is lost. The node says so to the one that leads (report.Lost), which takes the seat away when it has read its own state and
// that is right, and it and others, more than half of those who vote without the lost one, have the same. All that is then agreed on without the lost replica: so all that it has
// acknowledged is on most of the others, and its log is needed by nobody. Then the node gets another seat, as any that has none, first as a learner, by a snapshot; the
// lost replica leaves those who vote when the new one joins them. What was set aside is deleted when the node has read the new state and all of it was right.
// The replica is never made again: its number comes from the log, which has checksums.
//
// # Simulation
//
// TestWorlds runs whole nodes on files that lose what was not synced, in one goroutine: quorum's log, this state, seats that
// follow a ring that changes. Clients give all commands there are; what these are to do says a tree that is as simple as can be, in the order of the
// log, and what of it linearizes says a checker. TestFaultsAreFound makes mistakes on purpose. make test simulates 1,000 worlds,
// and 100 each of those that are updated or stray; -seeds says how many, -seed which is the first.
//
// # Crash points
//
// names.flush.before, names.flush.after, names.replace.piece, names.seat.taken, names.seat.leaving, names.seat.dropped,
// and those of package quorum.
package names
