package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"headrace"
	"headrace/lab/rig"
	"headrace/lab/trial"
	"headrace/policy"
	"headrace/report"
	"headrace/wire"
	"headrace/wire/convert"
)

// CalibrationPlan is the small workload that is run live and simulated.
type CalibrationPlan struct {
	// Slots is how many tasks run at a time.
	Slots int `json:"slots"`
	// Store is what checkpoints were kept on, Medium what that is for the simulator.
	Store  rig.StoreFact     `json:"store"`
	Medium string            `json:"medium"`
	Tasks  []CalibrationTask `json:"tasks"`
}

// CalibrationTask is one of its tasks. Times are seconds.
type CalibrationTask struct {
	Name     string            `json:"name"`
	Priority headrace.Priority `json:"priority"`
	Submit   float64           `json:"submit"`
	Bytes    int64             `json:"bytes"`
	// Alone is how long it takes outside the daemon, beside one other task.
	Alone float64 `json:"alone"`

	job rig.Job
}

// CalibrationRun is the workload under one policy, both ways. Times are seconds;
// sojourns belong to CalibrationPlan.Tasks, but see simulateCalibration.
type CalibrationRun struct {
	Repeat int    `json:"repeat"`
	Order  int    `json:"order"`
	Policy string `json:"policy"`

	Live Calibrated `json:"live"`
	Sim  Calibrated `json:"sim"`

	Failure string `json:"failure,omitempty"`
}

// In returns the repeat, and why there are no numbers.
func (r CalibrationRun) In() (repeat int, failure string) { return r.Repeat, r.Failure }

// Calibrated is what one of the two has found.
type Calibrated struct {
	Sojourns []float64 `json:"sojourns"`
	Makespan float64   `json:"makespan"`
	// Waste is the time of slots that was thrown away, or passed in dumps and
	// restores.
	Waste       float64 `json:"waste"`
	Kills       int     `json:"kills"`
	Suspends    int     `json:"suspends"`
	Checkpoints int     `json:"checkpoints"`
}

// calibrationPolicies are compared. Where memory is plentiful cost does what suspend
// does; adaptive is the one that has to choose.
var calibrationPolicies = []policy.Name{policy.Kill, policy.Suspend, policy.Checkpoint, policy.Adaptive, policy.Cost}

// liveTime is a bound for what may not come to an end.
const liveTime = 10 * time.Minute

// quickPolicies is how many of them Options.Quick runs: those with one mechanism.
const quickPolicies = 3

// plannedTask is a task before its length is known.
type plannedTask struct {
	urgent           bool
	submit, duration float64
	bytes            int64
}

// calibrationTasks keep two slots busy with less urgent tasks into which four urgent
// ones arrive: 20 seconds of arrivals, 90 of work.
var calibrationTasks = []plannedTask{
	{false, 0, 14, 192 << 20},
	{false, 0.3, 11, 96 << 20},
	{false, 0.9, 9, 1 << 20},
	{false, 1.8, 12, 128 << 20},
	{false, 3.1, 8, 64 << 20},
	{true, 6, 5, 64 << 20},
	{true, 9, 7, 1 << 20},
	{true, 15, 6, 128 << 20},
	{true, 20, 5, 64 << 20},
}

// quickCalibration only goes through everything.
var quickCalibration = []plannedTask{
	{false, 0, 0.9, 8 << 20},
	{true, 0.4, 0.3, 1 << 20},
}

// calibration runs the same small workload live, with the real daemon, and simulated.
func (s *runner) calibration(ctx context.Context) error {
	if err := trial.NeedsRoot("checkpoints and the throttled storage of the experiment calibration need it"); err != nil {
		s.res.Skip("(calibration)", err.Error())
		return nil
	}
	h := s.o.Bench(s.progress, &s.res.Circumstances)
	h.Done, h.Todo = s.done, s.todo
	return h.With(func() error {
		c := &calibrator{runner: s, h: h}
		if err := c.prepare(ctx); err != nil {
			return err
		}
		return c.repeat(ctx)
	})
}

// calibrator runs the live half.
type calibrator struct {
	*runner
	h     *rig.Bench
	plan  *CalibrationPlan
	place rig.Store
}

func (c *calibrator) prepare(ctx context.Context) error {
	c.plan = &CalibrationPlan{Slots: 2}
	planned := calibrationTasks
	if c.o.Quick {
		c.plan.Slots, planned = 1, quickCalibration
	}
	if err := c.findPlace(ctx); err != nil {
		return err
	}
	c.plan.Store = c.place.Fact
	c.say(0.02, "measuring the tasks alone")
	longest := slices.MaxFunc(planned, func(a, b plannedTask) int { return cmp.Compare(a.duration, b.duration) }).duration
	rounds, err := c.h.DirtyRounds(ctx, longest)
	if err != nil {
		return err
	}
	jobs := make([]rig.Job, len(planned))
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(c.plan.Slots)
	for i, p := range planned {
		group.Go(func() (err error) {
			jobs[i], err = c.h.DirtyJob(each, p.bytes, int64(float64(rounds)*p.duration/longest), c.o.Seed+uint64(i))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, p := range planned {
		t := CalibrationTask{Name: fmt.Sprintf("low%d", i+1), Priority: headrace.Low, Submit: p.submit, Bytes: p.bytes, Alone: jobs[i].Alone, job: jobs[i]}
		if p.urgent {
			t.Name, t.Priority = fmt.Sprintf("urgent%d", i+1), headrace.Production
		}
		c.plan.Tasks = append(c.plan.Tasks, t)
	}
	c.res.Calibration = c.plan
	return nil
}

// findPlace takes storage of 100 MB/s, or the disk where there can be none.
func (c *calibrator) findPlace(ctx context.Context) error {
	const room = 2 << 30
	places, err := c.h.Stores(ctx, []int64{100e6}, room, false, "(calibration)")
	if err != nil {
		return err
	}
	c.plan.Medium = "ssd"
	if len(places) > 0 {
		c.place = places[0]
		return nil
	}
	c.plan.Medium = "disk"
	c.place, err = c.h.DiskStore(ctx)
	return err
}

func (c *calibrator) repeat(ctx context.Context) error {
	return trial.Rounds[policy.Name, CalibrationRun]{Repeats: c.o.Repeats, Seed: c.o.Seed, Say: c.h.Within(0.1, 1),
		Entries: trial.Sized(c.o.Quick, calibrationPolicies, calibrationPolicies[:quickPolicies]),
		Run:     func(name policy.Name) (CalibrationRun, error) { return c.once(ctx, name) },
		Keep: func(name policy.Name, x CalibrationRun, t trial.Turn) {
			x.Repeat, x.Order, x.Policy, x.Failure = t.Repeat, t.Order, string(name), t.Failure
			c.res.Calibrated = append(c.res.Calibrated, x)
		},
	}.Do(ctx, &c.res.Circumstances)
}

func (c *calibrator) once(ctx context.Context, name policy.Name) (CalibrationRun, error) {
	var r CalibrationRun
	store, err := c.h.StoreIn(c.place.Dir, "store", string(name))
	if err != nil {
		return r, err
	}
	d, err := c.h.Daemon(ctx, rig.DaemonConfig{Policy: string(name), Slots: c.plan.Slots, Stores: []rig.StoreDir{store}, Group: c.place.Group})
	if err != nil {
		return r, err
	}
	var cold []string
	if c.place.Cold {
		cold = []string{store.Dir}
	}
	r.Live, err = c.plan.live(ctx, d, cold)
	if err = errors.Join(err, c.h.Settle(d)); err != nil {
		return r, err
	}
	r.Sim, err = c.simulateCalibration(ctx, name)
	return r, err
}

// live submits the tasks when it is their time and waits for all of them.
func (p *CalibrationPlan) live(ctx context.Context, d *rig.Daemon, cold []string) (out Calibrated, err error) {
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	ids := make([]string, len(p.Tasks))
	submitted := make([]time.Time, len(p.Tasks))
	defer func() {
		for _, id := range ids {
			err = errors.Join(err, d.Dispose(id))
		}
	}()
	start := time.Now()
	for i, t := range p.Tasks {
		if err := rig.WaitUntil(ctx, start.Add(time.Duration(t.Submit*float64(time.Second)))); err != nil {
			return out, err
		}
		submitted[i] = time.Now()
		if ids[i], err = d.Submit(ctx, t.Name, t.job.Args, t.job.Memory, t.Priority); err != nil {
			return out, err
		}
		if t.Priority == headrace.Low {
			defer d.KeepCold(ctx, ids[i], cold)()
		}
	}
	for i, t := range p.Tasks {
		end, err := d.Tasks.End(ctx, ids[i])
		if err != nil {
			return out, fmt.Errorf("task %s: %w", t.Name, err)
		}
		if _, err := d.Check(ctx, end.Task, t.job.Answer); err != nil {
			return out, err
		}
		out.Sojourns = append(out.Sojourns, end.Ended.Sub(submitted[i]).Seconds())
		out.Makespan = max(out.Makespan, end.Ended.Sub(submitted[0]).Seconds())
		out.account(end.Task)
	}
	return out, nil
}

// account adds what became of a task.
func (c *Calibrated) account(t *wire.Task) {
	for _, s := range rig.Draw(convert.History(t), time.UnixMilli(t.SubmittedMs)) {
		switch s.Kind {
		case report.Lost:
			c.Kills++
			c.Waste += rig.Length(s)
		case report.Checkpointing:
			c.Checkpoints++
			c.Waste += rig.Length(s)
		case report.Restoring:
			c.Waste += rig.Length(s)
		case report.Suspended:
			c.Suspends++
		}
	}
}

// bySojourn gives the sojourns of the tasks of a priority, the shortest first.
func (p *CalibrationPlan) bySojourn(of headrace.Priority, sojourns []float64) []float64 {
	var out []float64
	for i, t := range p.Tasks {
		if t.Priority == of && i < len(sojourns) {
			out = append(out, sojourns[i])
		}
	}
	slices.SortFunc(out, cmp.Compare[float64])
	return out
}
