package workload

import (
	"fmt"
	"math"
	"time"
)

// Rebased holds tasks whose Submit counts from any time, until the first submission is
// known.
type Rebased struct {
	// Most is how many tasks there may be, of whichever part of the trace.
	Most  int
	tasks []Task
	// began has when each of the tasks began to run, where Ran has told so; firstEnd is when the first of those ended.
	began    []time.Duration
	firstEnd time.Duration
}

// Unknown stands for a time that is not known.
const Unknown = time.Duration(math.MaxInt64)

// Ran adds a task that began to run at a time, which may be Unknown, and has ended or was still running when the
// list that it is in was made. It fails as Task does.
func (r *Rebased) Ran(t Task, began time.Duration, ended bool) error {
	if err := r.Task(t); err != nil {
		return err
	}
	if len(r.began) == 0 {
		r.firstEnd = Unknown
	}
	r.began = append(r.began, began)
	if ended && began < Unknown-t.Run {
		r.firstEnd = min(r.firstEnd, began+t.Run)
	}
	return nil
}

// rarer is how many times as rare submissions have to be before the first end for Cut to take a list for one that
// was cut out of a longer record, enough how many there have to be later. In a whole record they come about as often
// before as later.
const rarer, enough = 2, 10

// Cut has time begin with the first end of a task where the list has what was there in some time, and not all that
// was submitted in its own: before that end nothing but what took long or waited long is in it, and the cluster was
// full of others. What was submitted before is submitted then, and what ran has the running time that was left. All
// tasks must have come by Ran. Notes say what was done, or that the beginning may be such a time all the same.
func (r *Rebased) Cut(a *About) {
	first, last := r.firstSubmit(), time.Duration(math.MinInt64)
	// What was submitted together, as an array of jobs is, counts once.
	before, after, at := 0.0, 0.0, time.Duration(-1)
	for i := range r.tasks {
		submit := r.tasks[i].Submit
		last = max(last, submit)
		switch {
		case submit == at:
		case submit < r.firstEnd:
			before++
		default:
			after++
		}
		at = submit
	}
	if len(r.tasks) == 0 {
		return
	}
	begin := first
	if early, late := (r.firstEnd - first).Seconds(), (last - r.firstEnd).Seconds(); early > 0 && late > 0 && after >= enough && rarer*before*late < after*early {
		begin = r.firstEnd
		var earlier int64
		for i := range r.tasks {
			t := &r.tasks[i]
			if t.Submit < begin {
				earlier++
				t.Submit = begin
			}
			if ran := begin - r.began[i]; ran > 0 {
				t.Run = max(0, t.Run-ran)
			}
		}
		a.Note("time begins when the first task of the list ended: before, %s, little was submitted of what is in it; the %d tasks of then are submitted at 0, with the running time that was left",
			shortly(r.firstEnd-first), earlier)
	}
	few := 0
	for i := range r.tasks {
		if r.tasks[i].Submit-begin < (last-begin)/10 {
			few++
		}
	}
	if n := len(r.tasks); last > begin && few*100 < n {
		a.Note("the first tenth of the time has %d of the %d tasks: if the list is not of all that ran then, begin later with --start", few, n)
	}
}

// shortly returns a time for people.
func shortly(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	}
	return d.Round(time.Second).String()
}

func (r *Rebased) firstSubmit() time.Duration {
	first := Unknown
	for i := range r.tasks {
		first = min(first, r.tasks[i].Submit)
	}
	return first
}

// Task adds a task.
func (r *Rebased) Task(t Task) error {
	if len(r.tasks) >= r.Most {
		return TooManyHeld(r.Most)
	}
	r.tasks = append(r.tasks, t)
	return nil
}

// Pour gives all tasks to a sink, with times since the first submission.
func (r *Rebased) Pour(to Sink) error {
	first := r.firstSubmit()
	for _, t := range r.tasks {
		t.Submit -= first
		if err := to.Task(t); err != nil {
			return err
		}
	}
	return nil
}

// Noted is a number of things to be told of.
type Noted struct {
	N    int64
	Text string
}

// NoteSome adds a note for each of these that there are any of.
func (a *About) NoteSome(all ...Noted) {
	for _, n := range all {
		if n.N > 0 {
			a.Note("%d %s", n.N, n.Text)
		}
	}
}
