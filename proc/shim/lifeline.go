package shim

import (
	"fmt"
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
	conn net.Conn
	// started is closed when the other side wants the command to start, gone when
	// it has gone.
	started, gone chan struct{}

	mu      sync.Mutex
	pending uint64 // signals that were not delivered yet, as bits from 0 for signal 1
	kick    chan struct{}
}

// lastWord bounds how long a message may wait for room in the socket, which an
// honest other side always leaves.
const lastWord = time.Second

func (s *supervisor) takeLifeline(fd int) error {
	if fd < 0 {
		return nil
	}
	f := os.NewFile(uintptr(fd), "lifeline")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return fmt.Errorf("lifeline: %w", err)
	}
	s.lifeline = &lifeline{
		conn: conn, started: make(chan struct{}), gone: make(chan struct{}), kick: make(chan struct{}, 1),
	}
	return nil
}

// watch reads what the other side says, in the background.
func (l *lifeline) watch(s *supervisor) {
	if l == nil {
		return
	}
	go func() {
		l.read()
		close(l.gone)
		s.abandon()
	}()
	go func() {
		for range l.kick {
			s.deliver()
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
	l.conn.SetWriteDeadline(time.Now().Add(lastWord))
	if attach.Send(l.conn, attach.Message{Ready: true}) != nil {
		l.conn.Close()
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
		l.conn.Close()
		return fmt.Errorf("%w: it said nothing for %v", proc.ErrAbandoned, attach.GoTimeout)
	}
}

// end tells the other side how the task has ended.
func (l *lifeline) end(e proc.Exit) {
	if l == nil {
		return
	}
	m := attach.Message{Exit: &e.Code, Error: e.StartError}
	if e.Lost {
		m.Error = "the task was lost"
	}
	l.conn.SetWriteDeadline(time.Now().Add(lastWord))
	if err := attach.Send(l.conn, m); err != nil && !e.Abandoned {
		fmt.Fprintf(os.Stderr, "tell that the task has ended: %v\n", err)
	}
	l.conn.Close()
}

// Signals that end what has no processes: nobody could handle them.
const endingSignals = 1<<(unix.SIGHUP-1) | 1<<(unix.SIGINT-1) | 1<<(unix.SIGTERM-1)

// deliver passes pending signals on: to the command's process group while it runs.
// A task without processes is ended by those that would end it. Everything else
// stays pending until the task goes on.
func (s *supervisor) deliver() {
	s.op.Lock()
	defer s.op.Unlock()
	s.mu.Lock()
	p, group := s.phase, s.commandGroup
	s.mu.Unlock()
	switch {
	case group == 0: // it did not start
	case p == running:
		for _, sig := range s.lifeline.take(^uint64(0)) {
			if err := linux.Signal(-group, sig); err != nil {
				fmt.Fprintf(os.Stderr, "pass signal %d on: %v\n", sig, err)
			}
		}
	case p == empty:
		if signals := s.lifeline.take(endingSignals); len(signals) > 0 {
			s.endEmpty(signals[len(signals)-1])
		}
	}
}

// endEmpty records the end of a task that has no processes, by a signal. The caller
// holds op.
func (s *supervisor) endEmpty(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killing = true
	s.exit.Code, s.exit.Signal = 128+int(sig), int(sig)
	if s.initPID == 0 && s.acct.total() == (proc.Usage{}) {
		s.exit.StartError = "killed before it ran"
	}
	s.recordEnd()
}

// abandon ends an attached task at once, whatever is being done to it.
func (s *supervisor) abandon() {
	s.mu.Lock()
	if s.phase == ended {
		s.mu.Unlock()
		return
	}
	s.exit.Abandoned, s.killing = true, true
	begun := s.initPID != 0
	if s.cancel != nil {
		s.cancel()
	}
	s.mu.Unlock()
	if begun {
		s.signalAll(unix.SIGKILL)
	}
	s.op.Lock()
	defer s.op.Unlock()
	if s.currentPhase() == empty {
		s.endEmpty(unix.SIGKILL)
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		s.signalAll(unix.SIGKILL) // also what was started meanwhile
		select {
		case <-s.endedCh:
			return
		case <-time.After(pause):
		}
	}
}
