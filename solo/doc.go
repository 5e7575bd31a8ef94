// Package solo is the daemon of one machine: an executor with slots and a
// memory budget that runs commands by priority and makes room for urgent ones
// without losing work.
//
// # Who owns what
//
// One goroutine, the loop, owns all state. Requests and finished operations
// reach it as messages; whatever may take time (starting, suspending, dumping,
// measuring) runs in goroutines of its own, at most one operation for each task
// at a time. The loop works in turns: it takes the messages that have arrived,
// asks the policy, writes every changed record in one durable transaction, and
// only then answers requests, tells watchers and starts operations. So nothing
// is announced or acted upon that a killed daemon could have forgotten.
//
// What tasks read is the business of package data, which knows files and owners:
// inputs.go tells it which of them belong to tasks that wait, run or have ended.
//
// # Parts
//
// From the bottom up; one knows only those before it.
//
//	driver                          what runs outside the loop, and how it reports back
//	turn                            what a turn has changed, and what is to follow from it
//	table, memory, images           the tasks, the machine's memory, and the checkpoints that are
//	                                on storage, in the stores of package solo/store
//	ledger                          writes records to the journal (package solo/journal)
//	core                            has these
//	admission, measuring, moving    limits of users; what tasks use; checkpoints of other machines
//	life                            states of a task, one operation at a time, its supervisor
//	operations                      start, suspend, page out, resume, checkpoint, restore, kill, forget
//	own, containers                 decide for a task (scheduler): the policy, or orders of
//	                                another scheduler
//	calls, recovery                 what people ask of tasks; what is true after a restart
//	loop                            takes messages, has own decide, commits the turn
//
// service answers requests beside the loop: from the board (package solo/board), which shows tasks as they
// were after the last turn, or by a call. What they ask for package solo/request reads.
//
// # What survives
//
// Tasks belong to their supervisors (package proc), not to the daemon. A record
// says what was intended; what is true is found out from the supervisors and
// from the committed checkpoints when the daemon starts again. See recover.go. What the
// state directory holds, package statedir says.
//
// # Time
//
// Durations come from CLOCK_BOOTTIME, which goes on while the daemon is down
// and does not jump. The wall clock is only shown to people, and says how long tasks have
// waited over a restart of the machine, within bounds.
package solo
