package screen

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/cli"
	"headrace/internal/linux"
)

// Painter shows one frame after the other in the same place of a terminal. It is used by one goroutine; who stops the
// program, or ends it by force, gets the terminal back as it was.
type Painter struct {
	out  io.Writer
	full bool
	// keys is the keyboard, if it is read as well; nil: it is not.
	keys *Keyboard

	mu     sync.Mutex // guards all below, and what is written
	lines  int
	closed bool
	// stopped: this program has stopped itself, and the SIGCONT by which it went on is still to come.
	stopped bool
	over    chan struct{} // closed by Close
	forget  func()
}

const (
	showAlternate = "\x1b[?1049h"
	hideAlternate = "\x1b[?1049l"
	hideCursor    = "\x1b[?25l"
	showCursor    = "\x1b[?25h"
	cutLines      = "\x1b[?7l"
	wrapLines     = "\x1b[?7h"
	home          = "\x1b[H"
	eraseLine     = "\x1b[K"
	eraseBelow    = "\x1b[J"
)

// New takes the terminal, and the keyboard if there is one, until Close; full takes all of the terminal
// and gives back what was there before.
func New(out io.Writer, full bool, keys *Keyboard) *Painter {
	p := &Painter{out: out, full: full, keys: keys, over: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.take()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGQUIT)
	p.forget = cli.BeforeForce(p.Close)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case s := <-signals:
				p.meet(s)
			case <-p.over:
				return
			}
		}
	}()
	return p
}

// take makes the terminal one to paint on: what is there stays.
func (p *Painter) take() {
	p.keys.take()
	start := hideCursor + cutLines
	if p.full {
		start = showAlternate + start
	}
	p.lines = 0
	io.WriteString(p.out, start)
}

// give undoes take.
func (p *Painter) give() {
	end := wrapLines + showCursor
	if p.full {
		end += hideAlternate
	}
	io.WriteString(p.out, end)
	p.keys.give()
}

// Close gives the terminal back for good. It may be called again, and by anybody.
func (p *Painter) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	close(p.over)
	p.give()
	p.forget()
}

// meet does what a signal asks for, on a terminal that is given back before.
func (p *Painter) meet(s os.Signal) {
	if s == syscall.SIGQUIT { // its default is the end
		p.Close()
		signal.Reset(syscall.SIGQUIT)
		syscall.Kill(os.Getpid(), syscall.SIGQUIT)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	switch {
	case s == syscall.SIGTSTP && !canStop():
		return
	case s == syscall.SIGTSTP:
		p.give()
		stopHere()
		p.stopped = true
	case p.stopped:
		p.stopped = false
		return
	}
	p.take() // somebody else has had the terminal meanwhile
}

// canStop reports whether somebody could have this program go on once it has stopped: a shell of the same session
// that is not of its own process group. The kernel asks the same before it stops a program by SIGTSTP.
func canStop() bool {
	self, err := linux.ProcFS("").Stat(os.Getpid())
	for p := self; err == nil; {
		if p, err = linux.ProcFS("").Stat(p.PPID); err == nil && (p.SID != self.SID || p.PGID != self.PGID) {
			return p.SID == self.SID
		}
	}
	return false
}

// stopHere stops the program and returns when it goes on. The signal is for this very thread, which takes it before
// it is back from the call: nothing is painted in between.
func stopHere() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
}

// Paint replaces the frame before. What does not fit below is left out. After Close it paints nothing. The error is
// the terminal's.
func (p *Painter) Paint(frame string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
	if _, height := cli.SizeOf(p.out); height > 1 && len(lines) > height-1 {
		hidden := len(lines) - (height - 2)
		lines = append(lines[:height-2], fmt.Sprintf("and %d lines more", hidden))
	}
	var b strings.Builder
	switch {
	case p.full:
		b.WriteString(home)
	case p.lines > 0:
		fmt.Fprintf(&b, "\x1b[%dA\r", p.lines)
	}
	for _, line := range lines {
		// Before the line: behind one that fills the terminal it would take its end.
		b.WriteString(eraseLine + line + "\r\n")
	}
	b.WriteString(eraseBelow)
	p.lines = len(lines)
	_, err := io.WriteString(p.out, b.String())
	return err
}

// Repeat calls paint now, after every interval, and when wake delivers; it
// ends without an error when ctx does.
func Repeat(ctx context.Context, every time.Duration, wake <-chan os.Signal, paint func() error) error {
	ticker := time.NewTicker(max(every, 50*time.Millisecond))
	defer ticker.Stop()
	for {
		if err := paint(); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-wake:
		}
	}
}
