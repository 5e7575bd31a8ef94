package supplement

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// travel returns what happens to a record on its way.
func travel[T any](t *testing.T, v T) T {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var back T
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func spec(first, interval time.Duration) unix.ItimerSpec {
	return unix.ItimerSpec{Value: timespec(first), Interval: timespec(interval)}
}

// Each timer is read, taken to what CRIU makes of it, and rearmed.
func TestTimers(t *testing.T) {
	const hour = time.Hour
	now := time.Duration(time.Now().UnixNano())
	for name, c := range map[string]struct {
		clock, flags int
		set          unix.ItimerSpec
		expired      bool // wait until it has expired
		change       func(*Timer)
		ticks        uint64 // at least
		min, max     time.Duration
	}{
		"never set":                  {clock: unix.CLOCK_MONOTONIC},
		"one hour":                   {clock: unix.CLOCK_MONOTONIC, set: spec(hour, 0), min: hour - time.Minute, max: hour},
		"every hour, tick unread":    {clock: unix.CLOCK_MONOTONIC, set: spec(1, hour), expired: true, ticks: 1, min: hour - time.Minute, max: hour},
		"every hour by boot time":    {clock: unix.CLOCK_BOOTTIME, set: spec(1, hour), expired: true, ticks: 1, min: hour - time.Minute, max: hour},
		"once, tick unread":          {clock: unix.CLOCK_MONOTONIC, set: spec(1, 0), expired: true, ticks: 1},
		"once, at a moment, unread":  {clock: unix.CLOCK_REALTIME, flags: unix.TFD_TIMER_ABSTIME, set: spec(1, 0), expired: true, ticks: 1},
		"at a time of day":           {clock: unix.CLOCK_REALTIME, flags: unix.TFD_TIMER_ABSTIME, set: spec(now+hour, 0), min: hour - time.Minute, max: hour},
		"if the clock is set":        {clock: unix.CLOCK_REALTIME, flags: unix.TFD_TIMER_ABSTIME | unix.TFD_TIMER_CANCEL_ON_SET, set: spec(now+hour, 0), min: hour - time.Minute, max: hour},
		"a time of day that is gone": {clock: unix.CLOCK_REALTIME, flags: unix.TFD_TIMER_ABSTIME, set: spec(now+hour, 0), change: ago(time.Minute), ticks: 1},
		"one that was read late":     {clock: unix.CLOCK_MONOTONIC, set: spec(time.Minute, 0), change: later(hour), min: hour, max: hour + time.Minute},
		"of which no more is known":  {clock: unix.CLOCK_MONOTONIC, set: spec(hour, 0), change: func(t *Timer) { t.At = 0 }, min: hour - time.Minute, max: hour},
		"in the year 2262":           {clock: unix.CLOCK_MONOTONIC, set: unix.ItimerSpec{Value: unix.Timespec{Sec: math.MaxInt64}}, min: 1e6 * hour, max: math.MaxInt64},
		"one that is over meanwhile": {clock: unix.CLOCK_BOOTTIME, set: spec(hour, 0), change: later(-2 * hour), ticks: 1},
		"days that are gone": {clock: unix.CLOCK_REALTIME, flags: unix.TFD_TIMER_ABSTIME, set: spec(1, 24*hour), expired: true,
			change: ago(time.Minute), ticks: 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			fd, err := unix.TimerfdCreate(c.clock, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			if err := unix.TimerfdSettime(fd, c.flags, &c.set, nil); err != nil {
				t.Fatal(err)
			}
			d := linux.Descriptor{PID: os.Getpid(), FD: fd}
			if c.expired {
				if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000); n != 1 {
					t.Fatalf("it does not expire: %d, %v", n, err)
				}
			}
			timer, err := readTimer(d)
			if err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				c.change(&timer)
			}
			if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{}, nil); err != nil {
				t.Fatal(err)
			}
			if err := travel(t, timer).rearm(); err != nil {
				t.Fatal(err)
			}
			got, err := readTimer(d)
			if err != nil {
				t.Fatal(err)
			}
			if got.Ticks < c.ticks || c.ticks == 0 && got.Ticks != 0 || got.Left < c.min || got.Left > max(c.max, got.Interval) || got.Interval != timer.Interval {
				t.Errorf("it was %+v and is %+v", timer, got)
			}
		})
	}
}

// ago makes the moment at which a timer was due one that has passed.
func ago(d time.Duration) func(*Timer) {
	return func(t *Timer) {
		due := time.Now().Add(-d)
		t.Due = &due
	}
}

// later has the timer expire later by its clock.
func later(d time.Duration) func(*Timer) {
	return func(t *Timer) { t.At += d }
}

func TestAttributes(t *testing.T) {
	c := exec.Command("sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	pid := c.Process.Pid
	tree := []linux.Stat{{PID: pid, State: 'S', Comm: "sleep"}}
	take := func() Record {
		t.Helper()
		r, err := Take(tree)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := take(); len(r.Threads)+len(r.Processes)+len(r.Timers) != 0 {
		t.Errorf("a process that has all from this one: %+v", r)
	}
	own, err := ownAttributes()
	if err != nil {
		t.Fatal(err)
	}
	cpus := numbers(own.cpus)[:1]
	prio := 2<<13 | 6
	want := Record{
		Threads:   []Thread{{TID: pid, CPUs: cpus, IOPriority: &prio, TimerSlack: "123456"}},
		Processes: []Process{{PID: pid, CoreFilter: "00000011"}},
	}
	if own.cpus.Count() == 1 {
		want.Threads[0].CPUs = nil
	}
	if remarks, err := travel(t, want).PutBack(tree); err != nil || remarks != nil {
		t.Fatal(remarks, err)
	}
	got := take()
	if len(got.Threads) != 1 || !slices.Equal(got.Threads[0].CPUs, want.Threads[0].CPUs) || *got.Threads[0].IOPriority != prio ||
		got.Threads[0].TimerSlack != "123456" || !slices.Equal(got.Processes, want.Processes) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want.Threads[0].CPUs = []int{1000}
	if remarks, err := want.PutBack(tree); err != nil || len(remarks) != 1 {
		t.Errorf("bound to a CPU that is not there: %q, %v", remarks, err)
	}
	gone := Record{Threads: []Thread{{TID: 1 << 30, CPUs: []int{0}}}, Timers: []Timer{{Descriptor: linux.Descriptor{PID: pid, FD: 99}}}}
	if _, err := gone.PutBack(tree); err == nil {
		t.Error("what is not there was accepted, thread " + strconv.Itoa(1<<30))
	}
}
