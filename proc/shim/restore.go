package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/checkpoint"
	"headrace/proc/reopen"
)

// restore brings the task back from its newest checkpoint that is intact. An
// older one is used only if what the task has written since can be taken back.
func (s *supervisor) restore(o proc.RestoreOptions) (proc.RestoreResult, error) {
	s.op.Lock()
	defer s.op.Unlock()
	var res proc.RestoreResult
	begin := linux.Clock()
	if err := s.want(empty); err != nil {
		return res, err
	}
	if s.criu == "" {
		return res, fmt.Errorf("restore: %w: CRIU 4.2 or later was not found; headrace doctor says how to get it", proc.ErrUnsupported)
	}
	spec, err := proc.ReadSpec(s.dir)
	if err != nil {
		return res, err
	}
	spec = withoutMissing(spec)
	var read atomic.Int64
	store, err := checkpoint.Open(o.Store, checkpoint.Options{Compress: o.Compress, Progress: func(n int) { read.Add(int64(n)) }})
	if err != nil {
		return res, fmt.Errorf("%w: %w", proc.ErrNotNow, err)
	}
	images, err := store.Images(string(spec.ID))
	if err != nil {
		return res, fmt.Errorf("%w: %w", proc.ErrNotNow, err)
	}
	if o.MovedFrom != "" {
		if err := s.standInFor(o.MovedFrom, spec); err != nil {
			return res, err
		}
	}
	last := o.Last
	for _, im := range images {
		last = max(last, im.Seq)
	}
	for _, im := range slices.Backward(images) {
		if o.Seq != 0 && im.Seq != o.Seq {
			continue
		}
		verify := linux.Clock()
		sv, dir, done, err := s.openInTime(&read, im, o)
		res.Verify += linux.Clock() - verify
		if err == nil && (o.RanOn || im.Seq < last) {
			if err = sv.rewind(spec); err != nil {
				err = errors.Join(err, done())
			}
		}
		if err == nil {
			crash.Here("shim.before-restore")
			err = s.restoreFrom(spec, sv, dir, o.MovedFrom != "")
			if derr := done(); derr != nil {
				fmt.Fprintf(os.Stderr, "clean up after checkpoint %d: %v\n", im.Seq, derr)
			}
			if err == nil {
				res.Seq, res.Read, res.Took = im.Seq, im.BytesToRead(), linux.Clock()-begin
				return res, nil
			}
			// An intact image that CRIU refuses now may be accepted later (a port that
			// is taken, a file that is missing): an older one would lose work.
			return res, fmt.Errorf("restore checkpoint %d: %w", im.Seq, err)
		}
		if s.isKilled() {
			return res, errKilled
		}
		if passes(err) {
			// An older image would lose work that is not lost.
			return res, fmt.Errorf("%w: checkpoint %d: %v", proc.ErrNotNow, im.Seq, err)
		}
		if err := discard(store, err); err != nil {
			return res, err
		}
		res.Skipped = append(res.Skipped, fmt.Sprintf("checkpoint %d: %v", im.Seq, err))
	}
	if len(res.Skipped) == 0 {
		return res, fmt.Errorf("%w in %s", proc.ErrNoImage, o.Store)
	}
	return res, fmt.Errorf("%w: %s", proc.ErrNoImage, strings.Join(res.Skipped, "; "))
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

// opened is an image that CRIU can be given.
type opened struct {
	sv   saved
	dir  string
	done func() error
	err  error
}

// openInTime is openImage, given up when it makes no progress or the task is to be
// killed. A read from a dead device may never return, so it is left behind then.
func (s *supervisor) openInTime(read *atomic.Int64, im *checkpoint.Image, o proc.RestoreOptions) (saved, string, func() error, error) {
	ctx, cancel, done := s.interruptible()
	defer done()
	defer s.watch(func() (progress, error) { return progress{bytes: read.Load()}, nil }, func(d time.Duration) {
		cancel(fmt.Errorf("%w: the store gave no byte of the images for %v", proc.ErrNotNow, d))
	})()
	result := make(chan opened, 1)
	go func() {
		var i opened
		i.sv, i.dir, i.done, i.err = openImage(ctx, im, o)
		result <- i
	}()
	select {
	case i := <-result:
		return i.sv, i.dir, i.done, i.err
	case <-ctx.Done():
		go func() {
			if i := <-result; i.err == nil {
				i.done()
			}
		}()
		return saved{}, "", nil, context.Cause(ctx)
	}
}

// openImage checks an image, byte for byte, and makes it ready for CRIU.
func openImage(ctx context.Context, im *checkpoint.Image, o proc.RestoreOptions) (saved, string, func() error, error) {
	if im.Err != nil {
		return saved{}, "", nil, im.Err
	}
	sv, err := parseSaved(im.Meta)
	if err != nil {
		return sv, "", nil, err
	}
	dir, done, err := im.Open(ctx, o.Scratch) // from here on nobody else changes it
	if err != nil {
		return sv, "", nil, err
	}
	if !im.Compressed { // else it was checked while it was unpacked
		err = im.Verify(ctx, nil)
	}
	if err != nil {
		return sv, "", nil, errors.Join(err, done())
	}
	return sv, dir, done, nil
}

// restoreAttempts bounds how often a restore is tried that may succeed the next
// time.
const restoreAttempts = 6

// restoreFrom brings the task back from an image.
func (s *supervisor) restoreFrom(spec proc.Spec, sv saved, images string, moved bool) error {
	for attempt := 1; ; attempt++ {
		if err := putBack(sv.PerfData, spec); err != nil {
			return err
		}
		err := s.restoreOnce(spec, sv, images, moved)
		if err == nil || attempt == restoreAttempts || !transient(err, sv) || errors.Is(err, proc.ErrStalled) || s.isKilled() {
			return err
		}
		fmt.Fprintf(os.Stderr, "restore, attempt %d: %v; it is tried again\n", attempt, err)
		time.Sleep(5 * time.Millisecond << attempt)
	}
}

// restoreOnce opens the task's files and makes one attempt.
func (s *supervisor) restoreOnce(spec proc.Spec, sv saved, images string, moved bool) error {
	d, opened, err := s.showImages(spec, sv, images, moved)
	if err != nil {
		return err
	}
	defer d.Remove()
	defer opened.Close()
	return s.tryRestore(spec, sv, d.Path(), opened)
}

// transient reports whether what made a restore fail passes. A JVM outside may have
// removed the counters of one in the task at that moment. And the number of a thread
// that has ended is given back later than the process is reaped that it belonged to
// (Linux 6.15 and later), on a busy machine long enough to be in the way.
func transient(err error, sv saved) bool {
	return len(missing(sv.PerfData)) > 0 || strings.Contains(err.Error(), "Unable to create a thread: -17")
}

func (s *supervisor) isKilled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killing
}

// tryRestore runs CRIU. The tree comes back stopped, as a child of this process,
// and is continued here.
func (s *supervisor) tryRestore(spec proc.Spec, sv saved, images string, opened *reopen.Opened) error {
	os.Remove(commandExit)
	os.Remove(exitFile) // of an earlier end: the task is not over
	if len(sv.CommandExit) > 0 {
		if err := linux.WriteFileDurably(commandExit, sv.CommandExit, 0o600); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.spec, s.initPID, s.expectEnd, s.initDied = spec, sv.InitPID, true, false
	s.mu.Unlock()
	err := s.runRestore(spec, sv, images, opened)
	if err != nil {
		s.abandonRestore()
		return err
	}
	busy, err := s.awaitStopped(linux.Clock() + stopTimeout)
	if err == nil && busy != "" {
		err = fmt.Errorf("the restored tree does not stand still: %s", busy)
	}
	tree, terr := s.tree()
	if err = errors.Join(err, terr); err == nil {
		err = opened.Verify()
	}
	if err != nil {
		s.abandonRestore()
		return err
	}
	remarks, err := sv.Supplement.PutBack()
	if err != nil {
		s.abandonRestore()
		return err
	}
	for _, r := range remarks {
		fmt.Fprintf(os.Stderr, "restored, but not all as it was: %s\n", r)
	}
	if err := s.adopt(sv, tree); err != nil {
		s.abandonRestore()
		return err
	}
	s.leavePIDs()
	return s.cont()
}

// adopt takes a restored tree, still stopped, as the task.
func (s *supervisor) adopt(sv saved, tree []linux.Stat) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.initDied || len(tree) == 0 {
		return errNoInit
	}
	if s.acct.before == (proc.Usage{}) && s.acct.user == 0 && s.acct.runningFor == 0 {
		s.acct.before = sv.Usage // a new supervisor: the old one's count is in the image
	}
	for _, p := range tree {
		s.acct.rebuilt += p.User + p.System
	}
	s.exit.Restored = true
	s.acct.saved(s.acct.total())
	s.expectEnd, s.phase = false, stopped
	s.startRead = make(chan struct{})
	close(s.startRead)
	if s.commandGroup == 0 {
		s.commandGroup = sv.CommandGroup
	}
	s.selfStopped = make(map[int]bool)
	for _, pid := range sv.SelfStopped {
		s.selfStopped[pid] = true
	}
	return nil
}

// abandonRestore ends what a failed restore has left.
func (s *supervisor) abandonRestore() {
	s.endTree(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase, s.expectEnd, s.initPID, s.exit.Restored = empty, false, 0, false
}

// runRestore runs criu restore. CRIU and everything it starts before the task
// take their pids from a range that no image id lies in.
func (s *supervisor) runRestore(spec proc.Spec, sv saved, images string, opened *reopen.Opened) error {
	if err := reservePIDs(sv.IDs); err != nil {
		return err
	}
	const pidFile = "restored.pid"
	os.Remove(pidFile)
	os.Remove(restoreLog)
	args := append([]string{
		s.criu, "restore", "-D", images, "-W", s.dir, "-o", restoreLog, "-d", "--restore-sibling", "--pidfile", pidFile,
	}, criuCommon...)
	if spec.UID == 0 {
		args = append(args, linkRemap)
	}
	inherit, pipes, err := s.inheritPipes(sv)
	if err != nil {
		return err
	}
	args = append(args, inherit...)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	argv := append(append([]string{"headrace-shim", "in-cgroups"}, append(spec.Own.Dirs(), spec.Cgroups...)...), append([]string{"--"}, args...)...)
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	said, err := os.OpenFile("criu.out", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer said.Close()
	backInLimits := spec.Own.Relax() // CRIU itself needs some memory and processes
	defer func() {
		if err := backInLimits(); err != nil {
			fmt.Fprintf(os.Stderr, "limit the task again: %v\n", err)
		}
	}()
	pid, died, err := s.reaper.start(self, argv, &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: append([]uintptr{null.Fd(), said.Fd(), said.Fd()}, pipes...), Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return err
	}
	s.setHelper(pid)
	ctx, cancel, done := s.interruptible()
	defer done()
	stop := context.AfterFunc(ctx, func() { s.signalAll(unix.SIGKILL) })
	noStall := s.endStalled(s.everything, cancel)
	d := <-died
	noStall()
	stop()
	s.setHelper(0)
	s.mu.Lock()
	s.acct.helper(d.rusage)
	s.mu.Unlock()
	if ctx.Err() != nil {
		return fmt.Errorf("restore: %w", context.Cause(ctx))
	}
	if d.status.ExitStatus() != 0 || d.status.Signaled() {
		out, _ := os.ReadFile("criu.out")
		return criuFailure("CRIU could not restore the task", exitError(d.status), restoreLog, string(out), opened.Explain)
	}
	return lastPID(maxID(sv.IDs))
}

func exitError(ws syscall.WaitStatus) error {
	if ws.Signaled() {
		return fmt.Errorf("ended by signal %d", ws.Signal())
	}
	return fmt.Errorf("exit code %d", ws.ExitStatus())
}
