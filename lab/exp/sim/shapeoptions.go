package sim

import (
	"cmp"
	"fmt"
	"slices"

	"headrace"
	"headrace/lab/shapes"
	"headrace/lab/trial"
	"headrace/policy"
	"headrace/sim"
	"headrace/trace"
)

// ShapeOptions says which of the shapes are run, and how. Its zero value is all of them as they are.
type ShapeOptions struct {
	// Names are of the shapes; empty: all.
	Names []string
	// Loads are shares of what their clusters have, in percent; empty: shapeLoads.
	Loads []float64
	// Tasks is how many each has; 0: 1000 (60 with trial.Options.Quick).
	Tasks int
	// Moved is how often each is run again with each job moved by up to 5 s: what of a figure is chance.
	Moved int
	// Priorities are those that low, middle and urgent jobs have in place of their own (shapes.Priorities); empty: those.
	Priorities []int
	// Victims and Doubling are those of the policy Cost (policy.Config).
	Victims  policy.VictimOrder
	Doubling float64
}

// The bounds of ShapeOptions.
const (
	leastShapeTasks = 10
	mostShapeTasks  = 1_000_000
	mostLoad        = 1000
	mostMoved       = 1000
)

func (o *ShapeOptions) complete(quick bool) (err error) {
	var known []string
	for _, x := range shapes.All() {
		known = append(known, x.Name)
	}
	if o.Names, err = trial.KnownNames("shape", o.Names, known); err != nil {
		return err
	}
	if len(o.Loads) == 0 {
		o.Loads = shapeLoads
	}
	for _, l := range o.Loads {
		if !(l > 0 && l <= mostLoad) {
			return fmt.Errorf("load of %g %%: want more than 0 and at most %d", l, mostLoad)
		}
	}
	o.Tasks = cmp.Or(o.Tasks, trial.Sized(quick, 1000, 60))
	if o.Tasks < leastShapeTasks || o.Tasks > mostShapeTasks {
		return fmt.Errorf("%d tasks of a shape: want %d to %d", o.Tasks, leastShapeTasks, mostShapeTasks)
	}
	if o.Moved < 0 || o.Moved > mostMoved {
		return fmt.Errorf("jobs moved %d times: want 0 to %d", o.Moved, mostMoved)
	}
	if n := len(o.Priorities); n != 0 && n != len(shapes.Priorities) {
		return fmt.Errorf("%d priorities: want those of low, middle and urgent jobs", n)
	}
	for _, p := range o.Priorities {
		if p < 0 || p > int(headrace.MaxPriority) {
			return fmt.Errorf("priority %d: want 0 to %d", p, headrace.MaxPriority)
		}
	}
	return o.policy(policy.Cost).Validate()
}

// policy returns the policy of that name.
func (o *ShapeOptions) policy(name policy.Name) policy.Config {
	if name != policy.Cost {
		return policy.Config{Policy: name}
	}
	return policy.Config{Policy: name, VictimOrder: o.Victims, Doubling: o.Doubling}
}

// chosen returns the shapes that are run.
func (o *ShapeOptions) chosen() []shapes.Shape {
	return slices.DeleteFunc(shapes.All(), func(x shapes.Shape) bool { return !slices.Contains(o.Names, x.Name) })
}

// workload returns the work of x for a seed at a load in percent, its jobs moved by the draw moved unless that is 0.
func (o *ShapeOptions) workload(x *shapes.Shape, seed uint64, load float64, moved int) (*trace.Workload, error) {
	w, err := x.Make(seed, o.Tasks, load/100)
	if err != nil {
		return nil, err
	}
	for i := range w.Tasks {
		if at := slices.Index(shapes.Priorities, w.Tasks[i].Priority); at >= 0 && len(o.Priorities) > 0 {
			w.Tasks[i].Priority = headrace.Priority(o.Priorities[at])
		}
	}
	if moved > 0 {
		err = shapes.Move(w, uint64(moved))
	}
	return w, err
}

// tasks returns the runs of x for one seed.
func (o *ShapeOptions) tasks(x *shapes.Shape, seed uint64, m sim.Measurements) ([]simTask, error) {
	var out []simTask
	for _, load := range o.Loads {
		for moved := range 1 + o.Moved {
			w, err := o.workload(x, seed, load, moved)
			if err != nil {
				return nil, err
			}
			for _, p := range shapePolicies {
				c, err := x.Config(m)
				if err != nil {
					return nil, err
				}
				c.Policy, c.Seed, c.Check = o.policy(p), seed, true
				out = append(out, simTask{run: Run{Seed: seed, atLoad: load / 100, moved: moved, Result: sim.Result{Policy: p}}, config: c, workload: w})
			}
		}
	}
	return out, nil
}
