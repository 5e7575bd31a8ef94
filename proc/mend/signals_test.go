package mend

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"

	"headrace/internal/criu/image"
)

// TestWithSignals: what has come too late for CRIU comes once.
func TestWithSignals(t *testing.T) {
	timer := func(seconds, fraction protowire.Number, s, f uint64) image.Message {
		return image.Message{}.SetUint(seconds, s).SetUint(fraction, f)
	}
	itimer := func(s, micros uint64) image.Message { return timer(image.ITimerSeconds, image.ITimerMicros, s, micros) }
	posix := func(id int, signal unix.Signal, s, nanos uint64) image.Message {
		return timer(image.POSIXSeconds, image.POSIXNanos, s, nanos).SetUint(image.POSIXID, uint64(id)).SetUint(image.POSIXSignal, uint64(signal))
	}
	queue := func(infos ...[]byte) (q image.Message) {
		for _, b := range infos {
			q = append(q, image.Message{}.SetMessage(image.QueueSignal, image.Message{}.SetBytes(image.SignalInfo, b))...)
		}
		return q
	}
	ofTimer := func(id int, s unix.Signal) []byte {
		b := siginfo(s)
		binary.NativeEndian.PutUint32(b[8:], ^uint32(1))
		binary.NativeEndian.PutUint32(b[16:], uint32(id))
		return b
	}
	bit := func(s unix.Signal) uint64 { return 1 << (s - 1) }
	const rt = unix.Signal(40)
	for name, c := range map[string]struct {
		alarm       image.Message // that of SIGALRM
		timers      []image.Message
		shared, own image.Message // signals in the image
		other       image.Message // of another thread
		pending     uint64
		armed       []int
		micros      uint64 // of the alarm, afterwards
		nanos       []uint64
		queued      []int
		changed     bool
	}{
		"nothing":              {alarm: itimer(0, 0)},
		"alarm":                {alarm: itimer(0, 0), pending: bit(unix.SIGALRM), micros: 1, changed: true},
		"alarm that is saved":  {alarm: itimer(0, 0), shared: queue(siginfo(unix.SIGALRM)), pending: bit(unix.SIGALRM), queued: []int{14}},
		"alarm after its look": {alarm: itimer(0, 7), pending: bit(unix.SIGALRM), micros: 7},
		"sent": {alarm: itimer(0, 0), shared: queue(siginfo(unix.SIGHUP)), own: queue(siginfo(unix.SIGUSR2)),
			pending: bit(unix.SIGTERM) | bit(unix.SIGHUP) | bit(unix.SIGUSR2), queued: []int{1, 15}, changed: true},
		"of a stop, real time": {alarm: itimer(0, 0), pending: bit(unix.SIGSTOP) | bit(unix.SIGCONT) | bit(unix.SIGCHLD) | bit(rt)},
		"timers": {alarm: itimer(0, 0), timers: []image.Message{posix(0, rt, 0, 0), posix(1, rt, 0, 0), posix(2, rt, 0, 5), posix(3, rt, 0, 0), posix(4, unix.SIGUSR1, 0, 0)},
			shared: queue(ofTimer(1, rt)), pending: bit(rt) | bit(unix.SIGUSR1), armed: []int{0, 1, 2, 4}, nanos: []uint64{1, 0, 5, 0, 1}, queued: []int{40}, changed: true},
		"of a timer, for another thread": {alarm: itimer(0, 0), timers: []image.Message{posix(0, rt, 0, 0)}, other: queue(ofTimer(0, rt)), armed: []int{0}, nanos: []uint64{0}},
		"sent, as a timer does that is not armed": {alarm: itimer(0, 0), timers: []image.Message{posix(0, unix.SIGTERM, 0, 0), posix(1, unix.SIGALRM, 9, 0)},
			pending: bit(unix.SIGTERM) | bit(unix.SIGALRM), armed: []int{1}, micros: 1, nanos: []uint64{0, 0}, queued: []int{15}, changed: true},
		"tick":                      {alarm: itimer(0, 0), timers: []image.Message{posix(0, unix.SIGUSR1, 0, 9).SetUint(image.POSIXEvery, 1)}, pending: bit(unix.SIGUSR1), armed: []int{0}, nanos: []uint64{9}},
		"not known which are armed": {alarm: itimer(0, 0), timers: []image.Message{posix(0, unix.SIGUSR1, 0, 0)}, pending: bit(unix.SIGUSR1), nanos: []uint64{0}},
	} {
		t.Run(name, func(t *testing.T) {
			timers := image.Message{}.SetMessage(image.TimersReal, c.alarm)
			for _, p := range c.timers {
				timers = append(timers, image.Message{}.SetMessage(image.TimersPOSIX, p)...)
			}
			task := image.Message{}.SetMessage(image.TaskTimers, timers).SetMessage(image.TaskSignals, c.shared)
			core := image.Message{}.SetMessage(image.CoreTask, task).SetMessage(image.CoreThread, image.Message{}.SetMessage(image.ThreadSignals, c.own))
			core, changed, err := withSignals(core, []image.Message{c.other}, c.pending, c.armed)
			if err != nil || changed != c.changed {
				t.Fatalf("changed %v, %v", changed, err)
			}
			task, _ = core.Message(image.CoreTask)
			timers, _ = task.Message(image.TaskTimers)
			alarm, _ := timers.Message(image.TimersReal)
			if micros, _ := alarm.Uint(image.ITimerMicros); micros != c.micros {
				t.Errorf("the alarm comes after %d µs, want %d", micros, c.micros)
			}
			list, _ := timers.Messages(image.TimersPOSIX)
			for i, p := range list {
				if nanos, _ := p.Uint(image.POSIXNanos); nanos != c.nanos[i] {
					t.Errorf("timer %d expires after %d ns, want %d", i, nanos, c.nanos[i])
				}
			}
			q, _ := task.Message(image.TaskSignals)
			entries, _ := q.Messages(image.QueueSignal)
			var queued []int
			for _, e := range entries {
				b, _ := e.Bytes(image.SignalInfo)
				queued = append(queued, number(b))
			}
			if !slices.Equal(queued, c.queued) {
				t.Errorf("signals %v, want %v", queued, c.queued)
			}
		})
	}
}

// TestSignalsOfTheEnded: of a process that has ended and that nobody has waited for the image has no timers, and anything as its threads.
func TestSignalsOfTheEnded(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, m image.Message) {
		e := m.Encode()
		b := binary.LittleEndian.AppendUint64(nil, 0x54564319)
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(e))), e...)
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("pstree.img", image.Message{}.SetUint(image.PstreePID, 7).SetUint(image.PstreeThread, 2107450320))
	write("core-7.img", image.Message{}.SetMessage(image.CoreTask, image.Message{}.SetUint(image.TaskState, 6)))
	if err := signals(dir, nil); err != nil {
		t.Error(err)
	}
}
