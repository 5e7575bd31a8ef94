package shim

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/linux"
	"headrace/proc"
)

// phase is what the supervisor knows of the task's processes.
type phase int

const (
	empty   phase = iota // nothing started, or dumped
	running              // processes may run
	stopped              // all processes are stopped
	ended                // the end is recorded
)

// state returns the state for Stats.
func (p phase) state() headrace.TaskState {
	switch p {
	case running:
		return headrace.Running
	case stopped:
		return headrace.Suspended
	case ended:
		return headrace.Done
	}
	return headrace.Checkpointed
}

// life is what the supervisor knows of the task, from its start to the record of its
// end.
type life struct {
	mu    sync.Mutex // guards what follows
	phase phase
	begun proc.Spec // the spec with which it was started or restored
	// commandGroup is the command's process group, also while the task is dumped; 0
	// before the start.
	commandGroup int
	// expectEnd: the death of init is part of a dump or of a failed restore.
	expectEnd bool
	initDied  bool
	// startRead is closed when what was reported of a start has been read: only then is
	// it known whether the end of init is a command that could not be started. reports is
	// where that comes from; nil: there is nothing to come.
	startRead <-chan struct{}
	reports   *os.File
	// usersStart: what starts the command is the user's by now.
	usersStart bool
	// suspect is until when an end by a signal is put down to a CRIU that was killed: while the task stands still, and for a moment after it
	// has gone on; by SIGTRAP, at any time after. 0: none was.
	suspect time.Duration
	diedAt  time.Duration // when init did
	acct    account
	exit    proc.Exit

	over chan struct{} // closed when the end is recorded
	// cutOff has the SIGTERM of what ends the task from outside; nobody receives it.
	// That of the supervisor is there before it hears of a death that the same signal has
	// caused below it.
	cutOff chan os.Signal
}

func (l *life) now() phase {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase
}

// want says why an operation on a task in a phase is not possible now.
func (l *life) want(p phase) error {
	switch have := l.now(); {
	case have == p:
		return nil
	case have == ended:
		return proc.ErrGone
	default:
		return fmt.Errorf("%w: it is %s", proc.ErrState, have.state())
	}
}

// wantUnstarted is want for what comes before the start.
func (l *life) wantUnstarted() error {
	if l.now() != empty {
		return fmt.Errorf("%w: the task has processes or has ended", proc.ErrState)
	}
	return nil
}

func (l *life) spec() proc.Spec {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

// start takes the task as running, unless fork fails. A death of what fork starts is
// handled only after this. The caller closes what it gets when it has read of reports
// how the start went.
func (l *life) start(spec proc.Spec, reports *os.File, fork func() error) (chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := fork(); err != nil {
		return nil, err
	}
	read := make(chan struct{})
	l.begun, l.phase, l.startRead, l.reports, l.usersStart = spec, running, read, reports, false
	l.acct.resumed()
	return read, nil
}

// hear returns when all has been read that was reported of the start. Init is gone, so that
// nothing is to come; but whoever has taken the socket out of a process that was the user's
// already can keep it open for ever.
func (l *life) hear() {
	l.mu.Lock()
	read, reports := l.startRead, l.reports
	l.mu.Unlock()
	if reports != nil {
		if c, err := reports.SyscallConn(); err == nil {
			c.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_RDWR) }) // it may be closed by now
		}
	}
	<-read
}

// reported takes in the pid of the command, or why it could not be started.
func (l *life) reported(r startReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case r.PID != 0:
		l.commandGroup = r.PID
	case r.User:
		l.usersStart = true
	default:
		l.exit.Code, l.exit.StartError = r.Code, r.Text
		l.exit.Lacking, l.exit.MayPass = r.Lacking && !l.usersStart, r.Lacking && l.usersStart
	}
}

// command returns the command's process group, and the phase.
func (l *life) command() (phase, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase, l.commandGroup
}

// stand notes that everything is stopped.
func (l *life) stand() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == ended {
		return proc.ErrGone
	}
	l.phase = stopped
	l.acct.paused()
	return nil
}

// goOn notes that a stopped task is about to run.
func (l *life) goOn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase = running
	l.suspect = min(l.suspect, linux.Clock()+time.Second)
	l.acct.resumed()
}

// dumpBroke notes that CRIU was killed in the middle of a dump.
func (l *life) dumpBroke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.suspect = math.MaxInt64
}

// saved notes that what the task had used by now is safe in a checkpoint.
func (l *life) saved(u proc.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acct.saved(u)
}

// beginEnd says that the deaths to come are those of a dumped tree.
func (l *life) beginEnd() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == ended {
		return proc.ErrGone
	}
	l.expectEnd = true
	return nil
}

// emptied notes that the task has no processes any more.
func (l *life) emptied() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase, l.expectEnd, l.initDied, l.exit.Restored, l.suspect = empty, false, false, false, 0
}

// beginRestore says that the deaths to come, until the tree is taken, are those of a
// restore that fails.
func (l *life) beginRestore(spec proc.Spec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun, l.expectEnd, l.initDied = spec, true, false
}

// restored takes a restored tree, still stopped, as the task.
func (l *life) restored(sv saved, tree []linux.Stat) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.initDied || len(tree) == 0 {
		return errNoInit
	}
	if l.acct.before == (proc.Usage{}) && l.acct.user == 0 && l.acct.runningFor == 0 {
		l.acct.before = sv.Usage // a new supervisor: the old one's count is in the image
	}
	for _, p := range tree {
		l.acct.rebuilt += p.User + p.System
	}
	l.exit.Restored = true
	l.acct.saved(l.acct.total())
	l.expectEnd, l.phase = false, stopped
	read := make(chan struct{})
	close(read)
	l.startRead, l.reports = read, nil
	if l.commandGroup == 0 {
		l.commandGroup = sv.CommandGroup
	}
	return nil
}

// reaped counts what a process of the task has used that is gone.
func (l *life) reaped(r syscall.Rusage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acct.reaped(r)
}

// helped counts what a helper has used.
func (l *life) helped(r syscall.Rusage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acct.helper(r)
}

// rootDied takes in that init is gone, and reports whether the task has ended by that.
func (l *life) rootDied() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.initDied = true
	if l.expectEnd || l.phase == ended || l.phase == empty {
		return false
	}
	l.acct.paused()
	l.phase, l.diedAt = ended, linux.Clock()
	return true
}

// abandon notes that whoever the task was attached to has gone, and has the task
// killed; false: it has ended.
func (l *life) abandon(kill func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == ended {
		return false
	}
	l.exit.Abandoned = true
	kill()
	return true
}

// dismiss returns the end of a supervisor without processes. The task has not ended by
// this, so no record of an end is written.
func (l *life) dismiss() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.phase {
	case ended:
		return nil
	case empty:
		l.phase, l.exit.Lost = ended, true
		close(l.over)
		return nil
	}
	return fmt.Errorf("%w: it has processes", proc.ErrState)
}

// killedForUser has the record of the end say that a user has asked for it. There is one only if it has not ended yet.
func (l *life) killedForUser() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != ended {
		l.exit.KilledForUser = true
	}
}

// endEmpty records the end of a task that has no processes, by a signal.
func (l *life) endEmpty(sig syscall.Signal, neverRan bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == ended {
		return
	}
	l.exit.Code, l.exit.Signal = 128+int(sig), int(sig)
	if neverRan && l.acct.total() == (proc.Usage{}) {
		l.exit.StartError = "killed before it ran"
	}
	l.record()
}

// end records the end of a task whose command has ended, or was killed.
func (l *life) end(killed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.exit.StartError == "" && l.exit.Signal == 0 {
		var st commandStatus
		b, err := os.ReadFile(commandExit)
		if err == nil {
			err = json.Unmarshal(b, &st)
		}
		if err != nil { // init was killed before the command ended
			st = commandStatus{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL)}
			l.exit.Lost = !killed
		}
		l.exit.Code, l.exit.Signal = st.Code, st.Signal
		// A CRIU that is killed in the few milliseconds in which it runs its own code in
		// a process takes that process with it, as soon as it goes on. What it leaves of that code is
		// a trap, which the process may come to much later.
		byCRIU := l.suspect != 0 && (l.exit.Signal == int(syscall.SIGTRAP) || l.exit.Signal != 0 && l.diedAt < l.suspect)
		l.exit.Lost = l.exit.Lost || !killed && byCRIU
	}
	l.record()
}

// record writes the record of the end. Callers hold mu, and nobody else records one: it
// lets go of mu while there is no room for the record. A task that was cut off gets none,
// whatever its command has made of its SIGTERM: it goes on from its last checkpoint, or is
// lost, as if the machine had lost its power.
func (l *life) record() {
	l.phase = ended
	if len(l.cutOff) > 0 {
		l.exit.Lost = true
		close(l.over)
		return
	}
	l.exit.OutOfMemory = l.exit.Code != 0 && l.begun.Own.OOMKills() > 0
	l.exit.Usage, l.exit.At = l.acct.total(), time.Now()
	b, err := json.Marshal(l.exit)
	if err == nil {
		l.mu.Unlock()
		err = writeInTime(exitFile, b)
		l.mu.Lock()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "record the end of the task: %v\n", err)
	}
	close(l.over)
}

// writeInTime writes a file durably, for as long as it takes until there is room for it on
// the disk: a task whose end is not on record would be run again, or be lost.
func writeInTime(path string, b []byte) error {
	for ; ; time.Sleep(roomPause) {
		if err := linux.WriteFileDurably(path, b, 0o600); err == nil || !linux.Passing(err) {
			return err
		}
	}
}

// roomPause is how often it is looked whether a disk has room again.
const roomPause = 200 * time.Millisecond

func (l *life) howEnded() proc.Exit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.exit
}

// measured completes st: with the phase, and with what the task has used, which its
// live processes have not told yet.
func (l *life) measured(st *proc.Stats, live proc.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	st.State = l.phase.state()
	live.MaxResident = max(live.MaxResident, st.Resident)
	l.acct.maxResident = max(l.acct.maxResident, live.MaxResident)
	st.Usage = l.acct.total().Plus(live)
	st.SinceSaveCPU = max(0, st.Usage.User+st.Usage.System-l.acct.savedCPU)
	st.SinceSaveWall = max(0, st.Usage.Running-l.acct.savedRunning)
}
