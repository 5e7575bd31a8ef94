package solo

import (
	"headrace/proc"
	"headrace/solo/journal"
)

// scheduler is who decides for a task: this daemon, by its policy, or, for a container,
// the scheduler that it belongs to, by its orders. Only the loop calls it.
type scheduler interface {
	// order does what another scheduler wants of the task.
	order(t *task, c *call)
	// release lets a task go on that a user wants back. The call is answered when it
	// does, or with why it waits.
	release(t *task, c *call)
	// notStarted deals with a machine that could not start the task at all, which is not
	// the fault of the command, notRestored with a checkpoint that could not be used; end is
	// that of its supervisor, if it has none any more.
	notStarted(t *task, err error)
	notRestored(t *task, err error, end proc.Exit)
	// lose ends a task whose processes and their end are not to be found.
	lose(t *task, why string)
	// idleEnded deals with the end of a supervisor whose task was only a checkpoint.
	idleEnded(t *task, exit proc.Exit)
	// startAgain finishes a start that an earlier daemon had begun; notBegun deals with
	// a supervisor that was not told then what to do.
	startAgain(t *task, in *journal.Intent)
	notBegun(t *task, in *journal.Intent)
}
