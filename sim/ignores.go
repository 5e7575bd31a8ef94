package sim

import (
	"fmt"

	"headrace/trace"
)

// Ignores says in words what of a workload a simulation does not do: it takes every task
// by itself, and counts processors and memory only.
func Ignores(w *trace.Workload) []string {
	gangs := map[int32]bool{}
	needs := 0
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Gang != 0 {
			gangs[t.Gang] = true
		}
		if t.Need != 0 {
			needs++
		}
	}
	var out []string
	add := func(n int, format string) {
		if n > 0 {
			out = append(out, fmt.Sprintf(format, n))
		}
	}
	add(len(gangs), "the tasks of %d gangs run independently of each other here, not together")
	add(needs, "what %d tasks need beside processors and memory, such as GPUs, is not counted here")
	return out
}
