package workload

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"headrace"
)

// Check returns what is wrong with a workload: whatever it does not keep of what Workload
// and Task promise. What Open returns keeps all.
func (w *Workload) Check() error {
	if !w.ordered() {
		return errors.New("trace: the tasks are not in order")
	}
	jobs, files := int32(0), int32(0)
	for i := range w.Tasks {
		k := &w.Tasks[i]
		if k.Job > jobs || k.File > files+1 {
			return fmt.Errorf("trace: task %d: jobs and files are not numbered by their first tasks: %+v", i, *k)
		}
		jobs, files = max(jobs, k.Job+1), max(files, k.File)
		if k.Submit < 0 || k.Run < 0 || k.Index < 0 || k.Priority > headrace.MaxPriority || k.Class >= Classes || !(k.CPUs >= 0) || k.Memory < 0 ||
			!(k.Dirty >= 0) || !(k.Grow >= 0) || k.Preempted < 0 || k.Lost < 0 || k.Offset < 0 || k.Input < 0 {
			return fmt.Errorf("trace: task %d: %+v", i, *k)
		}
		if k.File > 0 && k.Offset+k.Input > w.Files[k.File-1].Bytes {
			return fmt.Errorf("trace: task %d reads beyond the end of its file: %+v", i, *k)
		}
	}
	if err := w.checkRelations(); err != nil {
		return err
	}
	if int(jobs) != len(w.Jobs) || int(files) != len(w.Files) {
		return fmt.Errorf("trace: %d of %d jobs and %d of %d files have tasks", jobs, len(w.Jobs), files, len(w.Files))
	}
	return nil
}

// checkRelations checks users, needs, stages and gangs.
func (w *Workload) checkRelations() error {
	users, needs, gangs := int32(0), int32(0), int32(0)
	has := make([]bool, len(w.Stages))
	for i := range w.Tasks {
		k := &w.Tasks[i]
		if k.User > users+1 || k.Need > needs+1 || k.Gang > gangs+1 || min(k.User, k.Need, k.Gang, k.Stage) < 0 || int(k.Stage) > len(has) {
			return fmt.Errorf("trace: task %d: users, needs, gangs and stages are not numbered by their first tasks: %+v", i, *k)
		}
		users, needs, gangs = max(users, k.User), max(needs, k.Need), max(gangs, k.Gang)
		if k.Stage > 0 {
			has[k.Stage-1] = true
		}
	}
	if int(users) != len(w.Users) || int(needs) != len(w.Needs) {
		return fmt.Errorf("trace: %d of %d users and %d of %d needs have tasks", users, len(w.Users), needs, len(w.Needs))
	}
	for i, need := range w.Needs {
		if len(need) != len(w.Resources) || slices.ContainsFunc(need, func(n float32) bool { return !(n >= 0) || math.IsInf(float64(n), 0) }) {
			return fmt.Errorf("trace: need %d is %v, of %d resources", i, need, len(w.Resources))
		}
	}
	for i, stage := range w.Stages {
		if !has[i] {
			return fmt.Errorf("trace: stage %d has no tasks", i)
		}
		for n, a := range stage.After {
			if a < 0 || int(a) >= i || n > 0 && stage.After[n-1] >= a {
				return fmt.Errorf("trace: stage %d waits for %v: want lower numbers, in order", i, stage.After)
			}
		}
	}
	return nil
}
