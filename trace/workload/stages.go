package workload

import (
	"container/heap"
	"fmt"
	"slices"
)

// orderStages numbers stages anew: each after those that it waits for, and otherwise in the
// order of their first tasks. Those without tasks are dropped.
func (w *Workload) orderStages() error {
	if len(w.Stages) == 0 {
		return nil
	}
	first := make([]int32, len(w.Stages)) // one more than a stage's first task
	for i := range w.Tasks {
		if s := w.Tasks[i].Stage; s > 0 && first[s-1] == 0 {
			first[s-1] = int32(i + 1)
		}
	}
	waits, followers := make([]int32, len(first)), make([][]int32, len(first))
	afters := make([][]int32, len(first))
	var ready tasksFirst
	left := 0
	for s := range first {
		if first[s] == 0 {
			continue
		}
		left++
		after := slices.Clone(w.Stages[s].After)
		slices.Sort(after)
		after = slices.DeleteFunc(slices.Compact(after), func(a int32) bool { return first[a] == 0 })
		for _, a := range after {
			followers[a] = append(followers[a], int32(s))
		}
		if afters[s], waits[s] = after, int32(len(after)); len(after) == 0 {
			ready = append(ready, first[s])
		}
	}
	heap.Init(&ready)
	renamed := make([]int32, len(first))
	var ordered []Stage
	for ; len(ready) > 0; left-- {
		s := w.Tasks[heap.Pop(&ready).(int32)-1].Stage - 1
		renamed[s] = int32(len(ordered))
		stage := Stage{}
		for _, a := range afters[s] {
			stage.After = append(stage.After, renamed[a])
		}
		slices.Sort(stage.After)
		ordered = append(ordered, stage)
		for _, f := range followers[s] {
			if waits[f]--; waits[f] == 0 {
				heap.Push(&ready, first[f])
			}
		}
	}
	if left > 0 {
		for s, n := range waits {
			if n > 0 {
				t := &w.Tasks[first[s]-1]
				return fmt.Errorf("trace: stages wait for each other in a circle: task %d of job %q can never begin", t.Index, w.Jobs[t.Job])
			}
		}
	}
	for i := range w.Tasks {
		if t := &w.Tasks[i]; t.Stage > 0 {
			t.Stage = renamed[t.Stage-1] + 1
		}
	}
	w.Stages = ordered
	return nil
}

// tasksFirst is a heap of tasks: the first one is on top.
type tasksFirst []int32

func (h tasksFirst) Len() int           { return len(h) }
func (h tasksFirst) Less(i, j int) bool { return h[i] < h[j] }
func (h tasksFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *tasksFirst) Push(x any)        { *h = append(*h, x.(int32)) }
func (h *tasksFirst) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
