// Package migrate carries checkpoints of tasks from one machine to another, by an archive
// in a place that all machines of a cluster reach.
//
// A task that was checkpointed on one machine is put there, and its container is
// released. When its application asks again and the same command is to be started
// somewhere, the entry is claimed there by exactly one, fetched, checked, and
// restored by the caller.
//
//	where it was                            where it goes on
//	key := yarn.Launch{...}.Key()
//	files := needs.Observe(pids)            claim := a.Claim(Want{Key, UID, ..., Accept})
//	carried := Carry(files..., roots)       fetched := claim.Fetch(Target{Store, Task, Roots})
//	fingerprint.AddFiles(carried.Outside)   claim.Use()
//	a.Put(id, Description, add)             ... restore ...
//	                                        claim.Remove()
//
// A [Mover] does all that for the containers of a daemon, and watches the archive.
//
// # Entries
//
// An [Archive] is a place (package headrace/blob) with the cluster's token. An entry is
// a directory, whose place in the tree says in which state it is:
//
//	new/KEY.ID                         being written
//	ready/KEY.ID                       waits for somebody
//	claimed/KEY.ID.NONCE.CLAIMANT      somebody fetches it
//	used/KEY.ID.NONCE.CLAIMANT         somebody has begun to restore it
//	removed/NONCE                      about to be removed
//
// Every change of state is one rename. So an entry is never seen half written, of any
// number of claimants one gets it, and nobody takes what is being removed for an
// entry. In the directory are the data, in objects of 128 MB, and the manifest, which
// is written last.
//
// Sweep removes what has been left, by its age, and what waits for an application that has ended for good (Mover.Ended): such a one
// is never attempted again, and its key is no other's.
//
// # Never twice
//
// A task that has been restored once has done things that must not be done again. So:
//
//   - From the moment that an entry is about to be ready (Writer.Committing), the machine that the
//     task comes from may restore its own copy only after Withdraw has succeeded (or Put
//     has failed with another error than ErrUnclear). It should write down the entry's id
//     then, for the case that it dies. Before that nobody can have it, whatever
//     becomes of the upload.
//   - A claimant must have called Use before it starts a restore. Used entries are
//     never offered again.
//   - A claimant that dies before Use has run nothing. Its claim is not renewed any
//     more, and the next Sweep offers the entry again. If the claimant was only slow,
//     its Use fails with ErrLost.
//   - A claimant that dies after Use may have run the task, or not: only whoever it
//     asked to restore it can tell, and goes on from what was fetched (Mover.Take). Where
//     that is gone as well the entry is lost; its command starts afresh. A claimant whose
//     restore has failed before anything ran may Return it.
//
// # Trust
//
// The manifest carries a mark (HMAC-SHA256) that only holders of the cluster's token
// can make, and in it are the hashes (SHA-256) of all data, in blocks of 4 MB. A
// block is checked before it is decompressed or parsed. What strangers write into a
// place is so never restored. Two things are not prevented: somebody who can write to
// the place can destroy entries, and can put back a copy of an entry that was used,
// whose mark is right. So the place must belong to root, or to one user, and be
// closed to others; that is checked. Images hold the memory of programs and are not
// encrypted; objects have mode 0600, directories 0700.
//
// # Fingerprints
//
// A [Fingerprint] is what must be alike for a restore to be safe: architecture, page
// size, processor flags and kernel (the target may have more), CRIU
// and every file that the processes have mapped or open and that is not carried along, also the headrace-shim that
// they were started with. Which one the target starts tasks with now does not matter, as it does not for a restore on the same machine.
// Give Want.Accept a function that compares; an entry that it refuses stays ready for
// another machine.
//
// The clocks of two machines differ. CRIU restores a task in a time namespace, so that
// CLOCK_MONOTONIC goes on where it was; on kernels without them it may jump, also
// backwards.
//
// # Files
//
// [Carry] takes the files below given roots along, and Fetch recreates them at the
// same paths: contents with holes, permissions, times of modification, symbolic
// links. What exists must be the same, or, of a log, the beginning, or the fetch fails with ErrConflict. Both read
// and write with the rights of the root's owner, and follow no symbolic links below
// it, since users own these directories and may put links there. A link to what YARN
// has localized leads to where the machine has that which fetches. Everything that was
// made is removed again when a fetch fails, and by Fetched.Undo.
//
// # Crash points
//
// The points at which a test can end the process (package headrace/internal/crash):
//
//	archive.begun            the directory of a new entry exists
//	archive.part             a data object was written (passed many times)
//	archive.before-manifest  all data objects were written
//	archive.before-commit    the manifest was written
//	archive.committed        the entry is ready
//	archive.before-claim     an entry was chosen
//	archive.claimed          it was claimed
//	archive.before-use       it is about to be used
//	archive.used             it is used
//	archive.making           a file that goes along has its contents, not its name (passed many times)
//	archive.made             it has its name (passed many times)
//	archive.discarded        an entry has left its state and is about to be removed
package migrate
