package shim

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/crash"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/control"
)

// phase is what the supervisor knows of its tree.
type phase int

const (
	empty   phase = iota // nothing started, or dumped
	running              // processes may run
	stopped              // all processes are stopped
	ended                // the end is recorded
)

// supervisor owns one task's processes.
type supervisor struct {
	dir      string
	knownAs  string      // dir as the task's processes know it: they may have been moved
	criu     string      // path of CRIU; empty: there is none
	isolated bool        // pid 1 of a pid namespace of its own
	pipes    [3]*os.File // standard streams that are pipes from outside
	lifeline *lifeline   // of an attached task, else nil
	// hasMemoryDir: memoryDir is mounted.
	hasMemoryDir bool
	// stallLimit is how long CRIU may make no progress.
	stallLimit time.Duration
	reaper     *reaper
	listener   *net.UnixListener

	// knows is set when the daemon has said what to do.
	knows atomic.Bool

	// op is held by the one operation that changes the tree.
	op sync.Mutex

	mu      sync.Mutex // guards what follows
	phase   phase
	spec    proc.Spec
	initPID int
	// commandGroup is the command's process group, also while the task is dumped; 0
	// before the start.
	commandGroup int
	// expectEnd: the death of init is part of a dump or of a failed restore.
	expectEnd bool
	initDied  bool
	// startRead is closed when the report of a start has been read: only then is
	// it known whether the end of init is a command that could not be started.
	startRead chan struct{}
	killing   bool // somebody asked for the end
	// cancel interrupts the operation under way; nil when none can be.
	cancel context.CancelFunc
	// selfStopped are processes that the task itself had stopped before we did:
	// they stay stopped at a resume.
	selfStopped map[int]bool
	// reacting are processes that may stop themselves because of a stop that is over;
	// what is in it changes under op. resumes counts resumes.
	reacting reactions
	resumes  int
	// joined is closed when the task is in its cgroup. locked: it is frozen there.
	joined <-chan struct{}
	locked bool
	// continued counts how often a suspended task was found running.
	continued   int
	helperGroup int // process group of a running helper, 0 without
	// brokenDump is when a dump last broke off in the middle.
	brokenDump time.Duration
	acct       account
	exit       proc.Exit

	endedCh chan struct{}
}

// supervise is the main function of the supervisor. File descriptor 3 gets one
// line when requests are answered, and is closed by the daemon when it has said what
// to do.
func supervise(args []string) error {
	fl := flag.NewFlagSet("supervise", flag.ContinueOnError)
	dir := fl.String("dir", "", "the task's directory")
	criu := fl.String("criu", "", "path of CRIU")
	var stdio [3]int
	fl.IntVar(&stdio[0], "stdin", -1, "descriptor of a pipe to be standard input")
	fl.IntVar(&stdio[1], "stdout", -1, "descriptor of a pipe to be standard output")
	fl.IntVar(&stdio[2], "stderr", -1, "descriptor of a pipe to be standard error")
	lifelineFD := fl.Int("lifeline", -1, "descriptor of the lifeline of an attached task")
	stallLimit := fl.Duration("stall-limit", 0, "how long CRIU may make no progress; 0: a minute")
	isolated := fl.Bool("isolated", false, "this is pid 1 of a new pid and mount namespace")
	if err := fl.Parse(args); err != nil {
		return err
	}
	// Whatever else was open in the daemon must not reach the task: a file of
	// another mount namespace could not be dumped.
	if err := unix.CloseRange(errorFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return os.NewSyscallError("close_range (Linux 5.11 or later)", err)
	}
	if *isolated {
		if err := privateProc(); err != nil {
			return err
		}
	}
	if err := os.Chdir(*dir); err != nil {
		return err
	}
	lock, err := lockDir()
	if err != nil {
		return err
	}
	defer lock.Close()
	s := &supervisor{
		dir: *dir, knownAs: *dir, criu: *criu, isolated: *isolated,
		stallLimit: *stallLimit, endedCh: make(chan struct{}),
	}
	if s.stallLimit <= 0 {
		s.stallLimit = defaultStallLimit
	}
	if err := s.takePipes(stdio); err != nil {
		return err
	}
	if err := s.takeLifeline(*lifelineFD); err != nil {
		return err
	}
	s.reaper = newReaper(s.died)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	// Best effort: without the right to lower it, the kernel may pick us.
	os.WriteFile("/proc/self/oom_score_adj", []byte("-999"), 0)
	s.handleSignals()

	if s.listener, err = control.Listen(); err != nil {
		return fmt.Errorf("listen on %s: %w", filepath.Join(*dir, control.SocketName), err)
	}
	go s.onLeash(os.NewFile(errorFD, "leash"))
	s.lifeline.watch(s)

	failed := make(chan error, 1)
	server := control.NewServer(s.handle)
	go func() { failed <- server.Serve(context.Background(), s.listener) }()
	select {
	case <-s.endedCh:
		s.mu.Lock()
		exit := s.exit
		s.mu.Unlock()
		s.lifeline.end(exit)
		if err := s.group().Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		// Whoever waits for the end gets the answer before the socket closes; the
		// record is on disk already.
		server.Drain(opPatience)
		return nil
	case err := <-failed:
		return err
	}
}

// onLeash says that requests are answered, and ends a supervisor whose daemon goes
// away before it has said what to do: the next daemon starts another one, or none. An
// attached task's goes by its lifeline.
func (s *supervisor) onLeash(leash *os.File) {
	fmt.Fprintln(leash, "ready")
	io.Copy(io.Discard, leash)
	leash.Close()
	if s.lifeline == nil && !s.knows.Load() {
		s.dismiss()
	}
}

// privateProc gives this mount namespace a /proc that shows the task's pid
// namespace. Mounts made on the host later still appear here.
func privateProc() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("detach mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc for the task: %w", err)
	}
	return nil
}

// lockDir makes sure that there is one supervisor for a directory.
func lockDir() (*os.File, error) {
	f, err := linux.LockFile(lockFile, os.O_CREATE, unix.LOCK_EX)
	if errors.Is(err, linux.ErrLocked) {
		return nil, fmt.Errorf("another supervisor has this task: %w", err)
	}
	return f, err
}

// handleSignals keeps terminal signals away from the task and takes a SIGTERM
// for the wish to end it.
func (s *supervisor) handleSignals() {
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP)
	go func() {
		for sig := range ch {
			if sig == syscall.SIGTERM {
				go s.kill(context.Background(), defaultKillGrace)
			}
		}
	}()
}

// handle carries out one request of the daemon.
func (s *supervisor) handle(ctx context.Context, op string, args json.RawMessage) (any, error) {
	result, err := s.do(ctx, op, args)
	if err != nil {
		return nil, &control.Error{Kind: proc.KindName(err), Text: err.Error()}
	}
	return result, nil
}

func (s *supervisor) do(ctx context.Context, op string, args json.RawMessage) (any, error) {
	var a struct {
		Grace time.Duration `json:"grace"`
		Bytes int64         `json:"bytes"`
	}
	if len(args) > 0 {
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
	}
	switch op {
	case "start", "hold", "restore":
		s.knows.Store(true)
	}
	switch op {
	case "start":
		return nil, s.start()
	case "hold":
		return nil, s.hold()
	case "restore":
		var o proc.RestoreOptions
		if err := json.Unmarshal(args, &o); err != nil {
			return nil, err
		}
		return s.restore(o)
	case "suspend":
		return s.suspend(a.Grace)
	case "resume":
		return nil, s.resume()
	case "checkpoint":
		var o proc.CheckpointOptions
		if err := json.Unmarshal(args, &o); err != nil {
			return nil, err
		}
		return s.checkpoint(o)
	case "kill":
		return nil, s.kill(ctx, a.Grace)
	case "dismiss":
		return nil, s.dismiss()
	case "pageout":
		return s.pageOut(a.Bytes)
	case "pagein":
		return s.pageIn()
	case "stats":
		return s.stats()
	case "ping":
		return nil, nil
	}
	return nil, fmt.Errorf("unknown operation %q (is the supervisor older than the daemon?)", op)
}

// hold asks the other end of the lifeline whether the command may start.
func (s *supervisor) hold() error {
	s.op.Lock()
	defer s.op.Unlock()
	if p := s.currentPhase(); p != empty {
		return fmt.Errorf("%w: the task has processes or has ended", proc.ErrState)
	}
	return s.lifeline.awaitGo()
}

// start starts the command of the spec in the task's directory. A command that
// cannot be started ends the task with the reason in its Exit.
func (s *supervisor) start() error {
	s.op.Lock()
	defer s.op.Unlock()
	if p := s.currentPhase(); p != empty {
		return fmt.Errorf("%w: the task has processes or has ended", proc.ErrState)
	}
	spec, err := proc.ReadSpec(s.dir)
	if err != nil {
		return err
	}
	os.Remove(commandExit)
	if s.isolated {
		if err := chooseFirstPID(); err != nil {
			return err
		}
	}
	files, err := s.openStdio(spec)
	if err != nil {
		return err
	}
	defer closeAll(files)
	reportR, reportW, err := reportPair()
	if err != nil {
		return err
	}
	defer reportR.Close()
	if err := s.lifeline.awaitGo(); err != nil {
		reportW.Close()
		return err
	}
	err = s.startInit(spec, append(fds(files), reportW.Fd()))
	reportW.Close()
	if err != nil {
		return err
	}
	defer close(s.startRead)
	s.readReport(reportR)
	crash.Here("shim.started")
	return nil
}

// reportPair is the way by which the parts that start the command report, and are
// answered: our end and theirs.
func reportPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "reports"), os.NewFile(uintptr(fds[1]), "reports"), nil
}

// readReport takes in how the start went; it returns when the command runs, or
// cannot.
func (s *supervisor) readReport(r io.ReadWriter) {
	for dec := json.NewDecoder(io.LimitReader(r, maxReports)); ; {
		var report startReport
		if dec.Decode(&report) != nil {
			return
		}
		if report.Output != nil {
			answerReport(r, report.Output.Save("."))
			continue
		}
		s.mu.Lock()
		if report.PID != 0 {
			s.commandGroup = report.PID
		} else {
			s.exit.Code, s.exit.StartError = report.Code, report.Text
		}
		s.mu.Unlock()
	}
}

// answerReport tells the process that is about to become the command whether its
// report was recorded.
func answerReport(w io.Writer, err error) {
	text := ""
	if err != nil {
		text = strings.ReplaceAll(err.Error(), "\n", " ")
	}
	fmt.Fprintln(w, text) // one that has gone needs no answer
}

func (s *supervisor) startInit(spec proc.Spec, files []uintptr) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.mu.Lock() // init's death is handled only after this
	defer s.mu.Unlock()
	pid, err := s.startIn(spec.Own, self, []string{"headrace-shim", "init", s.dir}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=1", "GOGC=off", progressMark(s.dir)}, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	s.spec, s.initPID, s.phase, s.startRead = spec, pid, running, make(chan struct{})
	s.joinInBackground(spec.Own)
	s.acct.resumed()
	return nil
}

func (s *supervisor) currentPhase() phase {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase
}

// died gets the death of every child that is not a helper: of init, and of
// processes that were re-parented to us.
func (s *supervisor) died(d death) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acct.reaped(d.rusage)
	if d.pid != s.initPID {
		return
	}
	s.initDied = true
	if s.expectEnd || s.phase == ended || s.phase == empty {
		return
	}
	s.acct.paused()
	s.phase = ended
	go s.finish()
}

// finish ends what the command has left behind and records how the task ended.
func (s *supervisor) finish() {
	<-s.startRead
	s.endTree(leftoverGrace)
	s.syncLogs()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordEnd()
}

// recordEnd writes the record of the end. Callers hold mu.
func (s *supervisor) recordEnd() {
	if s.exit.StartError == "" && s.exit.Signal == 0 {
		var st commandStatus
		b, err := os.ReadFile(commandExit)
		if err == nil {
			err = json.Unmarshal(b, &st)
		}
		if err != nil { // init was killed before the command ended
			st = commandStatus{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL)}
			s.exit.Lost = !s.killing
		}
		s.exit.Code, s.exit.Signal = st.Code, st.Signal
		s.exit.Lost = s.exit.Lost || s.endedByBrokenDump()
	}
	s.exit.OutOfMemory = s.exit.Code != 0 && outOfMemory(s.spec)
	s.exit.Usage, s.exit.At = s.acct.total(), time.Now()
	b, err := json.Marshal(s.exit)
	if err == nil {
		err = linux.WriteFileDurably(exitFile, b, 0o600)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "record the end of the task: %v\n", err)
	}
	s.phase = ended
	close(s.endedCh)
}

// endedByBrokenDump reports whether a signal ended the command just after a dump
// broke off: a CRIU that is killed in the few milliseconds in which it runs its
// own code in a process takes that process with it. Callers hold mu.
func (s *supervisor) endedByBrokenDump() bool {
	return s.exit.Signal != 0 && !s.killing && s.brokenDump != 0 && linux.Clock()-s.brokenDump < time.Second
}

// state is the state for Stats.
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
