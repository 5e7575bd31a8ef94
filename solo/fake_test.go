package solo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"headrace"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/checkpoint"
)

// world is an in-memory machine: supervisors, their processes, recorded ends
// and checkpoints. It outlives the daemons that use it through connections, and
// it watches that no task ever runs twice.
type world struct {
	dir string

	mu     sync.Mutex
	things map[headrace.TaskID]*thing
	faults []string
	cpus   map[headrace.TaskID]float64
	slots  float64       // never more may run; 0: whatever
	clock  time.Duration // makes every recorded end distinct
	boot   string        // of the present daemon
}

// thing is everything outside the daemon that belongs to one task.
type thing struct {
	shim      *shim
	spec      proc.Spec // of the last start
	exit      *proc.Exit
	images    map[string][]ImageInfo
	starts    int // attempts from the beginning
	begun     time.Duration
	begunIn   string // which boot
	completed int    // ends of the command by itself
	seq       int
	resident  int64
	swapped   int64
	ratio     float64
	share     float64 // that it says is done
	toRead    int64   // of a checkpoint; 0: as much as it has in memory
	noDump    error
	dumpedBy  proc.CheckpointOptions // of the last dump
	noRestore error
	restores  int // attempts
	positions map[linux.FileID]int64
	locked    bool // a dump holds its connections
	unreached bool // its directory was replaced: its supervisor does not answer
}

// shim is a supervisor; state Checkpointed means that it has no processes.
type shim struct {
	state  headrace.TaskState
	exited chan struct{}
	exit   proc.Exit
	ran    time.Duration
	saved  time.Duration
	// outside is why it is not in its cgroup.
	outside string
	// continued is how often somebody has continued it while it was suspended.
	continued int
}

func newWorld(dir string) *world {
	return &world{dir: dir, things: map[headrace.TaskID]*thing{}, cpus: map[headrace.TaskID]float64{}}
}

func (w *world) thing(id headrace.TaskID) *thing {
	t := w.things[id]
	if t == nil {
		t = &thing{images: map[string][]ImageInfo{}, resident: 100 << 20, ratio: 1, share: -1}
		w.things[id] = t
	}
	return t
}

// countRunning complains when more run than there are slots.
func (w *world) countRunning() {
	var sum float64
	for id, t := range w.things {
		if t.shim != nil && t.shim.state == headrace.Running {
			sum += w.cpus[id]
		}
	}
	if w.slots > 0 && sum > w.slots+1e-9 {
		w.fault("%v processors are used, there are %v", sum, w.slots)
	}
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// with calls f with the task's things.
func (w *world) with(id headrace.TaskID, f func(t *thing)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.thing(id))
}

// finish ends the command of a running task by itself and reports whether it
// was running.
func (w *world) finish(id headrace.TaskID, code int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.thing(id)
	if t.shim == nil || t.shim.state != headrace.Running {
		return false
	}
	t.completed++
	w.end(t, proc.Exit{Code: code})
	return true
}

// end records an end and makes the supervisor go.
func (w *world) end(t *thing, e proc.Exit) {
	s := t.shim
	w.clock += time.Nanosecond
	e.At = time.Now().Round(0).Add(w.clock)
	e.Usage = proc.Usage{User: s.ran, Running: s.ran}
	t.exit = &e
	s.exit, s.state, t.shim = e, headrace.Done, nil
	close(s.exited)
}

// vanish kills the supervisor, and with it the processes, without a record.
func (w *world) vanish(id headrace.TaskID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(w.thing(id))
}

func (w *world) drop(t *thing) {
	s := t.shim
	if s == nil {
		return
	}
	s.exit, s.state, t.shim = proc.Exit{Code: 137, Signal: 9, Lost: true, At: time.Now()}, headrace.Lost, nil
	close(s.exited)
}

// reboot ends all processes.
func (w *world) reboot() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.things {
		w.drop(t)
	}
}

// state returns what the processes of a task do; Pending without a supervisor.
func (w *world) state(id headrace.TaskID) headrace.TaskState {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.thing(id).shim; s != nil {
		return s.state
	}
	return headrace.Pending
}

// conn is what one daemon sees of the world. After cut, which is what a killed
// daemon's hands are like, nothing gets through any more.
type conn struct {
	*world
	mu sync.Mutex
	// before and after are called around each effect, with its name; an error
	// stands for a failure of the operation, and they may cut the connection.
	before, after func(op string, id headrace.TaskID) error
	gone          bool
	// dumping and restoring are called when a dump or a restore begins; it goes on when
	// the channel is closed.
	dumping, restoring func(id headrace.TaskID) <-chan struct{}
	// concluding is called when what is kept of a task is to be let go of.
	concluding func(id headrace.TaskID)
	// mute are the supervisors of all tasks, and silent is told so.
	mute   *mute
	silent func(headrace.TaskID, error)
}

// mute has supervisors stand still that are asked for something, from begin to end: before they have done it, or before they answer.
type mute struct {
	what string
	done bool
	over atomic.Pointer[chan struct{}]
}

func (m *mute) begin() {
	over := make(chan struct{})
	m.over.Store(&over)
}

func (m *mute) end() { close(*m.over.Swap(nil)) }

func (m *mute) stand(ctx context.Context, what string, done bool, tell func(error)) error {
	if m == nil || m.what != what || m.done != done {
		return nil
	}
	over := m.over.Load()
	if over == nil {
		return nil
	}
	tell(fmt.Errorf("%s: %w", what, proc.ErrNoAnswer))
	defer tell(nil)
	select {
	case <-*over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *conn) Watch(silent func(headrace.TaskID, error)) { c.silent = silent }

// ask is do of what a supervisor is asked for.
func (c *conn) ask(ctx context.Context, op string, id headrace.TaskID, f func(t *thing) error) error {
	tell := func(err error) { c.silent(id, err) }
	err := c.mute.stand(ctx, op, false, tell)
	if err == nil {
		err = c.do(op, id, f)
	}
	if err == nil {
		err = c.mute.stand(ctx, op, true, tell)
	}
	return err
}

var errCut = errors.New("this daemon is dead")

// cut waits for an effect that has begun: none follows it.
func (c *conn) cut() {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
}

func (c *conn) dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

func (c *conn) do(op string, id headrace.TaskID, f func(t *thing) error) error {
	if c.dead() {
		return errCut
	}
	if c.before != nil {
		if err := c.before(op, id); err != nil {
			return err
		}
	}
	c.world.mu.Lock()
	if c.dead() {
		c.world.mu.Unlock()
		return errCut
	}
	err := f(c.thing(id))
	c.countRunning()
	c.world.mu.Unlock()
	if c.after != nil && err == nil {
		err = c.after(op, id)
	}
	if c.dead() {
		return errCut
	}
	return err
}

func (c *conn) begin(t *thing, id headrace.TaskID) *shim {
	if t.shim != nil {
		c.fault("task %s is given a second supervisor", id)
	}
	s := &shim{state: headrace.Running, exited: make(chan struct{})}
	t.shim = s
	return s
}

func (c *conn) Start(ctx context.Context, spec proc.Spec, _ proc.Stdio) (Task, error) {
	var live Task
	err := c.ask(ctx, "start", spec.ID, func(t *thing) error {
		if t.starts > 0 && t.exit != nil {
			c.fault("task %s is started without a reset", spec.ID)
		}
		t.starts++
		t.spec = spec
		c.mark(t)
		live = &fakeTask{c, spec.ID, c.begin(t, spec.ID)}
		if spec.Argv[0] == "/does/not/exist" {
			c.end(t, proc.Exit{Code: 127, StartError: "exec /does/not/exist: no such file or directory"})
		}
		return nil
	})
	return live, err
}

func (c *conn) Hold(ctx context.Context, spec proc.Spec, _ proc.Stdio) (Task, error) {
	var live Task
	err := c.ask(ctx, "hold", spec.ID, func(t *thing) error {
		t.spec = spec
		live = &fakeTask{c, spec.ID, c.begin(t, spec.ID)}
		t.shim.state = headrace.Checkpointed // no processes
		return nil
	})
	return live, err
}

func (c *conn) Attach(_ context.Context, id headrace.TaskID) (Task, error) {
	var live Task
	err := c.do("attach", id, func(t *thing) error {
		if t.shim == nil || t.unreached {
			return fmt.Errorf("attach: %w", proc.ErrGone)
		}
		live = &fakeTask{c, id, t.shim}
		return nil
	})
	return live, err
}

func (c *conn) Tasks() (ids []headrace.TaskID, err error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	for id, t := range c.things {
		if t.starts > 0 || t.shim != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (c *conn) Supervisors() (map[headrace.TaskID]int, error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	pids := map[headrace.TaskID]int{}
	for id, t := range c.things {
		if t.shim != nil {
			pids[id] = 1 + len(pids)
		}
	}
	return pids, nil
}

func (c *conn) Unreached(id headrace.TaskID) (err error) {
	c.world.with(id, func(t *thing) {
		if t.shim != nil && t.unreached {
			err = fmt.Errorf("%w: its supervisor cannot be reached", proc.ErrNotNow)
		}
	})
	return err
}

func (c *conn) SpecOf(id headrace.TaskID) (spec proc.Spec, err error) {
	c.world.with(id, func(t *thing) { spec = t.spec })
	return spec, nil
}

func (c *conn) ExitOf(id headrace.TaskID) (e proc.Exit, ok bool, err error) {
	err = c.do("exitof", id, func(t *thing) error {
		if t.exit != nil {
			e, ok = *t.exit, true
		}
		return nil
	})
	return e, ok, err
}

// mark notes that a command begins.
func (c *conn) mark(t *thing) { t.begun, t.begunIn = linux.Clock(), c.boot }

func (c *conn) Begun(id headrace.TaskID, boot string, since time.Duration) (begun bool, err error) {
	err = c.do("begun", id, func(t *thing) error {
		begun = t.begunIn == boot && t.begun >= since
		return nil
	})
	return begun, err
}

func (c *conn) Restore(ctx context.Context, spec proc.Spec, o proc.RestoreOptions) (Task, proc.RestoreResult, error) {
	var live Task
	var res proc.RestoreResult
	if err := until(ctx, c.restoring, spec.ID); err != nil {
		return nil, res, err
	}
	if o.StoreID != "" {
		if _, err := checkpoint.Open(o.Store, checkpoint.Options{ID: o.StoreID}); err != nil {
			return nil, res, fmt.Errorf("%w: %w", proc.ErrNotNow, err)
		}
	}
	err := c.ask(ctx, "restore", spec.ID, func(t *thing) error {
		if t.shim != nil && t.shim.state != headrace.Checkpointed {
			return fmt.Errorf("restore: %w: it is %s", proc.ErrState, t.shim.state)
		}
		images := t.images[o.Store]
		if len(images) == 0 {
			return fmt.Errorf("restore: %w", proc.ErrNoImage)
		}
		if t.restores++; t.noRestore != nil {
			return t.noRestore
		}
		im := images[len(images)-1]
		if !spec.Attached {
			c.mark(t)
		}
		if t.shim == nil {
			c.begin(t, spec.ID)
		}
		t.shim.state, t.shim.saved = headrace.Running, t.shim.ran
		res = proc.RestoreResult{Seq: im.Seq, Read: im.ToRead}
		live = &fakeTask{c, spec.ID, t.shim}
		return nil
	})
	return live, res, err
}

func (c *conn) End(_ context.Context, id headrace.TaskID) error {
	if err := c.Unreached(id); err != nil {
		return err
	}
	return c.do("end", id, func(t *thing) error {
		c.drop(t)
		return nil
	})
}

func (c *conn) Conclude(id headrace.TaskID) error {
	if c.dead() {
		return errCut
	}
	if c.concluding != nil {
		c.concluding(id)
	}
	c.world.with(id, func(t *thing) { t.locked = false })
	return nil
}

func (c *conn) Reset(_ context.Context, spec proc.Spec) error {
	if err := c.Unreached(spec.ID); err != nil {
		return err
	}
	return c.do("reset", spec.ID, func(t *thing) error {
		c.drop(t)
		t.exit = nil
		return nil
	})
}

func (c *conn) SharingOutput(headrace.TaskID, []headrace.TaskID) ([]headrace.TaskID, error) {
	return nil, nil
}

func (c *conn) Remove(_ context.Context, id headrace.TaskID) error {
	return c.do("remove", id, func(t *thing) error {
		c.drop(t)
		t.exit = nil
		return nil
	})
}

func (c *conn) Program() (string, error) { return "/headrace-shim", nil }

func (c *conn) Logs(id headrace.TaskID) (string, string) {
	dir := filepath.Join(c.dir, "tasks", string(id))
	return filepath.Join(dir, "stdout"), filepath.Join(dir, "stderr")
}

// fakeImages is the storage side of a connection.
type fakeImages struct{ *conn }

func (c fakeImages) Latest(store, _ string, id headrace.TaskID) (im ImageInfo, ok bool, err error) {
	err = c.do("latest", id, func(t *thing) error {
		if l := t.images[store]; len(l) > 0 {
			im, ok = l[len(l)-1], true
		}
		return nil
	})
	return im, ok, err
}

func (c fakeImages) Collect(store, _ string, id headrace.TaskID) error {
	return c.do("collect", id, func(t *thing) error {
		if l := t.images[store]; len(l) > 1 {
			t.images[store] = l[len(l)-1:]
		}
		return nil
	})
}

func (c fakeImages) Remove(store, _ string, id headrace.TaskID) error {
	return c.do("remove images", id, func(t *thing) error {
		delete(t.images, store)
		return nil
	})
}

func (c fakeImages) Measure(context.Context, string) (float64, float64, error) {
	return 1e9, 1e9, nil
}

// until waits as long as a hook says, if there is one.
func until(ctx context.Context, hook func(headrace.TaskID) <-chan struct{}, id headrace.TaskID) error {
	if hook == nil {
		return nil
	}
	select {
	case <-hook(id):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fakeTask is a connection to a supervisor.
type fakeTask struct {
	c  *conn
	id headrace.TaskID
	s  *shim
}

func (f *fakeTask) do(ctx context.Context, op string, do func(t *thing) error) error {
	return f.c.ask(ctx, op, f.id, func(t *thing) error {
		if t.shim != f.s {
			return fmt.Errorf("%s: %w", op, proc.ErrGone)
		}
		return do(t)
	})
}

func (f *fakeTask) want(states ...headrace.TaskState) error {
	for _, s := range states {
		if f.s.state == s {
			return nil
		}
	}
	return fmt.Errorf("%w: it is %s", proc.ErrState, f.s.state)
}

func (f *fakeTask) Suspend(ctx context.Context, _ time.Duration) (r proc.SuspendResult, err error) {
	return r, f.do(ctx, "suspend", func(*thing) error {
		if err := f.want(headrace.Running); err != nil {
			return err
		}
		f.s.state = headrace.Suspended
		return nil
	})
}

func (f *fakeTask) Dismiss(ctx context.Context) error {
	return f.do(ctx, "dismiss", func(t *thing) error {
		if err := f.want(headrace.Checkpointed); err != nil {
			return err
		}
		f.c.drop(t)
		return nil
	})
}

func (f *fakeTask) Resume(ctx context.Context) error {
	return f.do(ctx, "resume", func(*thing) error {
		if err := f.want(headrace.Suspended); err != nil {
			return err
		}
		f.s.state = headrace.Running
		return nil
	})
}

func (f *fakeTask) PageOut(ctx context.Context, bytes int64) (int64, error) {
	err := f.do(ctx, "pageout", func(t *thing) error {
		if err := f.want(headrace.Suspended); err != nil {
			return err
		}
		bytes = min(bytes, t.resident)
		t.resident -= bytes
		t.swapped += bytes
		return nil
	})
	return bytes, err
}

func (f *fakeTask) PageIn(ctx context.Context) (n int64, err error) {
	err = f.do(ctx, "pagein", func(t *thing) error {
		n = t.swapped
		t.resident += n
		t.swapped = 0
		return nil
	})
	return n, err
}

func (f *fakeTask) Positions() (at map[linux.FileID]int64, err error) {
	err = f.do(context.Background(), "positions", func(t *thing) error { at = t.positions; return nil })
	return at, err
}

func (f *fakeTask) Start(ctx context.Context) error {
	return f.do(ctx, "start held", func(t *thing) error {
		if err := f.want(headrace.Checkpointed); err != nil {
			return err
		}
		t.starts++
		f.s.state = headrace.Running
		return nil
	})
}

func (f *fakeTask) RestoreMoved(ctx context.Context, o proc.RestoreOptions) (r proc.RestoreResult, err error) {
	if err := until(ctx, f.c.restoring, f.id); err != nil {
		return r, err
	}
	err = f.do(ctx, "restore moved", func(t *thing) error {
		if err := f.want(headrace.Checkpointed); err != nil {
			return err
		}
		images := t.images[o.Store]
		if len(images) == 0 || t.noRestore != nil {
			return errors.Join(proc.ErrNoImage, t.noRestore)
		}
		im := images[len(images)-1]
		f.s.state = headrace.Running
		r = proc.RestoreResult{Seq: im.Seq, Read: im.ToRead}
		return nil
	})
	return r, err
}

func (f *fakeTask) Checkpoint(ctx context.Context, o proc.CheckpointOptions) (r proc.CheckpointResult, err error) {
	if err := until(ctx, f.c.dumping, f.id); err != nil {
		return r, err
	}
	err = f.do(ctx, "checkpoint", func(t *thing) error {
		if err := f.want(headrace.Running, headrace.Suspended); err != nil {
			return err
		}
		if t.noDump != nil {
			return t.noDump
		}
		t.seq++
		t.dumpedBy = o
		chain := len(t.images[o.Store]) + 1
		stored := int64(float64(t.resident) * t.ratio)
		toRead := cmp.Or(t.toRead, t.resident)
		im := ImageInfo{Seq: t.seq, Chain: chain, Stored: stored, Total: t.resident, ToRead: toRead, At: time.Now(), Asked: o.Asked}
		t.images[o.Store] = append(t.images[o.Store], im)
		f.s.state, f.s.saved = headrace.Checkpointed, f.s.ran
		r = proc.CheckpointResult{Seq: im.Seq, Chain: chain, Stored: stored, Total: t.resident, ToRead: toRead}
		return nil
	})
	return r, err
}

func (f *fakeTask) Kill(ctx context.Context, _ time.Duration) error {
	err := f.do(ctx, "kill", func(t *thing) error {
		f.c.end(t, proc.Exit{Code: 143, Signal: 15})
		return nil
	})
	if errors.Is(err, proc.ErrGone) {
		return nil
	}
	return err
}

func (f *fakeTask) KillForUser(ctx context.Context, _ time.Duration) error {
	err := f.do(ctx, "kill", func(t *thing) error {
		f.c.end(t, proc.Exit{Code: 143, Signal: 15, KilledForUser: true})
		return nil
	})
	if errors.Is(err, proc.ErrGone) {
		return nil
	}
	return err
}

func (f *fakeTask) Stats(context.Context) (st proc.Stats, err error) {
	err = f.c.do("stats", f.id, func(t *thing) error {
		if t.shim != f.s {
			return proc.ErrGone
		}
		if f.s.state == headrace.Running {
			f.s.ran += 10 * time.Millisecond
		}
		st = proc.Stats{
			State: f.s.state, Resident: t.resident, Swapped: t.swapped, Dirty: t.resident + t.swapped, Processes: 1, Share: t.share,
			Continued: f.s.continued, Outside: f.s.outside,
			Usage:        proc.Usage{User: f.s.ran, Running: f.s.ran},
			SinceSaveCPU: f.s.ran - f.s.saved, SinceSaveWall: f.s.ran - f.s.saved,
		}
		return nil
	})
	return st, err
}

func (f *fakeTask) Exited() <-chan struct{} { return f.s.exited }

func (f *fakeTask) Exit() proc.Exit {
	f.c.world.mu.Lock()
	defer f.c.world.mu.Unlock()
	return f.s.exit
}

func (f *fakeTask) Close() {}
