package shim

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/attach"
)

// lifeline is the connection of an attached task's supervisor to the process that
// the task runs for (package attach). A nil lifeline is that of a task of its own.
type lifeline struct {
	conn *net.UnixConn
	// started is closed when the other side wants the command to start, gone when
	// it has gone.
	started, gone chan struct{}

	mu      sync.Mutex
	saved   bool   // as the other side knows it
	pending uint64 // signals that were not delivered yet, as bits from 0 for signal 1
	kick    chan struct{}
}

func takeLifeline(fd int) (*lifeline, error) {
	if fd < 0 {
		return nil, nil
	}
	f := os.NewFile(uintptr(fd), "lifeline")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("lifeline: %w", err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("lifeline: it is not a unix socket")
	}
	return &lifeline{
		conn: unixConn, started: make(chan struct{}), gone: make(chan struct{}), kick: make(chan struct{}, 1),
	}, nil
}

// watch reads what the other side says, in the background. It calls deliver when
// signals may be taken, and abandon when the other side has gone.
func (l *lifeline) watch(deliver, abandon func()) {
	if l == nil {
		return
	}
	go func() {
		l.read()
		close(l.gone)
		abandon()
	}()
	go func() {
		for range l.kick {
			deliver()
		}
	}()
}

// read returns when the other side has gone, or says what makes no sense.
func (l *lifeline) read() {
	started := false
	for in := attach.NewMessages(l.conn); ; {
		m, err := in.Next()
		if err != nil {
			return
		}
		if m.Go && !started {
			started = true
			l.mu.Lock()
			l.saved = m.Saved != nil && *m.Saved
			l.mu.Unlock()
			close(l.started)
		}
		if started && attach.Forwarded(m.Signal) {
			l.mu.Lock()
			l.pending |= 1 << (m.Signal - 1)
			l.mu.Unlock()
			l.again()
		}
	}
}

// again has pending signals delivered if they can be now.
func (l *lifeline) again() {
	if l == nil {
		return
	}
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// take returns the pending signals of a set, the lowest first; they are pending no
// more.
func (l *lifeline) take(set uint64) (signals []syscall.Signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := l.pending & set; rest != 0; rest &= rest - 1 {
		signals = append(signals, syscall.Signal(bits.TrailingZeros64(rest)+1))
	}
	l.pending &^= set
	return signals
}

// awaitGo asks the other side whether the command may start, unless it has said so
// before. After an error it never may.
func (l *lifeline) awaitGo() error {
	if l == nil {
		return nil
	}
	select {
	case <-l.started:
		return nil
	default:
	}
	crash.Here("shim.before-ready")
	if attach.Send(l, attach.Message{Ready: true}) != nil {
		l.hangUp()
		return proc.ErrAbandoned
	}
	crash.Here("shim.ready")
	timeout := time.NewTimer(attach.GoTimeout)
	defer timeout.Stop()
	select {
	case <-l.started:
		crash.Here("shim.go")
		return nil
	case <-l.gone:
		return proc.ErrAbandoned
	case <-timeout.C:
		l.hangUp()
		return fmt.Errorf("%w: it said nothing for %v", proc.ErrAbandoned, attach.GoTimeout)
	}
}

// heard returns when the other side has said that the command may start, or never will.
func (l *lifeline) heard() {
	if l == nil {
		return
	}
	select {
	case <-l.started:
	case <-l.gone:
	}
}

// tellSaved tells the other side that from now on a checkpoint may be all that there is of the task,
// or no longer: then it asks for another supervisor when this one is gone.
func (l *lifeline) tellSaved(saved bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if attach.Send(l, attach.Message{Saved: &saved}) == nil {
		l.saved = saved
	}
}

// mayBeSaved tells whether a checkpoint may be all that there is of the task.
func (l *lifeline) mayBeSaved() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.saved
}

// end tells the other side how the task has ended. If it was lost and may be saved the other side
// only sees that nobody is here any more.
func (l *lifeline) end(e proc.Exit) {
	if l == nil {
		return
	}
	if e.Lost && l.mayBeSaved() {
		l.hangUp()
		return
	}
	m := attach.Message{Exit: &e.Code, Error: e.StartError}
	if e.Lost {
		m.Error = "the task was lost"
	}
	if err := attach.Send(l, m); err != nil && !e.Abandoned {
		fmt.Fprintf(os.Stderr, "tell that the task has ended: %v\n", err)
	}
	l.hangUp()
}

// Write sends a whole message, and never waits: for an honest other side there is room.
// Another one may have kept our end too, and have made it a descriptor that waits
// (O_NONBLOCK is of the open file), whatever deadlines are set here.
func (l *lifeline) Write(b []byte) (n int, err error) {
	err = linux.Control(l.conn, func(fd int) error {
		n, err = unix.SendmsgN(fd, b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return err
	})
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
}

// hangUp ends the connection, for the other side and for who reads here. To close it could
// wait for ever, for a read that does.
func (l *lifeline) hangUp() {
	linux.Control(l.conn, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_RDWR) }) // who has gone needs none
}
