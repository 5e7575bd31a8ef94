package supplement

import (
	"fmt"
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
	if t.toTimeOfDay() && t.Left > 0 {
		due := wall.Add(t.Left)
		t.Due = &due
	}
	return t, nil
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
// stand still while a task is checkpointed (CRIU restores it in a time namespace),
// so that what is left is all that counts.
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
