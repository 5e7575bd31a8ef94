package sim

import (
	"context"
	"fmt"
	"math"

	"headrace/lab/sample"
	"headrace/lab/shapes"
	"headrace/policy"
)

// Shape is one of package shapes, and what was run of it.
type Shape struct {
	Name    string      `json:"name"`
	Half    shapes.Half `json:"half"`
	What    string      `json:"what"`
	Cluster string      `json:"cluster"`
	Runs    []ShapeRun  `json:"runs,omitempty"`
}

// ShapeRun is what counts of one simulation of a shape: of several thousand, whole results
// would be too much to keep. Times are seconds.
type ShapeRun struct {
	Seed uint64  `json:"seed"`
	Load float64 `json:"load"`
	// Moved is the number of the draw by which its jobs were moved; 0: they were not.
	Moved  int         `json:"moved,omitempty"`
	Policy policy.Name `json:"policy"`
	Tasks  int         `json:"tasks"`
	// Wasted is the share of the time of CPUs. Urgent and All are the mean responses of the
	// jobs of the band production, and of all; Longest is that of the task of the band free
	// that took longest. Those of bands that have none are 0.
	Wasted  float64 `json:"wasted"`
	Urgent  float64 `json:"urgent"`
	All     float64 `json:"all"`
	Longest float64 `json:"longest"`
	// Fault and Failure are as in Run.
	Fault   string `json:"fault,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// shapeLoads are what shapes are run at: shares of what their cluster has in percent, from some room to too much.
var shapeLoads = []float64{70, 90, 105, 120}

// single are the policies that each have one mechanism, which cost chooses from.
var single = []policy.Name{policy.Kill, policy.Suspend, policy.Checkpoint}

// shapePolicies are those and cost.
var shapePolicies = append(single[:len(single):len(single)], policy.Cost)

// shapes runs the shapes for all seeds, at all loads, under all of shapePolicies.
func (s *runner) shapes(ctx context.Context) error {
	all := s.o.Shapes.chosen()
	for i := range all {
		x := &all[i]
		s.res.Shapes = append(s.res.Shapes, Shape{Name: x.Name, Half: x.Half, What: x.What, Cluster: x.Cluster()})
		for repeat := range s.o.Repeats {
			tasks, err := s.o.Shapes.tasks(x, s.o.Seed+uint64(repeat), s.media)
			if err != nil {
				return err
			}
			part := func(n int) float64 { return float64(i*s.o.Repeats+n) / float64(len(all)*s.o.Repeats) }
			runs := s.sideBySide(ctx, nil, tasks, part(repeat), part(repeat+1))
			to := &s.res.Shapes[i].Runs
			for _, r := range runs {
				*to = append(*to, shapeRun(&r))
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// shapeRun returns what is kept of a run.
func shapeRun(r *Run) ShapeRun {
	out := ShapeRun{Seed: r.Seed, Load: r.atLoad, Moved: r.moved, Policy: r.Policy, Tasks: r.Tasks, Fault: r.Fault, Failure: r.Failure}
	if r.Failure == "" {
		out.Wasted, out.All = r.Work.WasteShare(), r.meanResponse()
		out.Urgent, out.Longest = r.Band("production").Response.Mean, r.Band("free").TaskResponse.Quantile(1)
	}
	return out
}

// shapePoint is the runs of a shape that are compared: of one workload.
type shapePoint struct {
	shape *Shape
	workloadOf
	runs map[policy.Name]*ShapeRun
}

// workloadOf says which of a shape it is.
type workloadOf struct {
	seed  uint64
	load  float64
	moved int
}

func (w workloadOf) String() string {
	text := fmt.Sprintf("seed %d, %.0f %%", w.seed, 100*w.load)
	if w.moved > 0 {
		text += fmt.Sprintf(", moved by draw %d", w.moved)
	}
	return text
}

func (p shapePoint) String() string { return p.shape.Name + ", " + p.workloadOf.String() }

// shapePoints returns those where every policy has numbers.
func (r *Results) shapePoints() []shapePoint {
	var out []shapePoint
	for i := range r.Shapes {
		x := &r.Shapes[i]
		points := map[workloadOf]*shapePoint{}
		for j := range x.Runs {
			run := &x.Runs[j]
			if run.Failure != "" {
				continue
			}
			at := workloadOf{run.Seed, run.Load, run.Moved}
			if points[at] == nil {
				points[at] = &shapePoint{x, at, map[policy.Name]*ShapeRun{}}
			}
			p := points[at]
			if p.runs[run.Policy] = run; len(p.runs) == len(shapePolicies) {
				out = append(out, *p)
			}
		}
	}
	return out
}

// shapeFigure compares cost with the others at a point: by how much it is more, as a share.
// At most the bound is asked for.
type shapeFigure struct {
	name  string
	bound float64
	of    func(p shapePoint) float64
}

// shapeFigures are what the policy cost is to reach on every shape.
var shapeFigures = []shapeFigure{
	{"wasted, more than the best, of all time", 0.05, func(p shapePoint) float64 {
		return p.runs[policy.Cost].Wasted - p.best(func(r *ShapeRun) float64 { return r.Wasted })
	}},
	{"urgent jobs, over kill", 0.05, func(p shapePoint) float64 {
		return p.runs[policy.Cost].Urgent/p.runs[policy.Kill].Urgent - 1
	}},
	{"all jobs, over the best", 0.05, func(p shapePoint) float64 {
		return p.runs[policy.Cost].All/p.best(func(r *ShapeRun) float64 { return r.All }) - 1
	}},
	{"the low task that took longest, over kill's", 0, func(p shapePoint) float64 {
		return p.runs[policy.Cost].Longest/p.runs[policy.Kill].Longest - 1
	}},
}

// best returns the least of the policies with a single mechanism.
func (p shapePoint) best(of func(*ShapeRun) float64) float64 {
	least := math.Inf(1)
	for _, name := range single {
		least = min(least, of(p.runs[name]))
	}
	return least
}

// at returns the values of f at the points that have one, and where it is worst.
func (f shapeFigure) at(points []shapePoint) (values []float64, missed int, worst float64, where *shapePoint) {
	worst = math.Inf(-1)
	for i := range points {
		v := f.of(points[i])
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue // there are no such jobs
		}
		values = append(values, v)
		if v > f.bound {
			missed++
		}
		if v > worst {
			worst, where = v, &points[i]
		}
	}
	return values, missed, worst, where
}

// ofHalf and ofShape choose points.
func ofHalf(points []shapePoint, half shapes.Half) []shapePoint {
	return sample.Where(points, func(p shapePoint) bool { return p.shape.Half == half })
}

func ofShape(points []shapePoint, x *Shape) []shapePoint {
	return sample.Where(points, func(p shapePoint) bool { return p.shape == x })
}
