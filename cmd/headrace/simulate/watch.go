package simulate

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"headrace/cli"
	"headrace/report"
	"headrace/sim"
)

// A simWatch tells a person how far simulations are: a line for each run that has
// ended, and on a terminal one that shows the run that has gone on longest. Its
// methods may be called by several goroutines at once.
type simWatch struct {
	bar *report.Progress
	out io.Writer
	now func() time.Time

	mu     sync.Mutex
	todo   int // runs, with those that have ended
	ended  int
	active []*activeRun
}

type activeRun struct {
	run   simRun
	begun time.Time
	at    sim.Progress
}

func (w *simWatch) begin(run simRun) *activeRun {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &activeRun{run: run, begun: w.now()}
	w.active = append(w.active, a)
	w.show()
	return a
}

func (w *simWatch) at(a *activeRun, p sim.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.at = p
	w.show()
}

// end says that a run has ended; without a result it has failed.
func (w *simWatch) end(a *activeRun, r *sim.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = slices.DeleteFunc(w.active, func(other *activeRun) bool { return other == a })
	w.ended++
	if r == nil {
		return
	}
	took := w.now().Sub(a.begun)
	line := fmt.Sprintf("%s: %s tasks in %s, %s/s", a.run, cli.Grouped(r.Tasks), report.Duration(took), cli.Grouped(rate(r.Tasks, took)))
	w.bar.Interrupt(func() error {
		_, err := fmt.Fprintln(w.out, line)
		return err
	})
	w.show()
}

// more says that there is one run more than was known.
func (w *simWatch) more() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.todo++
}

// skip says that n of the runs are not needed.
func (w *simWatch) skip(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.todo -= n
	w.show()
}

func (w *simWatch) show() {
	if len(w.active) > 0 {
		w.bar.Set(w.state())
	}
}

// state returns the share of all runs that is done, and what is being done.
func (w *simWatch) state() (done float64, text string) {
	done = float64(w.ended)
	for _, a := range w.active {
		if a.at.Tasks > 0 {
			done += float64(a.at.Ended) / float64(a.at.Tasks)
		}
	}
	text = w.active[0].text(w.now())
	if more := len(w.active) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return done / float64(max(w.todo, 1)), text
}

func (a *activeRun) text(now time.Time) string {
	if a.at.Tasks == 0 {
		return a.run.String()
	}
	return fmt.Sprintf("%s: %s, %s of %s tasks, %s/s", a.run, virtualTime(a.at.At), cli.Grouped(a.at.Ended), cli.Grouped(a.at.Tasks),
		cli.Grouped(rate(a.at.Ended, now.Sub(a.begun))))
}

// virtualTime returns the time of day in a simulation, with the day when there is more
// than one.
func virtualTime(t time.Duration) string {
	day, t := int(t/(24*time.Hour)), t%(24*time.Hour)
	text := fmt.Sprintf("%02d:%02d", int(t.Hours()), int(t.Minutes())%60)
	if day > 0 {
		text = fmt.Sprintf("day %d %s", day+1, text)
	}
	return text
}

func rate(n int, in time.Duration) int {
	if in <= 0 {
		return 0
	}
	return int(float64(n) / in.Seconds())
}
