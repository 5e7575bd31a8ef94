package warm

import (
	"cmp"
	"slices"
)

// A warmDisk is what is known of the disk of a replay: bytes per second, and the
// seconds from one file to another. Zero: not known.
type warmDisk struct {
	Bandwidth float64 `json:"bandwidth,omitempty"`
	Seek      float64 `json:"seek,omitempty"`
}

// aheadOfTime returns what reading ahead could reach at most with one disk: by how many
// seconds each job would start late if the disk did nothing but read the inputs
// one after the other, at full speed, from the moment of submission, the smallest
// first, and a larger one gave way at any byte to a smaller one. Times in jobs are
// those of submission; lead is how long a job waits in any case.
func (d warmDisk) aheadOfTime(jobs []ReplayedJob, lead float64) []float64 {
	late := make([]float64, len(jobs))
	left := make([]float64, len(jobs)) // seconds of reading
	var order []int                    // those that read, as they were submitted
	for i, j := range jobs {
		if j.Input > 0 {
			left[i] = d.Seek + float64(j.Input)/d.Bandwidth
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(jobs[a].Submitted, jobs[b].Submitted) })
	now := 0.0
	var waiting []int // the smallest first
	for len(order)+len(waiting) > 0 {
		if len(waiting) == 0 {
			now = max(now, jobs[order[0]].Submitted)
		}
		for len(order) > 0 && jobs[order[0]].Submitted <= now {
			waiting = append(waiting, order[0])
			order = order[1:]
		}
		slices.SortStableFunc(waiting, func(a, b int) int { return cmp.Compare(jobs[a].Input, jobs[b].Input) })
		i := waiting[0]
		until := now + left[i]
		if len(order) > 0 && jobs[order[0]].Submitted < until {
			left[i] -= jobs[order[0]].Submitted - now
			now = jobs[order[0]].Submitted
			continue
		}
		now = until
		late[i] = max(0, now-jobs[i].Submitted-lead)
		waiting = waiting[1:]
	}
	return late
}

// ideal returns the replays with inputs in RAM as they would be if the inputs had to
// be read ahead from the disk in this way; none when the disk is not known.
func (r *Results) ideal() []Replay {
	if r.Plan.Disk.Bandwidth <= 0 {
		return nil
	}
	var out []Replay
	for _, x := range r.Replays {
		if x.Mode != modeRAM || x.Failure != "" {
			continue
		}
		x.Mode = modeIdeal
		x.Jobs = slices.Clone(x.Jobs)
		for i, late := range r.Plan.Disk.aheadOfTime(x.Jobs, r.Plan.Lead) {
			x.Jobs[i].Duration += late
		}
		out = append(out, x)
	}
	return out
}
