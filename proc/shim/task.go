package shim

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
	"headrace/internal/linux"
	"headrace/proc"
)

// task is the task as its supervisor has it: what the daemon may ask for is done by its
// methods.
type task struct {
	criu string // path of CRIU, as the daemon has named it last; empty: there is none
	// stallLimit is how long CRIU may make no progress.
	stallLimit time.Duration

	home      home
	stdio     stdio
	lifeline  *lifeline // of an attached task, else nil
	op        operation
	mercy     mercy
	processes processes
	life      life
	stops     stopper
}

// newTask begins to reap the task's processes, of which there are none yet.
func newTask(dir string, isolated bool) *task {
	t := &task{home: home{dir: dir, knownAs: dir}, life: life{over: make(chan struct{}), cutOff: make(chan os.Signal, 1)}}
	t.stops = stopper{op: &t.op, processes: &t.processes, life: &t.life, resumed: func() { t.lifeline.again() }}
	t.processes.isolated = isolated
	t.processes.reaper = newReaper(t.died)
	return t
}

// hold asks the other end of the lifeline whether the command may start.
func (t *task) hold() error {
	t.op.Lock()
	defer t.op.Unlock()
	if err := t.life.wantUnstarted(); err != nil {
		return err
	}
	return t.lifeline.awaitGo()
}

// start starts the command of the spec in the task's directory. A command that
// cannot be started ends the task with the reason in its Exit.
func (t *task) start() error {
	t.op.Lock()
	defer t.op.Unlock()
	if err := t.life.wantUnstarted(); err != nil {
		return err
	}
	spec, err := proc.ReadSpec(t.home.dir)
	if err != nil {
		return err
	}
	os.Remove(commandExit)
	if t.processes.isolated {
		os.Mkdir(memoryDir, 0o700) // while there is room: dumps need it (home.memory)
		if err := chooseFirstPID(); err != nil {
			return err
		}
	}
	files, err := t.stdio.open(spec)
	if err != nil {
		return err
	}
	defer closeAll(files)
	reports, theirs, err := reportPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	if err := t.lifeline.awaitGo(); err != nil {
		reports.Close()
		return err
	}
	if t.lifeline == nil { // else nobody asks; and who has let go of its command waits, and is not to fail for a full disk
		if err := proc.MarkBegun("."); err != nil {
			reports.Close()
			return err
		}
	}
	crash.Here("shim.begun")
	read, err := t.startInit(spec, reports, append(fds(files), theirs.Fd()))
	if err != nil {
		reports.Close()
		return err
	}
	go func() {
		defer reports.Close()
		defer close(read)
		t.readReports(reports)
	}()
	theirs.Close()
	select {
	case <-read:
	case <-time.After(startPatience):
	}
	crash.Here("shim.started")
	return nil
}

// startPatience is how long a start waits to hear that the command runs. It may never do:
// it is the user's named pipe, directory or program that is being opened, in a process of
// the user's already. Then the task runs, so that it can be stopped and ended like others.
const startPatience = 5 * time.Second

// reportPair returns the way by which the parts that start the command report, and are
// answered: our end and theirs.
func reportPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "reports"), os.NewFile(uintptr(fds[1]), "reports"), nil
}

func (t *task) startInit(spec proc.Spec, reports *os.File, files []uintptr) (read chan struct{}, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	read, err = t.life.start(spec, reports, func() error {
		return t.processes.startIn(spec.Own, self, []string{"headrace-shim", "init", t.home.dir}, &syscall.ProcAttr{
			// Go would keep a file of the cgroup open, which a restore would have to find again.
			Dir: "/", Env: []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=containermaxprocs=0", progressMark(t.home.dir)}, Files: files,
			Sys: &syscall.SysProcAttr{Setsid: true},
		})
	})
	if err == nil {
		t.joinInBackground(read)
	}
	return read, err
}

// readReports takes in how the start went; it returns when the command runs, or
// cannot.
func (t *task) readReports(from io.ReadWriter) {
	for dec := json.NewDecoder(io.LimitReader(from, maxReports)); ; {
		var report startReport
		if dec.Decode(&report) != nil {
			return
		}
		if report.Output != nil {
			if answerReport(from, report.Output.Save(".")) != nil {
				return // who has reported it is gone
			}
			continue
		}
		t.life.reported(report)
	}
}

// answerReport tells the process that is about to become the command whether its
// report was recorded.
func answerReport(w io.Writer, err error) error {
	text := ""
	if err != nil {
		text = strings.ReplaceAll(err.Error(), "\n", " ")
	}
	_, werr := fmt.Fprintln(w, text)
	return werr
}

// done is the end of an operation that may leave the task without processes. A kill that came
// meanwhile may have given up by then: it is carried out here.
func (t *task) done() {
	if t.op.isKilled() && t.life.now() == empty {
		t.endEmpty(unix.SIGKILL)
	}
	t.op.Unlock()
}

// suspend stops every thread of the task, and locks it.
func (t *task) suspend(grace time.Duration) (proc.SuspendResult, error) {
	t.op.Lock()
	defer t.op.Unlock()
	if err := t.life.want(running); err != nil {
		return proc.SuspendResult{}, err
	}
	res, err := t.stops.stop(grace, true)
	if err == nil {
		t.stops.lock()
	}
	return res, err
}

// resume continues what suspend has stopped.
func (t *task) resume() error {
	t.op.Lock()
	defer t.op.Unlock()
	if err := t.life.want(stopped); err != nil {
		return err
	}
	return t.stops.cont()
}

// pageOut writes at least the given number of bytes of a suspended task to
// swap, or what there is, and returns how much moved.
func (t *task) pageOut(want int64) (int64, error) {
	if err := t.life.want(stopped); err != nil {
		return 0, err
	}
	use, err := t.processes.memory()
	if err != nil {
		return 0, err
	}
	var moved int64
	for _, u := range use {
		if moved >= want {
			break
		}
		ranges, err := procs.Anonymous(u.PID)
		if linux.Gone(err) {
			continue
		}
		if err != nil {
			return moved, err
		}
		here := int64(0)
		err = linux.AdviseProcess(u.PID, ranges, linux.PageOut, func(int64) bool {
			st, err := procs.Status(u.PID)
			if err == nil {
				here = max(0, u.status.RSSAnon-st.RSSAnon)
			}
			return moved+here < want && t.life.now() == stopped
		})
		moved += here
		if err != nil && !linux.Gone(err) {
			return moved, err
		}
	}
	return moved, nil
}

// pageIn starts to bring swapped memory back and returns how much was out. It
// ends early when the task is stopped, or continued, meanwhile.
func (t *task) pageIn() (int64, error) {
	was := t.life.now()
	use, err := t.processes.memory()
	if err != nil {
		return 0, err
	}
	var out int64
	for _, u := range use {
		if u.status.Swap == 0 {
			continue
		}
		out += u.status.Swap
		ranges, err := procs.Anonymous(u.PID)
		if err == nil {
			err = linux.AdviseProcess(u.PID, ranges, linux.WillNeed, func(int64) bool { return t.life.now() == was })
		}
		if err != nil && !linux.Gone(err) {
			return out, err
		}
	}
	return out, nil
}

// stats measures the task.
func (t *task) stats() (proc.Stats, error) {
	use, err := t.processes.memory()
	if err != nil {
		return proc.Stats{}, err
	}
	st := proc.Stats{Continued: int(t.stops.continued.Load()), Outside: t.processes.group.outside.text()}
	init := t.processes.init()
	var live proc.Usage // of one that has just ended, it comes with its death
	for _, u := range use {
		live.User += u.User + u.ChildUser
		live.System += u.System + u.ChildSystem
		live.MaxResident = max(live.MaxResident, u.status.PeakRSS)
		if io, err := procs.IO(u.PID); err == nil {
			live.ReadBytes += io.Read
			live.WrittenBytes += io.Written
			st.Asked += io.Asked
		}
		st.Dirty += u.status.RSSAnon + u.status.RSSShmem + u.status.Swap
		if u.PID != init {
			st.Processes++
		}
	}
	st.Resident, st.Swapped = t.processes.group.resident(use)
	st.Share = share(use, init, t.life.spec())
	t.life.measured(&st, live)
	return st, nil
}
