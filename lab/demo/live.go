package demo

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"headrace/lab/exp/preempt"
	"headrace/lab/rig"
	"headrace/report"
	"headrace/wire"
	"headrace/wire/convert"
)

const redrawEvery = 150 * time.Millisecond

// live shows the two jobs of a demonstration while they run: on a terminal a
// timeline that grows, elsewhere a line for every change.
type live struct {
	d      *demo
	watch  *rig.Watch
	policy string
	does   string

	mu          sync.Mutex
	low, urgent string // ids; empty before they are known

	quit, done chan struct{}
	lines      int // drawn so far
	said       map[string]string
}

func newLive(d *demo, daemon *rig.Daemon, policy, does string) *live {
	l := &live{d: d, watch: daemon.Tasks, policy: policy, does: does,
		quit: make(chan struct{}), done: make(chan struct{}), said: map[string]string{}}
	if !d.o.Live {
		fmt.Fprintf(d.o.Stderr, "%s: %s\n", policy, does)
	}
	go l.run()
	return l
}

func (l *live) began(low, urgent string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.low, l.urgent = low, urgent
}

// stop ends the display and removes it from the terminal.
func (l *live) stop() {
	close(l.quit)
	<-l.done
}

func (l *live) run() {
	defer close(l.done)
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.quit:
			if l.d.o.Live {
				l.d.o.Stderr.Write(l.home())
			}
			return
		case <-tick.C:
			l.show()
		}
	}
}

func (l *live) show() {
	l.mu.Lock()
	ids := []string{l.urgent, l.low}
	l.mu.Unlock()
	var tasks []*wire.Task
	for _, id := range ids {
		if t, _, err := l.watch.Get(id); err == nil && t.Task != nil {
			tasks = append(tasks, t.Task)
		}
	}
	if len(tasks) == 0 {
		return
	}
	if l.d.o.Live {
		l.draw(tasks)
		return
	}
	for _, t := range tasks {
		if is := convert.StateName(t); l.said[t.Id] != is {
			l.said[t.Id] = is
			fmt.Fprintf(l.d.o.Stderr, "  %s %s\n", t.Name, describe(t))
		}
	}
}

// describe returns the state of a task in a few words.
func describe(t *wire.Task) string {
	s := cmp.Or(convert.Doing(t), convert.StateName(t))
	if t.Progress >= 0 && !rig.Final(t) && s != "pending" {
		s += fmt.Sprintf(" %.0f %%", t.Progress*100)
	}
	return s
}

// draw writes the timeline over the one before.
func (l *live) draw(tasks []*wire.Task) {
	var b bytes.Buffer
	b.Write(l.home())
	t := l.timeline(tasks)
	if t.WriteText(&b, l.d.o.Terminal) != nil {
		return
	}
	l.lines = bytes.Count(b.Bytes(), []byte("\n"))
	l.d.o.Stderr.Write(b.Bytes())
}

// home returns what brings the cursor back to where the drawing began and clears the
// rest of the screen.
func (l *live) home() []byte {
	if l.lines == 0 {
		return nil
	}
	up := fmt.Sprintf("\x1b[%dA\r\x1b[J", l.lines)
	l.lines = 0
	return []byte(up)
}

// timeline has the present run under those that are over, as many as the screen
// has room for, so that all have one axis.
func (l *live) timeline(tasks []*wire.Task) *report.Timeline {
	zero := time.UnixMilli(tasks[len(tasks)-1].SubmittedMs)
	now := time.Since(zero).Seconds()
	p := report.Panel{Name: l.policy}
	var words []string
	for _, t := range tasks {
		lane := report.Lane{
			Name: t.Name, Strong: t.Priority == uint32(preempt.UrgentPriority), Segments: rig.Draw(convert.History(t), zero),
		}
		for i := range lane.Segments {
			if math.IsNaN(lane.Segments[i].End) {
				lane.Segments[i].End = max(now, lane.Segments[i].Start)
			}
		}
		p.Lanes = append(p.Lanes, lane)
		words = append(words, t.Name+" "+describe(t))
	}
	p.Note = l.note(strings.Join(words, ", "))
	t := &report.Timeline{}
	const frame, panel = 3, 4 // lines of the axis and the legend, and of a run
	room := max((l.rows()-frame)/panel-1, 0)
	past := l.d.runs
	for _, r := range past[max(len(past)-room, 0):] {
		t.Panels = append(t.Panels, preempt.PanelOf(r))
	}
	t.Panels = append(t.Panels, p)
	return t
}

// note returns what stands beside the name of the policy: a line that wrapped could
// not be drawn over.
func (l *live) note(states string) string {
	const usual = 80
	width := l.d.o.Terminal.Width
	if width <= 0 {
		width = usual
	}
	if long := l.does + "; " + states; len(l.policy)+len(long)+4 < width {
		return long
	}
	return states
}

// rows returns the height of the terminal.
func (l *live) rows() int {
	const usual = 24
	f, ok := l.d.o.Stderr.(*os.File)
	if !ok {
		return usual
	}
	_, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || rows < 8 {
		return usual
	}
	return rows
}
