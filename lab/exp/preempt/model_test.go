package preempt

import "headrace/report"

// modelRun is two tasks of 4 s and 2 s.
type modelRun struct{}

func (modelRun) low() float64    { return 4 }
func (modelRun) urgent() float64 { return 2 }

// run returns what a policy makes of them. paging is what paging out and in costs
// suspend, in seconds each; the image has 250 MB.
func (m modelRun) run(experiment, policy string, repeat int, p Point, paging, bandwidth float64) Run {
	const image = 250e6
	share := p.Share
	if share == 0 {
		share = 0.5
	}
	arrives, dump := m.low()*share, image/bandwidth
	did := policy
	if policy == "adaptive" || policy == "cost" {
		did = "suspend"
		if experiment == expStorage {
			did = "kill"
			if 2*dump < arrives {
				did = "checkpoint"
			}
		}
	}
	r := Run{Experiment: experiment, Repeat: repeat, Policy: policy, Point: p, Mechanism: did, Arrived: arrives,
		TaskCPU: m.low() + m.urgent(), DaemonCPU: 0.01}
	delay, waste := 0.01, 0.0
	switch did {
	case "wait":
		delay = m.low() - arrives
	case "kill":
		waste, r.LostCPU = arrives, arrives
		r.TaskCPU += arrives
	case "suspend":
		delay, waste = delay+paging, 2*paging
		r.PagedOut, r.PagedIn = int64(paging*1e9), int64(paging*0.9e9)
	case "checkpoint":
		delay, waste = delay+dump, 2*dump
		r.Dumped, r.Restored, r.OverheadCPU = image, image, 0.3
	}
	wobble := 1 + 0.01*float64(repeat)
	r.Sojourn = (m.urgent() + delay) * wobble
	r.Makespan = (m.low() + m.urgent() + waste) * wobble
	if did != "wait" {
		r.Makespan += 0.01
	}
	r.LowResponse = r.Makespan
	low := report.Lane{Name: "low", Segments: []report.Segment{{Kind: report.Running, Start: 0, End: arrives}}}
	urgent := report.Lane{Name: "urgent", Strong: true, Segments: []report.Segment{{Kind: report.Running, Start: arrives + delay, End: arrives + r.Sojourn}}}
	r.Lanes = []report.Lane{urgent, low}
	return r
}
