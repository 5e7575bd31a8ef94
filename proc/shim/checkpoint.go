package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/inspect"
	"headrace/proc/mend"
)

// checkpoint writes the task to storage and ends its processes, in this order:
// stop, dump with the processes left stopped, fsync, commit marker, kill. Until
// the marker is durable every failure leaves the task as it was.
func (s *supervisor) checkpoint(o proc.CheckpointOptions) (proc.CheckpointResult, error) {
	s.op.Lock()
	defer s.op.Unlock()
	begin := linux.Clock()
	was := s.currentPhase()
	if err := s.mayCheckpoint(was); err != nil {
		return proc.CheckpointResult{}, err
	}
	res, err := s.checkpointNow(o, was)
	for pause := 20 * time.Millisecond; errors.Is(err, proc.ErrCheckpointLater) && was == running && pause <= 320*time.Millisecond; pause *= 2 {
		time.Sleep(pause) // it runs, and what is in the way may pass
		if s.currentPhase() != running || s.isKilled() {
			break
		}
		res, err = s.checkpointNow(o, was)
	}
	if err == nil {
		res.Took = linux.Clock() - begin
	}
	return res, err
}

// checkpointNow makes one attempt. If it fails the task is as it was.
func (s *supervisor) checkpointNow(o proc.CheckpointOptions, was phase) (proc.CheckpointResult, error) {
	begin := linux.Clock()
	if was == running {
		if _, err := s.stop(0); err != nil {
			return proc.CheckpointResult{}, err
		}
	}
	stopTook := linux.Clock() - begin
	res, err := s.dump(o)
	if err != nil {
		if !errors.Is(err, proc.ErrNotCheckpointable) && !errors.Is(err, proc.ErrCheckpointLater) && !errors.Is(err, proc.ErrNoSpace) {
			s.mu.Lock()
			s.brokenDump = linux.Clock()
			s.mu.Unlock()
		}
		return res, errors.Join(err, s.undoStop(was))
	}
	crash.Here("shim.before-kill")
	if err := s.killDumped(); err != nil {
		return res, err
	}
	res.Stop = stopTook
	return res, nil
}

func (s *supervisor) mayCheckpoint(p phase) error {
	switch {
	case p == ended:
		return proc.ErrGone
	case p == empty:
		return fmt.Errorf("%w: it has no processes", proc.ErrState)
	case !s.isolated:
		return fmt.Errorf("checkpoint: %w: CRIU and the task's namespaces need root (the daemon runs as an ordinary user)", proc.ErrUnsupported)
	case s.criu == "":
		return fmt.Errorf("checkpoint: %w: CRIU 4.2 or later was not found; headrace doctor says how to get it", proc.ErrUnsupported)
	}
	return nil
}

// undoStop continues a task that ran before a dump that failed, and locks again one
// that was suspended.
func (s *supervisor) undoStop(was phase) error {
	if s.currentPhase() != stopped {
		return nil // it has ended
	}
	if was != running {
		s.lock()
		return nil
	}
	return s.cont()
}

// dump runs the helper that writes the checkpoint.
func (s *supervisor) dump(o proc.CheckpointOptions) (proc.CheckpointResult, error) {
	var res proc.CheckpointResult
	tree, err := s.tree()
	if err != nil {
		return res, err
	}
	if err := s.undumpable(tree); err != nil {
		return res, err
	}
	if err := s.unlockStopped(); err != nil { // CRIU would wait for ever for a frozen process
		return res, err
	}
	if err := s.settle(); err != nil {
		return res, err
	}
	sv, err := s.describe(tree)
	if err != nil {
		return res, fmt.Errorf("look at the stopped task: %w", err)
	}
	lock, err := s.hasConnections(tree)
	if err != nil {
		return res, err
	}
	facts, err := mend.Look(tree)
	if err != nil {
		return res, err
	}
	meta, err := json.Marshal(sv)
	if err != nil {
		return res, err
	}
	job, err := json.Marshal(dumpJob{
		Dir: s.dir, CRIU: s.criu, InitPID: sv.InitPID, Lock: lock, Task: string(s.spec.ID), Options: o, Meta: meta,
		Files: sv.descriptors(), User: s.spec.Credentials(), Facts: facts,
	})
	if err != nil {
		return res, err
	}
	ctx, cancel, done := s.interruptible()
	defer done()
	defer s.endStalled(s.workers, cancel)()
	out, err := s.runHelper(ctx, []string{"dump"}, job)
	if err != nil {
		return res, fmt.Errorf("dump: %w", err)
	}
	var answer dumpAnswer
	if err := json.Unmarshal(out, &answer); err != nil {
		return res, fmt.Errorf("the dump helper answered %q: %w", out, err)
	}
	if answer.Error != "" {
		return res, proc.Remote(answer.Kind, answer.Error)
	}
	s.mu.Lock()
	s.acct.saved(sv.Usage)
	s.mu.Unlock()
	return answer.Result, nil
}

// undumpable refuses what CRIU would leave out of a checkpoint without a word.
func (s *supervisor) undumpable(tree []linux.Stat) error {
	loss, err := inspect.Find(tree, s.initPID)
	switch {
	case err != nil:
		return err
	case loss == nil:
		return nil
	case loss.Passing:
		return fmt.Errorf("%w: %v", proc.ErrCheckpointLater, loss)
	}
	return fmt.Errorf("%w: %v", proc.ErrNotCheckpointable, loss)
}

// killDumped ends the processes of a committed dump and waits until the last of
// them is reaped: a zombie would hold a pid that a restore needs.
func (s *supervisor) killDumped() error {
	s.mu.Lock()
	if s.phase == ended {
		s.mu.Unlock()
		return proc.ErrGone
	}
	s.expectEnd = true
	s.mu.Unlock()
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		if err := s.signalAll(unix.SIGKILL); err != nil {
			return err
		}
		tree, err := s.tree()
		if err != nil {
			return err
		}
		if len(tree) == 0 {
			break
		}
		time.Sleep(pause)
	}
	s.lifeline.again()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase, s.expectEnd, s.selfStopped, s.initDied = empty, false, nil, false
	s.exit.Restored = false
	return nil
}

// runHelper runs this program in another part, in a process group of its own,
// feeds it and returns what it printed. When ctx ends everything that works on the
// task is ended, and when the helper dies what it has left.
func (s *supervisor) runHelper(ctx context.Context, args []string, input []byte) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		closeAll([]*os.File{inR, inW})
		return nil, err
	}
	defer outR.Close()
	pid, died, err := s.reaper.start(self, append([]string{"headrace-shim"}, args...), &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []uintptr{inR.Fd(), outW.Fd(), 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		return nil, err
	}
	s.setHelper(pid)
	defer s.setHelper(0)
	defer s.endWorkers(criuPatience)
	go func() {
		inW.Write(input) // a helper that dies early says so itself
		inW.Close()
	}()
	var out bytes.Buffer
	read := make(chan error, 1)
	go func() { _, err := out.ReadFrom(outR); read <- err }()
	select {
	case <-ctx.Done():
		// Without its page server, which is in the helper, CRIU fails by itself and puts
		// the task in order, unless it hangs elsewhere.
		linux.Signal(pid, unix.SIGKILL)
		s.contWorkers()
		<-died
		return nil, context.Cause(ctx)
	case d := <-died:
		s.mu.Lock()
		s.acct.helper(d.rusage)
		s.mu.Unlock()
		if err := <-read; err != nil {
			return nil, err
		}
		if d.status.Signaled() {
			return nil, fmt.Errorf("the helper was ended by signal %d", d.status.Signal())
		}
		if d.status.ExitStatus() != 0 {
			return nil, fmt.Errorf("the helper ended with code %d: %s", d.status.ExitStatus(), strings.TrimSpace(out.String()))
		}
		return out.Bytes(), nil
	}
}

func (s *supervisor) setHelper(pid int) {
	s.mu.Lock()
	s.helperGroup = pid
	s.mu.Unlock()
}

// criuPatience is how long CRIU gets to put the task in order after the helper
// that started it has died. Killed while it runs its own code in a process, it
// would take that process with it.
const criuPatience = 10 * time.Second
