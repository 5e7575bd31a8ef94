package preempt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"headrace"
	"headrace/lab/rig"
	"headrace/report"
	"headrace/wire"
	"headrace/wire/convert"
)

// The priorities of the two tasks.
const (
	lowPriority    = headrace.Low
	UrgentPriority = headrace.High
)

// Pair is one low-priority task and an urgent one that arrives when share of the
// former is done.
type Pair struct {
	Low, Urgent rig.Job
	Share       float64
	// cold are directories whose files are dropped from the page cache once the
	// low-priority task is checkpointed.
	cold []string
	// Began is told the ids of the tasks as they are submitted; nil: nobody.
	Began func(low, urgent string)
}

// trialTime is a bound for what may not come to an end.
const trialTime = 10 * time.Minute

// Outcome is a run and the two tasks as they ended, with what they wrote.
type Outcome struct {
	Run
	Low               *wire.Task
	LowOut, UrgentOut string
}

// Run carries the trial out with the daemon and checks both answers. The scratch
// is for the file by which the low-priority task tells that share is done. Both
// tasks are gone when it returns.
func (t Pair) Run(ctx context.Context, d *rig.Daemon, s *rig.Scratch) (o Outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	mark := filepath.Join(s.Dir, "mark")
	if err := os.RemoveAll(mark); err != nil {
		return o, err
	}
	swapBefore, err := rig.ReadPaged()
	if err != nil {
		return o, err
	}
	cpuBefore := d.CPU()
	var low, urgent string
	defer func() { err = errors.Join(err, d.Dispose(low), d.Dispose(urgent)) }()

	start := time.Now()
	args := append([]string{t.Low.Args[0], "--mark", fmt.Sprintf("%g:%s", t.Share, mark)}, t.Low.Args[1:]...)
	if low, err = d.Submit(ctx, t.Low.Called("low"), args, t.Low.Memory, lowPriority); err != nil {
		return o, err
	}
	t.tell(low, "")
	if err := d.AwaitFile(ctx, low, mark); err != nil {
		return o, fmt.Errorf("wait until %.0f %% is done: %w", t.Share*100, err)
	}
	arrived := time.Now()
	if urgent, err = d.Submit(ctx, t.Urgent.Called("urgent"), t.Urgent.Args, t.Urgent.Memory, UrgentPriority); err != nil {
		return o, err
	}
	t.tell(low, urgent)
	defer d.KeepCold(ctx, low, t.cold)()
	u, err := d.Tasks.End(ctx, urgent)
	if err != nil {
		return o, fmt.Errorf("urgent task: %w", err)
	}
	l, err := d.Tasks.End(ctx, low)
	if err != nil {
		return o, fmt.Errorf("low-priority task: %w", err)
	}
	swapAfter, err := rig.ReadPaged()
	if err != nil {
		return o, err
	}
	o = Outcome{Run: accountOf(l.Task, u.Task), Low: l.Task}
	var lowErr, urgentErr error
	o.LowOut, lowErr = d.Check(ctx, l.Task, t.Low.Answer)
	o.UrgentOut, urgentErr = d.Check(ctx, u.Task, t.Urgent.Answer)
	if err := errors.Join(lowErr, urgentErr); err != nil {
		return Outcome{}, err
	}

	o.Sojourn = u.Ended.Sub(arrived).Seconds()
	o.LowResponse = l.Ended.Sub(start).Seconds()
	o.Makespan = max(o.LowResponse, u.Ended.Sub(start).Seconds())
	o.Arrived = arrived.Sub(start).Seconds()
	o.DaemonCPU = d.CPU() - cpuBefore
	swap := swapAfter.Since(swapBefore)
	o.PagedOut, o.PagedIn = swap.Out, swap.In
	return o, nil
}

func (t Pair) tell(low, urgent string) {
	if t.Began != nil {
		t.Began(low, urgent)
	}
}

// accountOf returns what two ended tasks have used, and their history.
func accountOf(low, urgent *wire.Task) Run {
	r := Run{Mechanism: convert.History(low).LeftBy().String()}
	zero := time.UnixMilli(low.SubmittedMs)
	for _, t := range []*wire.Task{urgent, low} {
		h := convert.History(t)
		r.LostCPU += t.LostCpu
		if u := t.Usage; u != nil {
			r.TaskCPU += u.UserCpu + u.SystemCpu
			r.OverheadCPU += u.OverheadCpu
		}
		dumped, restored := h.Moved()
		r.Dumped += dumped
		r.Restored += restored
		r.Lanes = append(r.Lanes, report.Lane{Name: t.Name, Strong: t == urgent, Segments: rig.Draw(h, zero)})
	}
	return r
}
