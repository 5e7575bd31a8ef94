package solo

import (
	"context"
	"slices"

	"headrace"
	"headrace/proc"
	"headrace/solo/board"
	"headrace/solo/journal"
)

// turn is what the messages of one turn have changed, and what is to follow from it.
// The loop commits it in one place; nothing is shown, answered or begun before that,
// so that a daemon that is killed has promised nothing that it could have forgotten.
type turn struct {
	driver *driver

	// redecide has the policy asked when all messages of the turn have been handled.
	redecide bool
	// pageOuts begin just before it is asked, so that it counts them: the task that one
	// is for starts beside it. Who is released is told just after what came of it.
	pageOuts []pageOut
	released []release
	// fresh tasks have come; see inputs.
	fresh []*task

	// changed records are written and shown, shown tasks are only shown; written are
	// specifications, and deleted the tasks of which nothing is kept. metaChanged tells of
	// what is durable beside tasks.
	changed, shown map[*task]struct{}
	written        map[headrace.TaskID]*proc.Spec
	deleted        []headrace.TaskID
	metaChanged    bool

	// after is what to do when all that is durable.
	after []func()
}

// pageOut is memory of a suspended task that is to be written to swap.
type pageOut struct {
	task  *task
	bytes int64
}

// release is a task that a user wants back, if the policy agrees.
type release struct {
	task *task
	call *call
}

// told answers the release once the policy was asked: when the task is brought back, or
// at once if it has to wait.
func (r release) told(u *turn) {
	if op := r.task.op; op != nil && op.kind.BringsBack() {
		op.calls = append(op.calls, r.call)
		return
	}
	u.answer(r.call, r.task, nil)
}

func newTurn(d *driver) *turn {
	return &turn{driver: d, changed: map[*task]struct{}{}, shown: map[*task]struct{}{}, written: map[headrace.TaskID]*proc.Spec{}}
}

// touch has the task's record written and shown.
func (u *turn) touch(t *task) { u.changed[t] = struct{}{} }

// writeSpec has the task's specification written.
func (u *turn) writeSpec(t *task) { u.written[t.rec.ID] = &t.spec }

// show has the task shown as it is now.
func (u *turn) show(t *task) { u.shown[t] = struct{}{} }

// answer replies to a call: about a task, or, for nil, without one.
func (u *turn) answer(c *call, t *task, err error) {
	u.later(func() {
		r := reply{err: err}
		if t != nil {
			r.task = t.snapshot()
		}
		c.reply <- r
	})
}

// later runs f once everything that the turn has changed is durable. f must not change
// state.
func (u *turn) later(f func()) { u.after = append(u.after, f) }

// background has work done outside the loop once everything that the turn has changed is
// durable, and what it returns inside.
func (u *turn) background(work func(ctx context.Context) func()) {
	u.later(func() { u.driver.run(work) })
}

// batch returns what has to be made durable.
func (u *turn) batch() journal.Batch {
	b := journal.Batch{Specs: u.written, Deleted: u.deleted}
	for t := range u.changed {
		if !slices.Contains(u.deleted, t.rec.ID) {
			b.Records = append(b.Records, &t.rec)
		}
	}
	return b
}

// snapshots are of the tasks that look different now.
func (u *turn) snapshots() []*board.Task {
	all := make([]*board.Task, 0, len(u.changed)+len(u.shown))
	for t := range u.changed {
		if !slices.Contains(u.deleted, t.rec.ID) {
			all = append(all, t.snapshot())
		}
	}
	for t := range u.shown {
		if _, ok := u.changed[t]; !ok {
			all = append(all, t.snapshot())
		}
	}
	return all
}

// perform does what was to follow, and makes room for the next turn.
func (u *turn) perform() {
	after := u.after
	clear(u.changed)
	clear(u.shown)
	clear(u.written)
	u.deleted, u.metaChanged, u.after = nil, false, nil
	for _, f := range after {
		f()
	}
}
