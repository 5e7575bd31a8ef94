package mend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"

	"headrace/internal/criu/image"
	"headrace/internal/linux"
)

// CRIU reads the signals that wait for a process first, then writes its memory, and then reads its timers. Of a timer that expires between,
// the signal is not in the image, and the timer is not armed there: an alarm(2) would never come. With gigabytes of memory
// that is seconds. What others send the process meanwhile is not there either.
//
// While CRIU holds the tree, the kernel tells which signals wait for a process, and no more. A timer whose signal is missing is made
// to expire right after the restore. Any other signal is added as if it came from a process that cannot be seen. Of real-time
// signals several may wait, so nobody can tell that one more does.

// Armed leaves of the timers of a stopped tree those that are armed, or nil of a process that cannot be asked. It has the
// processes make calls ([linux.CallAs]).
func (f *Facts) Armed() error {
	for pid, timers := range f.Timers {
		armed := []int{}
		err := linux.CallAs(pid, func(call linux.Caller) error {
			for _, id := range timers {
				var t unix.ItimerSpec
				data := unsafe.Slice((*byte)(unsafe.Pointer(&t)), unsafe.Sizeof(t))
				if _, err := call(unix.SYS_TIMER_GETTIME, data, uintptr(id), linux.AtData); err != nil {
					return fmt.Errorf("timer %d: %w", id, err)
				}
				if t.Value != (unix.Timespec{}) {
					armed = append(armed, id)
				}
			}
			return nil
		})
		if errors.Is(err, errors.ErrUnsupported) {
			armed = nil
		} else if err != nil {
			return err
		}
		f.Timers[pid] = armed
	}
	return nil
}

// setitimers are the fields of timers of setitimer(2), by their signals.
var setitimers = map[unix.Signal]protowire.Number{
	unix.SIGALRM: image.TimersReal, unix.SIGVTALRM: image.TimersVirtual, unix.SIGPROF: image.TimersProf,
}

// keepable are those standard signals that are neither about a stop nor ended by one.
const keepable uint64 = (1<<31 - 1) &^ (1<<(unix.SIGKILL-1) | 1<<(unix.SIGCHLD-1) |
	1<<(unix.SIGCONT-1) | 1<<(unix.SIGSTOP-1) | 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1))

// signals mends all processes. Armed are by process the timers of timer_create(2) that were armed before the dump (Facts.Timers).
func signals(dir string, armed map[int][]int) error {
	tree, err := image.Read(filepath.Join(dir, "pstree.img"))
	if err != nil {
		return err
	}
	for _, p := range tree.Entries {
		pid, _ := p.Uint(image.PstreePID)
		threads, err := p.Uints(image.PstreeThread)
		if err != nil {
			return err
		}
		if err := signalsOf(dir, int(pid), threads, armed[int(pid)]); err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return nil
}

func signalsOf(dir string, pid int, threads []uint64, armed []int) error {
	path := func(tid int) string { return filepath.Join(dir, fmt.Sprintf("core-%d.img", tid)) }
	f, err := image.Read(path(pid))
	if err != nil || len(f.Entries) == 0 {
		return err
	}
	// What has ended, and nobody has waited for, has no timers, and as its threads CRIU writes what happened to be in its memory.
	task, err := f.Entries[0].Message(image.CoreTask)
	if err != nil {
		return err
	}
	if timers, err := task.Message(image.TaskTimers); err != nil || timers == nil {
		return err
	}
	var others []image.Message // what waits for one other thread
	for _, tid := range threads {
		if int(tid) == pid {
			continue
		}
		thread, err := image.Read(path(int(tid)))
		if err != nil {
			return err
		}
		for _, core := range thread.Entries {
			q, err := ownSignals(core)
			if err != nil {
				return err
			}
			others = append(others, q)
		}
	}
	status, err := linux.ProcFS("").Status(pid)
	if err != nil && !linux.Gone(err) {
		return err
	}
	core, changed, err := withSignals(f.Entries[0], others, status.Pending, armed)
	if err != nil || !changed {
		return err
	}
	f.Entries[0] = core
	return rewrite(path(pid), f)
}

// ownSignals returns the signals that wait for the thread of a core_entry.
func ownSignals(core image.Message) (image.Message, error) {
	thread, err := core.Message(image.CoreThread)
	if err != nil {
		return nil, err
	}
	return thread.Message(image.ThreadSignals)
}

// eachSignal calls do with each siginfo_t of a queue.
func eachSignal(queue image.Message, do func(siginfo []byte)) error {
	entries, err := queue.Messages(image.QueueSignal)
	if err != nil {
		return err
	}
	for _, e := range entries {
		b, _ := e.Bytes(image.SignalInfo)
		if len(b) < siginfoSize || number(b) < 1 {
			return fmt.Errorf("%d bytes for a signal", len(b))
		}
		do(b)
	}
	return nil
}

// withSignals returns the core_entry of a first thread with what it lacks of pending signals, a bit for each, and of those of timers that
// were armed. Others are the signals that wait for one of the other threads.
func withSignals(core image.Message, others []image.Message, pending uint64, armed []int) (out image.Message, changed bool, err error) {
	sub := func(m image.Message, field protowire.Number) (s image.Message) {
		if err == nil {
			s, err = m.Message(field)
		}
		return s
	}
	task := sub(core, image.CoreTask)
	timers, queue := sub(task, image.TaskTimers), sub(task, image.TaskSignals)
	if err != nil {
		return nil, false, err
	}
	late := pending & keepable
	running := map[int]bool{}
	for _, id := range armed {
		running[id] = true
	}
	told := func(siginfo []byte) {
		if id, ok := timerOf(siginfo); ok {
			delete(running, id)
		}
	}
	for _, q := range others {
		if err := eachSignal(q, told); err != nil {
			return nil, false, err
		}
	}
	own, err := ownSignals(core)
	if err != nil {
		return nil, false, err
	}
	for _, q := range []image.Message{queue, own} {
		if err := eachSignal(q, func(siginfo []byte) {
			late &^= 1 << (number(siginfo) - 1)
			told(siginfo)
		}); err != nil {
			return nil, false, err
		}
	}
	timers, n, err := timers.ChangeMessages(image.TimersPOSIX, func(t image.Message) (image.Message, bool) {
		id, _ := t.Uint(image.POSIXID)
		signal, _ := t.Uint(image.POSIXSignal)
		expired := running[int(id)] && !left(t, image.POSIXSeconds, image.POSIXNanos)
		// Of a periodic timer a tick may be lost: without what the program has given the timer it might take it for another one.
		if expired || armed == nil || running[int(id)] && left(t, image.POSIXEvery, image.POSIXEveryNs) {
			late &^= 1 << (signal - 1)
		}
		if !expired {
			return t, false
		}
		return t.SetUint(image.POSIXNanos, 1), true
	})
	if err != nil {
		return nil, false, err
	}
	changed = n > 0
	for ; late != 0; late &= late - 1 {
		signal := unix.Signal(bits.TrailingZeros64(late) + 1)
		field, ok := setitimers[signal]
		if !ok {
			queue = append(queue, image.Message{}.SetMessage(image.QueueSignal, image.Message{}.SetBytes(image.SignalInfo, siginfo(signal)))...)
			changed = true
			continue
		}
		t := sub(timers, field)
		if err != nil {
			return nil, false, err
		}
		if !left(t, image.ITimerSeconds, image.ITimerMicros) { // else it has expired after CRIU read it
			timers, changed = timers.SetMessage(field, t.SetUint(image.ITimerMicros, 1)), true
		}
	}
	task = task.SetMessage(image.TaskTimers, timers).SetMessage(image.TaskSignals, queue)
	return core.SetMessage(image.CoreTask, task), changed, nil
}

// left reports whether a timer has time left: whether it is armed.
func left(t image.Message, seconds, fraction protowire.Number) bool {
	s, _ := t.Uint(seconds)
	f, _ := t.Uint(fraction)
	return s != 0 || f != 0
}

// A siginfo_t begins with the number of the signal, an error, and a code; that of a timer has its id at 16.
const (
	siginfoSize = 128
	siTimer     = -2
)

func siginfo(s unix.Signal) []byte {
	b := make([]byte, siginfoSize) // SI_USER, process 0, user 0
	binary.NativeEndian.PutUint32(b, uint32(s))
	return b
}

func number(siginfo []byte) int { return int(binary.NativeEndian.Uint32(siginfo)) }

func timerOf(siginfo []byte) (id int, ok bool) {
	return int(binary.NativeEndian.Uint32(siginfo[16:])), int32(binary.NativeEndian.Uint32(siginfo[8:])) == siTimer
}
