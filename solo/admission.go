package solo

import (
	"errors"
	"fmt"
	"math"

	"headrace"
	"headrace/internal/budget"
	"headrace/limits"
	"headrace/policy"
	"headrace/report"
	"headrace/serve"
	"headrace/solo/board"
	"headrace/solo/journal"
	"headrace/solo/store"
)

const (
	// maxUnended is how many tasks may be queued and running, of all users together.
	maxUnended = 100000
	// reservedForRoot is the part of it that only root and the daemon's own user get.
	reservedForRoot = 1000
)

// admission decides who may have tasks in the queue, and what of them may run now, by
// the limits of users.
type admission struct {
	*core
	// uses is what users have in the queue, nil until somebody asks in a turn.
	uses map[uint32]limits.Use
	// turns says when users last had a task of a priority started or brought back, starts counts
	// these. A daemon that starts again does not know them: then it goes by submission.
	turns  map[owner]uint64
	starts uint64
}

// owner is a user's tasks of one priority.
type owner struct {
	uid      uint32
	priority headrace.Priority
}

// had takes note that a task was started or brought back: its owner has had a turn.
func (a *admission) had(t *task) {
	if a.turns == nil {
		a.turns = map[owner]uint64{}
	}
	a.starts++
	a.turns[owner{t.rec.UID, t.rec.Priority}] = a.starts
}

// refuses tells why n tasks cannot be accepted now; nil: they can.
func (a *admission) refuses(n int) error {
	switch {
	case a.stopping:
		return serve.ErrStopping
	case a.ledger.full:
		return fmt.Errorf("%w: the file system of %s is full; make room and ask again", serve.ErrBusy, a.cfg.StateDir)
	case len(a.tasks.active)+n > maxUnended:
		return fmt.Errorf("%w: %d tasks are waiting or running already; wait until some have ended", serve.ErrBusy, len(a.tasks.active))
	}
	return nil
}

// admit puts a new task into the queue.
func (a *admission) admit(t *task) {
	a.tasks.order = max(a.tasks.order, a.stores.Last) + 1
	a.metaChanged = true
	t.rec.Order = a.tasks.order
	if !t.hosted() {
		t.rec.ID = taskID(a.tasks.order)
	}
	t.spec.ID = t.rec.ID
	t.rec.SpecBytes = t.specBytes()
	t.rec.State = headrace.Pending
	t.rec.SubmittedMs = a.clk.wall().UnixMilli()
	a.sinceNow(t)
	t.rec.Reason = board.WaitsForSlot
	if t.rec.Held {
		t.rec.Reason = "held by a user; to start it: headrace resume " + string(t.rec.ID)
	}
	t.rec.Note(journal.Event{AtMs: t.rec.SubmittedMs, State: headrace.Pending.String()})
	a.tasks.add(t)
	a.admitted(t)
	a.writeSpec(t)
	a.touch(t)
	a.inputs.expect(t)
	a.redecide = true
}

// limitsOf returns the limits of the task's owner.
func (a *admission) limitsOf(t *task) limits.Limits {
	if budget.Privileged(t.rec.UID) {
		return limits.Unlimited()
	}
	return a.cfg.Limits.Now().Of(limits.Who{UID: t.rec.UID, Name: t.rec.User, GID: t.spec.GID, Groups: t.spec.Groups})
}

// refusesFrom tells why tasks, which are alike, cannot be accepted from a user;
// nil: they can.
func (a *admission) refusesFrom(by serve.Viewer, tasks []*task) error {
	if err := a.refuses(len(tasks)); err != nil || by.All {
		return err
	}
	if len(a.tasks.active)+len(tasks) > maxUnended-reservedForRoot {
		return fmt.Errorf("%w: %d tasks of all users are waiting or running already, and the rest of %d is kept for root; wait until some have ended",
			serve.ErrBusy, len(a.tasks.active), maxUnended)
	}
	t := tasks[0]
	ask := limits.Ask{Tasks: int64(len(tasks)), Priority: t.rec.Priority, CPUs: t.rec.CPUs, Memory: t.rec.Memory}
	for _, t := range tasks { // of those that share an input only the first has its paths
		ask.SpecBytes += t.specBytes()
	}
	if have := a.specBytesOfOthers(); have+ask.SpecBytes > a.cfg.SpecBytes {
		return fmt.Errorf("%w: commands, environments and paths of inputs of all users' tasks take %s already, and %s are kept for them; wait until some have ended",
			serve.ErrBusy, report.Bytes(have), report.Bytes(a.cfg.SpecBytes))
	}
	err := a.limitsOf(t).Refuse(t.rec.User, a.cfg.Limits.Now().File(), ask, a.useOf(t.rec.UID))
	var r *limits.Refusal
	switch {
	case !errors.As(err, &r):
		return err
	case r.Key == "waiting" || r.Key == "spec-bytes":
		return fmt.Errorf("%w: %w", serve.ErrBusy, err)
	}
	return fmt.Errorf("%w: %w", serve.ErrDenied, err)
}

// refusesGrace tells why the grace of a request is too long for who has made it.
func (a *admission) refusesGrace(t *task, c *call) error {
	if c.by.All || c.ordered {
		return nil
	}
	if err := a.limitsOf(t).RefuseGrace(t.rec.User, a.cfg.Limits.Now().File(), c.grace); err != nil {
		return fmt.Errorf("%w: %w", serve.ErrDenied, err)
	}
	return nil
}

// deletedRoom returns how many bytes deleted files that a task has open may add to its checkpoint: what the store
// has left beside its memory, and its owner's limit unless root asks. They are not measured before the dump.
// It is at least 1, so that it is a bound.
func (a *admission) deletedRoom(t *task, st *store.Store, asked *call) int64 {
	room := int64(math.MaxInt64)
	if free := a.stores.Room(st); free >= 0 {
		room = free - t.dump().Writes(st)
	}
	if !t.hosted() && !budget.Privileged(t.rec.UID) && (asked == nil || !asked.by.All) {
		room = min(room, a.limitsOf(t).CheckpointBytes-a.otherCheckpoints(t).CheckpointBytes-t.memory())
	}
	return max(room, 1)
}

// otherCheckpoints returns what a task's owner has, without the task's checkpoint, which the next one replaces.
func (a *admission) otherCheckpoints(t *task) limits.Use {
	use := a.useOf(t.rec.UID)
	use.CheckpointBytes -= t.checkpointBytes()
	return use
}

// promised counts with what a task's owner has that a dump of it was decided; had is what it had of checkpoints before.
func (a *admission) promised(t *task, had int64) {
	if u, ok := a.uses[t.rec.UID]; ok && !t.hosted() {
		u.CheckpointBytes += t.checkpointBytes() - had
		a.uses[t.rec.UID] = u
	}
}

// refusesCheckpoint tells why a task may not be checkpointed, for what its owner's checkpoints hold and are to hold; nil: it may. One that
// replaces another one counts once.
func (a *admission) refusesCheckpoint(t *task) error {
	if t.hosted() || budget.Privileged(t.rec.UID) {
		return nil
	}
	return a.limitsOf(t).RefuseCheckpoint(t.rec.User, a.cfg.Limits.Now().File(), t.memory(), a.otherCheckpoints(t))
}

// asideShare is the part of the memory for tasks that may be held by what users other than
// root have suspended by hand. Nothing has that leave but its owner.
const asideShare = 0.5

// refusesSuspend tells why a task may not be suspended by hand, for the memory that is held
// by what is suspended so; nil: it may.
func (a *admission) refusesSuspend(t *task) error {
	if t.setAside() {
		return nil
	}
	return a.refusesAside(t)
}

// refusesAside is refusesSuspend of a task that has just been suspended too: until then it may have grown.
func (a *admission) refusesAside(t *task) error {
	if t.hosted() || budget.Privileged(t.rec.UID) {
		return nil
	}
	var all, mine int64
	for _, other := range a.tasks.active {
		if other != t && !other.setAside() || other.hosted() || budget.Privileged(other.rec.UID) {
			continue
		}
		if other.rec.State == headrace.Suspended && other.live != nil && !other.known {
			return fmt.Errorf("%w: how much memory task %s holds, which is suspended, is being measured; try again", serve.ErrBusy, other.rec.ID)
		}
		if other == t {
			continue
		}
		all += other.memory()
		if other.rec.UID == t.rec.UID {
			mine += other.memory()
		}
	}
	if err := a.limitsOf(t).RefuseSuspend(t.rec.User, a.cfg.Limits.Now().File(), t.memory(), mine); err != nil {
		return fmt.Errorf("%w: %w", serve.ErrBusy, err)
	}
	if most := int64(asideShare * float64(a.cfg.Memory)); all+t.memory() > most {
		return fmt.Errorf("%w: tasks that users have suspended hold %s of memory already, and may hold %s; checkpoint or kill it instead, or have others go on",
			serve.ErrBusy, report.Bytes(all), report.Bytes(most))
	}
	return nil
}

// specBytesOfOthers returns the size of the commands, environments and paths of inputs of all
// users but root and the daemon's own, in bytes.
func (a *admission) specBytesOfOthers() (total int64) {
	a.useOf(0)
	for uid, u := range a.uses {
		if !budget.Privileged(uid) {
			total += u.SpecBytes
		}
	}
	return total
}

// useOf returns what a user has in the queue. It is added up at most once a turn: what
// is admitted meanwhile is added by admitted, what ends counts from the next turn.
func (a *admission) useOf(uid uint32) limits.Use {
	if a.uses == nil {
		a.uses = map[uint32]limits.Use{}
		for _, t := range a.tasks.active {
			a.admitted(t)
		}
		for t := range a.tasks.lostSaved() {
			u := a.uses[t.rec.UID]
			u.CheckpointBytes += t.checkpointBytes()
			a.uses[t.rec.UID] = u
		}
	}
	return a.uses[uid]
}

// admitted counts a task with what its owner has in the queue.
func (a *admission) admitted(t *task) {
	if a.uses == nil || t.hosted() {
		return
	}
	u := a.uses[t.rec.UID]
	if !t.holdsSlot() {
		u.Waiting++
	}
	u.SpecBytes += t.rec.SpecBytes
	u.CheckpointBytes += t.checkpointBytes()
	a.uses[t.rec.UID] = u
}

// specBytes returns the size of what is kept of a task's command and of what it is to read, in bytes.
func (t *task) specBytes() int64 {
	n := len(t.spec.Cwd) + len(t.spec.Output) + len(t.spec.Stdin)
	lists := [][]string{t.spec.Argv, t.spec.Env}
	if in := t.rec.Input; in != nil {
		lists = append(lists, in.Paths)
	}
	for _, list := range lists {
		for _, s := range list {
			n += len(s) + 16 // and its place in the list
		}
	}
	return int64(n)
}

// restrain applies the limits of users, and their equal shares, to what the policy
// is shown of tasks: who may not run yet is barred, and what is more than a share
// while others wait with less counts one step less within its band, and as if it had not waited. For those
// who are as urgent as it was handed in it is not killed: a share is no reason to throw work
// away.
func (a *admission) restrain(views []headrace.TaskView, tasks []*task) {
	claims := make([]limits.Claim, len(views))
	for i := range views {
		claims[i] = claimOf(&views[i], tasks[i].rec.UID)
		claims[i].Turn = a.turns[owner{claims[i].UID, claims[i].Priority}]
	}
	wants := make([]int, 0, len(views)) // those that run or may, and what is set aside
	for i, t := range tasks {
		t.limited = ""
		if !views[i].Held || claims[i].Aside || claims[i].Has { // also what runs and could not be ended
			wants = append(wants, i)
		}
	}
	some := pick(claims, wants)
	held := limits.Hold(some, func(i int) limits.Limits { return a.limitsOf(tasks[wants[i]]) })
	free := make([]int, 0, len(wants))
	for k, i := range wants {
		why, is := held[k]
		if !is {
			free = append(free, i)
			continue
		}
		views[i].Barred, tasks[i].limited = true, why
		views[i].Priority -= min(views[i].Priority, 1) // its memory is also for who is as urgent, and may run
	}
	for _, t := range tasks {
		a.noteLimit(t)
	}
	for k := range limits.Beyond(pick(claims, free), a.cfg.Slots, a.cfg.Memory) {
		i := free[k]
		if claims[i].Has && a.cfg.Policy.Policy == policy.Kill {
			continue // it leaves for nobody by anything else
		}
		views[i].NoKill = max(views[i].NoKill, views[i].Priority)
		views[i].Priority--
		views[i].Beyond = true
		views[i].Waiting, views[i].Waited = 0, 0
	}
}

// noteLimit records that a limit of its owner begins to hold t back, or does so no longer: then its
// wait begins, also when the daemon was started again meanwhile.
func (a *admission) noteLimit(t *task) {
	is := t.limited != ""
	if is == t.rec.Limited || t.rec.State == headrace.Running { // one that is leaving waits when it has left
		return
	}
	if t.rec.Limited = is; !is {
		a.sinceNow(t)
		t.rec.Waited = 0
	}
	a.touch(t)
}

func claimOf(v *headrace.TaskView, uid uint32) limits.Claim {
	c := limits.Claim{UID: uid, Priority: v.Priority, CPUs: v.CPUs, Memory: v.MemoryRequest}
	c.Has = v.Starting || v.State == headrace.Running && !v.Leaving
	c.Leaves = v.State == headrace.Running && v.Leaving
	c.Begun = !c.Has && v.State != headrace.Pending
	c.Aside = v.Held && v.State == headrace.Suspended
	switch {
	case c.Aside:
		c.CPUs, c.Memory = 0, max(c.Memory, v.Resident+v.Swapped)
	case c.Has || c.Begun:
		c.Memory = max(c.Memory, v.Resident)
	}
	return c
}

func pick(claims []limits.Claim, which []int) []limits.Claim {
	some := make([]limits.Claim, len(which))
	for k, i := range which {
		some[k] = claims[i]
	}
	return some
}

// taskID returns the id of the n-th task that was handed in.
func taskID(n uint64) headrace.TaskID { return headrace.TaskID(fmt.Sprintf("t%d", n)) }
