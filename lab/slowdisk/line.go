package slowdisk

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A line drives a head in real time. Any goroutine may call do.
type line struct {
	began int64 // of the monotonic clock, nanoseconds
	board *board

	mu     sync.Mutex
	filled sync.Cond // of the head's queue
	head   head
}

// startLine starts the head, which goes on as long as this process; what it has
// done is shown on the board.
func startLine(m Model, b *board) *line {
	l := &line{began: monotonic(), board: b, head: head{model: m}}
	l.filled.L = &l.mu
	go l.run()
	return l
}

// begin hands a request to the head. The returned channel is closed when it is
// done, which is when the model says so and never earlier; at once while the head is
// bypassed.
func (l *line) begin(file uint64, offset, length int64, write bool) <-chan struct{} {
	if l.board.words.bypass.Load() != 0 {
		return atOnce
	}
	r := &request{file: file, offset: offset, length: length, write: write, done: make(chan struct{})}
	l.mu.Lock()
	// Under the lock, so that arrivals are in the order of the queue.
	r.arrived = time.Duration(monotonic() - l.began)
	l.head.push(r)
	l.filled.Signal()
	l.mu.Unlock()
	return r.done
}

// atOnce is closed.
var atOnce = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// run has a thread of its own: the timers of the Go scheduler are up to a
// millisecond late.
func (l *line) run() {
	runtime.LockOSThread()
	for {
		r, end, stats := l.serve()
		sleepUntil(l.began + int64(end))
		l.board.show(stats)
		close(r.done)
	}
}

// serve waits for a request and lets the head begin it.
func (l *line) serve() (*request, time.Duration, Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.head.queue) == 0 {
		l.filled.Wait()
	}
	if moment := l.began + int64(l.head.patience()); moment > monotonic() {
		l.mu.Unlock()
		sleepUntil(moment)
		l.mu.Lock()
	}
	return l.head.serve(), l.head.free, l.head.stats
}

// monotonic returns the clock of sleepUntil in nanoseconds.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(fmt.Sprintf("read the monotonic clock: %v", err)) // every Linux has it
	}
	return ts.Nano()
}

// sleepUntil returns at once when the moment has passed.
func sleepUntil(moment int64) {
	ts := unix.NsecToTimespec(moment)
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil) == unix.EINTR {
	}
}
