package supplement

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// A Timer is the state of a timerfd.
type Timer struct {
	linux.Descriptor
	Clock int `json:"clock"`
	// Flags are those of the last timerfd_settime(2).
	Flags int `json:"flags,omitempty"`
	// Left is the time to the next expiry, 0 if the timer is not armed.
	Left     time.Duration `json:"left,omitempty"`
	Interval time.Duration `json:"interval,omitempty"`
	// Ticks have not been read yet.
	Ticks uint64 `json:"ticks,omitempty"`
	// Due is the time of day of the next expiry of a timer that was set to one.
	Due *time.Time `json:"due,omitempty"`
	// At is when a timer by another clock than the time of day expires next, by that clock as its process sees it; 0 where that is not
	// known. It goes before Left: to a restored process the clock goes on from a moment in the dump, and Left was read after that.
	At time.Duration `json:"at,omitempty"`
}

func timersOf(pid int) ([]Timer, error) {
	open, err := procs.Descriptors(pid)
	if err != nil {
		return nil, err
	}
	var list []Timer
	for _, d := range open {
		if !d.Is("timerfd") {
			continue
		}
		t, err := readTimer(d)
		if err != nil {
			return nil, fmt.Errorf("timer %d: %w", d.FD, err)
		}
		list = append(list, t)
	}
	return list, nil
}

func readTimer(d linux.Descriptor) (Timer, error) {
	t := Timer{Descriptor: d}
	fd, err := d.Duplicate()
	if err != nil {
		return t, err
	}
	defer unix.Close(fd)
	// A periodic timer that has expired stands still until somebody asks for it. Then
	// the kernel counts what has passed meanwhile, and arms it again in its rhythm.
	var now unix.ItimerSpec
	if err := unix.TimerfdGettime(fd, &now); err != nil {
		return t, err
	}
	wall := time.Now().Round(0)
	fields, err := procs.FDInfo(d)
	if err != nil {
		return t, err
	}
	if err := t.parse(fields); err != nil {
		return t, err
	}
	if t.Left == 0 {
		t.Left = t.Interval // it has expired again since
	}
	switch {
	case t.Left == 0:
	case t.toTimeOfDay():
		due := wall.Add(t.Left)
		t.Due = &due
	case t.monotonic():
		ahead, err := t.ahead()
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return t, err
		}
		clock := unix.CLOCK_MONOTONIC
		if t.Clock != clock {
			clock = unix.CLOCK_BOOTTIME // also of an alarm, whose own clock a machine without a clock that wakes it does not tell
		}
		var now unix.Timespec
		if err := unix.ClockGettime(int32(clock), &now); err != nil { // after the timer was read: it must not expire early
			return t, err
		}
		if since := time.Duration(now.Nano()) + ahead; t.Left < math.MaxInt64-since { // else it is never
			t.At = since + t.Left
		}
	}
	return t, nil
}

// monotonic reports whether the clock of the timer is one that a time namespace has its own of.
func (t Timer) monotonic() bool {
	return t.Clock == unix.CLOCK_MONOTONIC || t.Clock == unix.CLOCK_BOOTTIME || t.Clock == unix.CLOCK_BOOTTIME_ALARM
}

// ahead returns by how much the clock of the timer is ahead of this process's for that which has the timer.
func (t Timer) ahead() (time.Duration, error) {
	its, err := procs.ClockOffset(strconv.Itoa(t.PID), t.Clock)
	if err != nil {
		return 0, err
	}
	ours, err := procs.ClockOffset("self", t.Clock)
	return its - ours, err
}

// parse reads what the kernel shows of a timerfd.
func (t *Timer) parse(fields map[string]string) error {
	var left, interval [2]int64
	for _, f := range []struct {
		name, format string
		to           []any
	}{
		{"clockid", "%d", []any{&t.Clock}},
		{"ticks", "%d", []any{&t.Ticks}},
		{"settime flags", "%o", []any{&t.Flags}},
		{"it_value", "(%d, %d)", []any{&left[0], &left[1]}},
		{"it_interval", "(%d, %d)", []any{&interval[0], &interval[1]}},
	} {
		if _, err := fmt.Sscanf(fields[f.name], f.format, f.to...); err != nil {
			return fmt.Errorf("%s is %q: %w", f.name, fields[f.name], err)
		}
	}
	t.Left = time.Duration(left[0])*time.Second + time.Duration(left[1])
	t.Interval = time.Duration(interval[0])*time.Second + time.Duration(interval[1])
	return nil
}

// toTimeOfDay reports whether the timer was set to a time of day. The other clocks
// stand still while a task is checkpointed (CRIU restores it in a time namespace).
func (t Timer) toTimeOfDay() bool {
	return t.Flags&unix.TFD_TIMER_ABSTIME != 0 && (t.Clock == unix.CLOCK_REALTIME || t.Clock == unix.CLOCK_REALTIME_ALARM)
}

// rearm sets the timer to what it was.
func (t Timer) rearm() error {
	fd, err := t.Duplicate()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	set, flags := unix.ItimerSpec{Interval: timespec(t.Interval), Value: timespec(t.Left)}, t.Flags
	switch {
	case t.Due != nil:
		set.Value = unix.NsecToTimespec(t.Due.UnixNano())
	case t.At != 0:
		ahead, err := t.ahead()
		if errors.Is(err, fs.ErrNotExist) {
			flags &^= unix.TFD_TIMER_ABSTIME
			break
		}
		if err != nil {
			return err
		}
		set.Value = timespec(max(1, t.At-ahead)) // 0 would disarm it
		flags |= unix.TFD_TIMER_ABSTIME
	case !t.toTimeOfDay():
		flags &^= unix.TFD_TIMER_ABSTIME
	}
	if err := unix.TimerfdSettime(fd, flags, &set, nil); err != nil {
		return err
	}
	if t.Ticks == 0 {
		return nil
	}
	return t.addTicks(fd)
}

// addTicks puts the unread ticks back. A time of day that has passed meanwhile has
// just made another.
func (t Timer) addTicks(fd int) error {
	fields, err := procs.FDInfo(t.Descriptor)
	if err != nil {
		return err
	}
	var now Timer
	if err := now.parse(fields); err != nil {
		return err
	}
	const setTicks = 0x40085400 // TFD_IOC_SET_TICKS
	ticks := t.Ticks + now.Ticks
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), setTicks, uintptr(unsafe.Pointer(&ticks))); e != 0 {
		return fmt.Errorf("put %d unread ticks back: %w", ticks, e)
	}
	return nil
}

func timespec(d time.Duration) unix.Timespec { return unix.NsecToTimespec(int64(d)) }
