package report

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
)

// newTestProgress has a clock that moves only when told.
func newTestProgress(isTerminal bool) (*Progress, *bytes.Buffer, func(time.Duration)) {
	var out bytes.Buffer
	p := NewProgress(&out, isTerminal)
	now := time.Unix(1000, 0)
	p.now = func() time.Time { return now }
	return p, &out, func(d time.Duration) { now = now.Add(d) }
}

func TestProgressOnTerminal(t *testing.T) {
	p, out, pass := newTestProgress(true)
	p.Terminal = Terminal{Width: 80}
	p.Set(0.25, "parsing")
	pass(50 * time.Millisecond)
	p.Set(0.26, "too soon")
	pass(10 * time.Second)
	p.Set(0.5, "still \x1b[2Jparsing")
	p.Done()
	p.Done()
	p.Set(1, "after the end")
	want := "\r██████░░░░░░░░░░░░░░░░░░  25 %  parsing  (0s)\x1b[K" +
		"\r████████████░░░░░░░░░░░░  50 %  still \uFFFD[2Jparsing  (10.0s, about 10.0s left)\x1b[K" +
		"\r\x1b[K"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out, want)
	}
}

func TestProgressElsewhere(t *testing.T) {
	p, out, _ := newTestProgress(false)
	p.Set(0.5, "a")
	p.Done()
	if out.Len() != 0 {
		t.Errorf("a file got %q", out)
	}
	p, out, pass := newTestProgress(false)
	p.Every = time.Minute
	p.Set(0.1, "a")
	pass(59 * time.Second)
	p.Set(0.2, "b")
	pass(time.Second)
	p.Set(math.NaN(), "c")
	pass(time.Second)
	p.Set(0.9999, "d")
	p.Done()
	if want := "10 %  a\nc\n99 %  d\n"; out.String() != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

func TestProgressFits(t *testing.T) {
	for width := 1; width < 130; width++ {
		for _, fraction := range []float64{math.NaN(), -1, 0, 0.031, 0.999, 1, 7, math.Inf(1)} {
			for _, ascii := range []bool{false, true} {
				p, out, pass := newTestProgress(true)
				p.Terminal = Terminal{Width: width, ASCII: ascii}
				p.Set(fraction, "")
				pass(time.Hour)
				p.Set(fraction, strings.Repeat("長い名前 ", 30))
				for _, line := range strings.Split(out.String(), "\r")[1:] {
					line = strings.TrimSuffix(line, "\x1b[K")
					if columns(line) > width-1 {
						t.Fatalf("%d columns in a terminal of %d: %q", columns(line), width, line)
					}
				}
			}
		}
	}
}

func TestProgressConcurrent(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, true)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				p.Set(float64(i)/100, fmt.Sprint(g))
			}
		})
	}
	wg.Wait()
	p.Done()
	if !strings.HasSuffix(out.String(), "\r\x1b[K") {
		t.Errorf("the line was left behind: %q", out.String())
	}
}

func TestProgressMakesRoom(t *testing.T) {
	p, out, pass := newTestProgress(true)
	hello := func() error { out.WriteString("hello\n"); return nil }
	p.Interrupt(hello) // nothing is there yet
	p.Set(0.5, "a")
	pass(time.Second)
	out.WriteString("|")
	if err := p.Interrupt(hello); err != nil {
		t.Error(err)
	}
	p.Done()
	p.Interrupt(hello)
	line := "\r████████████░░░░░░░░░░░░  50 %  a  (0s)\x1b[K"
	later := "\r████████████░░░░░░░░░░░░  50 %  a  (1.00s)\x1b[K"
	if want := "hello\n" + line + "|\r\x1b[Khello\n" + later + "\r\x1b[Khello\n"; out.String() != want {
		t.Errorf("got  %q\nwant %q", out, want)
	}
	broken := errors.New("broken")
	if err := p.Interrupt(func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the write", err)
	}
	p, out, _ = newTestProgress(false)
	p.Interrupt(func() error { out.WriteString("x"); return nil })
	if out.String() != "x" {
		t.Errorf("elsewhere: %q", out)
	}
}
