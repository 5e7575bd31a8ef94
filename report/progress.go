package report

import (
	"io"
	"math"
	"strings"
	"sync"
	"time"
)

// Progress tells a person how far long work is. On a terminal it is one line
// that is rewritten, at most ten times a second; elsewhere it is silent, or
// writes a plain line now and then when Every says so. Errors of the writer are
// ignored: work does not fail because nobody watches.
//
// Set, Interrupt and Done may be called by several goroutines; the fields are set before.
type Progress struct {
	// Terminal gives the width (0: 80 columns), colour and ASCII.
	Terminal Terminal
	// Every is the time between plain lines where there is no terminal; 0: none.
	Every time.Duration

	w          io.Writer
	isTerminal bool
	now        func() time.Time

	mu       sync.Mutex
	begun    time.Time
	last     time.Time
	written  bool
	finished bool
	fraction float64
	text     string
	unsaid   bool
}

// NewProgress writes to w, which is usually standard error.
func NewProgress(w io.Writer, isTerminal bool) *Progress {
	return &Progress{w: w, isTerminal: isTerminal, now: time.Now}
}

const redrawEvery = 100 * time.Millisecond

// Set says how much is done, from 0 to 1, and what is being done. A fraction
// that is negative or NaN means unknown. After Done it does nothing.
func (p *Progress) Set(fraction float64, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished {
		return
	}
	now := p.now()
	if p.begun.IsZero() {
		p.begun = now
	}
	p.fraction, p.text, p.unsaid = min(fraction, 1), text, true
	every := redrawEvery
	if !p.isTerminal {
		if every = p.Every; every <= 0 {
			return
		}
	}
	if p.written && now.Sub(p.last) < every {
		return
	}
	p.write(now)
}

// Done ends the progress: the line on the terminal is cleared, a plain line
// that was held back is written. Calling it again does nothing.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished {
		return
	}
	p.finished = true
	switch {
	case p.isTerminal && p.written:
		io.WriteString(p.w, "\r\x1b[K")
	case !p.isTerminal && p.Every > 0 && p.unsaid:
		p.write(p.now())
	}
}

// Interrupt lets write write to the same terminal: the line makes room for it
// and comes back below. One write runs at a time. It returns write's error.
func (p *Progress) Interrupt(write func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	shown := p.isTerminal && p.written && !p.finished
	if shown {
		io.WriteString(p.w, "\r\x1b[K")
	}
	err := write()
	if shown {
		p.write(p.now())
	}
	return err
}

func (p *Progress) write(now time.Time) {
	p.last, p.written, p.unsaid = now, true, false
	if p.isTerminal {
		io.WriteString(p.w, "\r"+p.line(now)+"\x1b[K")
		return
	}
	io.WriteString(p.w, strings.TrimSpace(p.share()+"  "+p.Terminal.text(p.text))+"\n")
}

func (p *Progress) known() bool { return p.fraction >= 0 && !math.IsNaN(p.fraction) }

// share returns what is done, rounded down: 100 % means all of it.
func (p *Progress) share() string {
	if !p.known() {
		return ""
	}
	s := whole(math.Floor(p.fraction*100+1e-9)) + " %"
	return blanks(5-len(s)) + s
}

const barColumns = 24

// line returns one that is at most one column shorter than the terminal, so that it never wraps.
func (p *Progress) line(now time.Time) string {
	width := p.Terminal.Width
	if width <= 0 {
		width = defaultWidth
	}
	room := width - 1
	spent := now.Sub(p.begun)
	tail := Duration(spent.Truncate(time.Second))
	head := ""
	if p.known() {
		if p.fraction > 0.02 && p.fraction < 1 && spent >= 2*time.Second {
			left := time.Duration(float64(spent) * (1 - p.fraction) / p.fraction)
			tail += ", about " + Duration(left.Round(time.Second)) + " left"
		}
		head = p.share() + "  "
		if bar := p.bar(); room >= columns(bar)+columns(head)+40 {
			head = bar + " " + head
		}
	}
	tail = "  (" + p.Terminal.text(tail) + ")"
	if columns(head)+columns(tail)+10 > room {
		tail = ""
	}
	text := cut(p.Terminal.text(p.text), max(room-columns(head)-columns(tail), 0), p.Terminal.more())
	return cut(head+text+tail, max(room, 0), p.Terminal.more())
}

func (p *Progress) bar() string {
	if p.Terminal.ASCII {
		n := int(p.fraction * barColumns)
		return "[" + strings.Repeat("#", n) + strings.Repeat(".", barColumns-n) + "]"
	}
	eighths := int(p.fraction * barColumns * 8)
	full, part := eighths/8, eighths%8
	s := strings.Repeat("█", full)
	if part > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[part-1])
		full++
	}
	return s + strings.Repeat("░", barColumns-full)
}
