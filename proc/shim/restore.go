package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
	"headrace/internal/criu"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/checkpoint"
	"headrace/proc/reopen"
	"headrace/proc/supplement"
)

// restore brings the task back from its newest checkpoint that is intact. An
// older one is used only if what the task has written since can be taken back.
func (t *task) restore(o proc.RestoreOptions) (proc.RestoreResult, error) {
	t.op.Lock()
	defer t.done()
	var none proc.RestoreResult
	begin := linux.Clock()
	if err := t.life.want(empty); err != nil {
		return none, err
	}
	t.criu = cmp.Or(o.CRIU, t.criu)
	if t.criu == "" {
		return none, fmt.Errorf("restore: %w: CRIU 4.2 or later was not found; headrace doctor says how to get it", proc.ErrUnsupported)
	}
	spec, err := proc.ReadSpec(t.home.dir)
	if err != nil {
		return none, err
	}
	spec.SharedOutput = spec.SharedOutput || o.SharedOutput
	r := restoration{t: t, o: o, spec: t.processes.group.withoutMissing(spec)}
	store, err := checkpoint.Open(o.Store, checkpoint.Options{Compress: o.Compress, ID: o.StoreID, Progress: func(n int) { r.read.Add(int64(n)) }})
	if errors.Is(err, checkpoint.ErrNotThere) && t.lifeline == nil {
		err = errors.Join(err, t.life.dismiss()) // the next supervisor sees what is mounted by then
	}
	if err != nil {
		return none, fmt.Errorf("%w: %w", proc.ErrNotNow, err)
	}
	images, err := store.Images(string(spec.ID))
	if err != nil {
		return none, fmt.Errorf("%w: %w", proc.ErrNotNow, err)
	}
	if r.o.MovedFrom, err = t.movedFrom(o.MovedFrom); err != nil {
		return none, err
	}
	if r.o.MovedFrom != "" {
		if err := t.standInFor(r.o.MovedFrom, r.spec); err != nil {
			return none, err
		}
	}
	res, err := r.newest(store, images)
	if errors.Is(err, checkpoint.ErrVersion) && t.lifeline == nil {
		err = errors.Join(err, t.life.dismiss()) // the next supervisor may be of the newer version
	}
	if err == nil {
		res.Took = linux.Clock() - begin
	}
	return res, err
}

// restoration is one restore of the task.
type restoration struct {
	t    *task
	o    proc.RestoreOptions
	spec proc.Spec
	read atomic.Int64 // bytes of images
}

// candidate is an image that was found intact, and that nobody else changes until done.
type candidate struct {
	seq  int
	sv   saved
	dir  string
	done func() error
}

// newest restores the newest of the images that can be used.
func (r *restoration) newest(store *checkpoint.Store, images []*checkpoint.Image) (res proc.RestoreResult, err error) {
	last := r.o.Last
	for _, im := range images {
		last = max(last, im.Seq)
	}
	for _, im := range slices.Backward(images) {
		if r.o.Seq != 0 && im.Seq != r.o.Seq {
			continue
		}
		verify := linux.Clock()
		c, err := r.openInTime(im)
		res.Verify += linux.Clock() - verify
		if err == nil && (r.o.RanOn || im.Seq < last) {
			if err = c.sv.rewind(r.spec); err != nil {
				changed := errors.Is(err, errChanged)
				if err = errors.Join(err, c.done()); !changed && !passes(err) {
					return res, fmt.Errorf("restore checkpoint %d: %w", im.Seq, err)
				}
			}
		}
		if err == nil {
			// An intact image that CRIU refuses now may be accepted later (a port that
			// is taken, a file that is missing): an older one would lose work.
			if err := r.from(c); err != nil {
				return res, fmt.Errorf("restore checkpoint %d: %w", im.Seq, err)
			}
			res.Seq, res.Read = im.Seq, im.BytesToRead()
			return res, nil
		}
		if r.t.op.isKilled() {
			return res, errKilled
		}
		if !unusable(err) || passes(err) {
			// An older image would lose work that is not lost.
			return res, fmt.Errorf("%w: checkpoint %d: %w", proc.ErrNotNow, im.Seq, err)
		}
		if left := discard(store, err); left != nil {
			return res, fmt.Errorf("%w: checkpoint %d: %v; and %w", proc.ErrNotNow, im.Seq, err, left)
		}
		res.Skipped = append(res.Skipped, fmt.Sprintf("checkpoint %d: %v", im.Seq, err))
	}
	if len(res.Skipped) == 0 {
		return res, fmt.Errorf("%w in %s", proc.ErrNoImage, r.o.Store)
	}
	return res, fmt.Errorf("%w: %s", proc.ErrNoImage, strings.Join(res.Skipped, "; "))
}

// errRecord: what the supervisor knew of the task is not known.
var errRecord = errors.New("nothing is known of its task")

// unusable reports whether an error says of an image that it never can be used again. All others are of
// the machine, such as a store that has become read-only, and say nothing of the image.
func unusable(err error) bool {
	if errors.Is(err, checkpoint.ErrVersion) { // a newer Headrace can use it
		return false
	}
	for _, of := range []error{checkpoint.ErrCorrupt, errChanged, errRecord} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// passes reports whether an image that could not be made ready may be usable the next
// time: somebody else works on the task's images, or the machine lacks something.
func passes(err error) bool {
	return errors.Is(err, checkpoint.ErrBusy) || errors.Is(err, checkpoint.ErrUnreadable) ||
		errors.Is(err, checkpoint.ErrNoSpace) || errors.Is(err, proc.ErrNotNow) || linux.Passing(err)
}

// discard makes sure that no later checkpoint builds on a damaged one.
func discard(store *checkpoint.Store, err error) error {
	var damage *checkpoint.CorruptError
	if !errors.As(err, &damage) {
		return nil
	}
	return store.Discard(damage.Task, damage.Seq)
}

// openInTime is open, given up when it makes no progress or the task is to be
// killed. A read from a dead device may never return, so it is left behind then; else it is
// let clean up, because this process may end with the task.
func (r *restoration) openInTime(im *checkpoint.Image) (candidate, error) {
	ctx, cancel, done := r.t.op.interruptible()
	defer done()
	defer watch(r.t.stallLimit, func() (progress, error) { return progress{bytes: r.read.Load()}, nil }, func(d time.Duration) {
		cancel(fmt.Errorf("%w: the store gave no byte of the images for %v", proc.ErrNotNow, d))
	})()
	var c candidate
	opened := make(chan error, 1)
	go func() {
		var err error
		c, err = r.open(ctx, im)
		opened <- err
	}()
	select {
	case err := <-opened:
		return c, err
	case <-ctx.Done():
	}
	cleaned := make(chan struct{})
	go func() {
		defer close(cleaned)
		if <-opened == nil {
			c.done()
		}
	}()
	select {
	case <-cleaned:
	case <-time.After(cleanPatience):
	}
	return candidate{}, context.Cause(ctx)
}

// cleanPatience is how long a file system may take with what was unpacked of an image, or
// with logs. It is less than what a kill waits for.
const cleanPatience = killLimit / 2

// open checks an image, byte for byte, and makes it ready for CRIU.
func (r *restoration) open(ctx context.Context, im *checkpoint.Image) (c candidate, err error) {
	if im.Err != nil {
		return c, im.Err
	}
	c.seq = im.Seq
	if c.sv, err = parseSaved(im.Meta); err != nil {
		return c, fmt.Errorf("%w: %w", errRecord, err)
	}
	if c.dir, c.done, err = im.Open(ctx, r.o.Scratch); err != nil { // from here on nobody else changes it
		return c, err
	}
	if !im.Compressed { // else it was checked while it was unpacked
		err = im.Verify(ctx, nil)
	}
	if err != nil {
		return c, errors.Join(err, c.done())
	}
	return c, nil
}

// restoreAttempts bounds how often a restore is tried that may succeed the next
// time.
const restoreAttempts = 6

// from brings the task back from an image, and is done with that.
func (r *restoration) from(c candidate) error {
	crash.Here("shim.before-restore")
	defer func() {
		if err := c.done(); err != nil {
			fmt.Fprintf(os.Stderr, "clean up after checkpoint %d: %v\n", c.seq, err)
		}
	}()
	if r.t.lifeline == nil { // else nobody asks
		if err := proc.MarkRestored("."); err != nil {
			return err
		}
	}
	for attempt := 1; ; attempt++ {
		if err := putBack(c.sv.PerfData, r.spec); err != nil {
			return err
		}
		err := r.once(c)
		if err == nil || attempt == restoreAttempts || !transient(err, c.sv) || errors.Is(err, proc.ErrStalled) || r.t.op.isKilled() {
			return err
		}
		fmt.Fprintf(os.Stderr, "restore, attempt %d: %v; it is tried again\n", attempt, err)
		time.Sleep(5 * time.Millisecond << attempt)
	}
}

// transient reports whether what made a restore fail passes. A JVM outside may have
// removed the counters of one in the task at that moment. And the number of a thread
// that has ended is given back later than the process is reaped that it belonged to
// (Linux 6.15 and later), on a busy machine long enough to be in the way.
func transient(err error, sv saved) bool {
	return len(missing(sv.PerfData)) > 0 || strings.Contains(err.Error(), "Unable to create a thread: -17")
}

// once opens the task's files and makes one attempt. The tree comes back stopped, as a
// child of this process, and is continued here.
func (r *restoration) once(c candidate) error {
	d, opened, err := r.showImages(c)
	if err != nil {
		return err
	}
	defer d.Remove()
	defer opened.Close()
	os.Remove(commandExit)
	os.Remove(exitFile) // of an earlier end: the task is not over
	if len(c.sv.CommandExit) > 0 {
		if err := linux.WriteFileDurably(commandExit, c.sv.CommandExit, 0o600); err != nil {
			return err
		}
	}
	p := &r.t.processes
	r.t.life.beginRestore(r.spec)
	p.group.own.Store(&r.spec.Own)
	p.root.Store(int64(c.sv.InitPID))
	var lost []supplement.Lock
	err = r.runCRIU(c.sv, d.Path(), opened, func() error {
		lost, err = r.complete(c.sv, opened, d.Path())
		return err
	})
	if err == nil {
		err = r.adopt(c.sv, lost)
	}
	if err != nil { // what is left is ended
		p.end(0)
		r.t.life.emptied()
		p.root.Store(0)
		return err
	}
	p.leavePIDs()
	r.t.lifeline.tellSaved(false)
	unlock(r.t.home.dir) // it may have come back from an older image than the last
	return r.t.stops.contAtLast()
}

// complete gives the tree that was restored from images, and that CRIU holds, what they lack, and has a look at it. It returns the locks that
// it has lost, which it can take only itself.
func (r *restoration) complete(sv saved, opened *reopen.Opened, images string) ([]supplement.Lock, error) {
	tree, err := r.t.processes.tree()
	if err != nil {
		return nil, err
	}
	if err := opened.Verify(); err != nil {
		return nil, err
	}
	remarks, err := sv.Supplement.PutBack(tree)
	if err != nil {
		return nil, err
	}
	if err := opened.Bind(); err != nil {
		return nil, err
	}
	for _, remark := range remarks {
		fmt.Fprintf(os.Stderr, "restored, but not all as it was: %s\n", remark)
	}
	return supplement.LostLocks(images)
}

// adopt takes the restored tree, stopped, as the task. Whatever somebody continues meanwhile goes on a little early, unless it has to take
// locks first.
func (r *restoration) adopt(sv saved, lost []supplement.Lock) error {
	err := r.t.stops.standStill()
	if err == nil && len(lost) > 0 {
		if err = r.t.takeLocks(lost); err == nil {
			lost, err = nil, r.t.stops.standStill()
		}
	}
	if err != nil && (len(lost) > 0 || !errors.Is(err, proc.ErrNotStopped)) {
		return err
	}
	tree, err := r.t.processes.tree()
	if err != nil {
		return err
	}
	if err := r.t.life.restored(sv, tree); err != nil {
		return err
	}
	r.t.stops.own = make(map[int]bool)
	for _, pid := range sv.SelfStopped {
		r.t.stops.own[pid] = true
	}
	return nil
}

// runCRIU runs criu restore, and calls complete while CRIU holds the restored tree, which it lets go of stopped. CRIU and everything it
// starts before the task take their pids from a range that no image id lies in.
func (r *restoration) runCRIU(sv saved, images string, opened *reopen.Opened, complete func() error) error {
	if err := reservePIDs(sv.IDs); err != nil {
		return err
	}
	const pidFile = "restored.pid"
	os.Remove(pidFile)
	os.Remove(restoreLog)
	inherit, pipes, err := r.t.stdio.inherit(sv.Pipes)
	if err != nil {
		return err
	}
	args := slices.Concat([]string{"in-cgroups", r.t.home.dir}, r.spec.Own.Dirs(), r.spec.Cgroups, []string{
		"--", r.t.criu, "restore", "-D", images, "-W", r.t.home.dir, "-d", "--restore-sibling", "--pidfile", pidFile,
	}, criuCommon, inherit)
	if r.spec.UID == 0 {
		args = append(args, linkRemap)
	}
	h, err := newHook(atRestored, filepath.Dir(images))
	if err != nil {
		return err
	}
	defer h.close()
	args = append(args, "--leave-stopped", "--action-script", h.script)
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	log, err := criuLog()
	if err != nil {
		return err
	}
	defer log.Close()
	backInLimits := r.spec.Own.Relax() // CRIU itself needs some memory and processes
	defer func() {
		if err := backInLimits(); err != nil {
			fmt.Fprintf(os.Stderr, "limit the task again: %v\n", err)
		}
	}()
	p := &r.t.processes
	var failed, calledOff error
	asked, incomplete := h.during(func() {
		failed, calledOff = r.t.work(args, append([]uintptr{null.Fd(), log.Fd(), log.Fd()}, pipes...), p.everything,
			func(int) { p.signal(unix.SIGKILL) })
	}, func() error {
		err := complete()
		if err != nil { // CRIU would let go of it
			p.signal(unix.SIGKILL)
		}
		return err
	})
	p.helpers.Store(0)
	keepLog(log, ".", restoreLog)
	if calledOff != nil {
		return fmt.Errorf("restore: %w", calledOff)
	}
	if incomplete != nil {
		return incomplete
	}
	if failed != nil {
		failure := criuFailure("CRIU could not restore the task", failed, log, opened.Explain)
		if criu.Lacking(failure.Error()) {
			return fmt.Errorf("%w: %w", proc.ErrNotNow, failure)
		}
		return failure
	}
	if !asked {
		return errors.New("CRIU has restored the task without asking for what the images lack")
	}
	return lastPID(maxID(sv.IDs))
}
