package workload

import (
	"errors"
	"fmt"

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
	if int(jobs) != len(w.Jobs) || int(files) != len(w.Files) {
		return fmt.Errorf("trace: %d of %d jobs and %d of %d files have tasks", jobs, len(w.Jobs), files, len(w.Files))
	}
	return nil
}
