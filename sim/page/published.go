package page

import (
	"math"

	"headrace/policy"
	"headrace/sim"
)

// What checkpoint-preemption published of its simulation (sections 2, 3.3.2 and
// 4.2.1), for a synthetic day that resembles it. Numbers that are only in its
// figures are not here.

// publishedWaste is the share of what was used that was wasted.
func publishedWaste(r *sim.Result) float64 {
	switch r.Policy {
	case policy.Kill:
		return 0.35
	case policy.Checkpoint:
		return map[string]float64{"hdd": 0.146, "ssd": 0.111, "nvm": 0.085}[r.Medium]
	}
	return 0
}

// publishedResponse is the response of a band's jobs as a multiple of that under
// kill; 0 where the paper has none in its text.
func publishedResponse(r *sim.Result, band string) float64 {
	switch {
	case r.Policy == policy.Kill:
		return 1
	case r.Policy == policy.Checkpoint && r.Medium == "nvm":
		return map[string]float64{"free": 1 - 0.74, "middle": 1 - 0.23}[band]
	}
	return 0
}

// publishedAdaptive is by how much adaptive shortens the response of a band's jobs,
// compared with checkpoint.
func publishedAdaptive(medium, band string) float64 {
	return map[string]map[string]float64{
		"hdd": {"free": 0.36, "middle": 0.55, "production": 0.29},
		"ssd": {"free": 0.12, "middle": 0.17, "production": 0.08},
		"nvm": {"free": 0.03, "middle": 0.08},
	}[medium][band]
}

// publishedOften is the share of preempted tasks that were preempted at least so
// often (figure 1c).
var publishedOften = map[int]float64{1: 1, 2: 0.435, 10: 0.17}

// publishedBands and publishedClasses are the shares of scheduled tasks that were
// preempted (tables 1 and 2), publishedAll that of all.
var (
	publishedBands   = map[string]float64{"free": 0.2026, "middle": 0.0055, "production": 0.0102}
	publishedClasses = []float64{0.1176, 0.1887, 0.0814, 0.1480}
	publishedAll     = 0.124
)

// published is a value that is shown only when the workload is the paper's.
func (s set) published(v float64) float64 {
	if !s.isGoogleDay() || v == 0 {
		return math.NaN()
	}
	return v
}
