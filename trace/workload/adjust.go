package workload

import (
	"slices"
	"time"
)

// Load returns how many CPUs the tasks would keep busy over the time in which they are
// submitted; 0 where that is no time.
func (w *Workload) Load() float64 {
	if len(w.Tasks) == 0 {
		return 0
	}
	span := (w.Tasks[len(w.Tasks)-1].Submit - w.Tasks[0].Submit).Seconds()
	if span <= 0 {
		return 0
	}
	var work float64
	for i := range w.Tasks {
		work += w.Tasks[i].Run.Seconds() * float64(w.Tasks[i].CPUs)
	}
	return work / span
}

// Stretch makes all times between submissions so many times as long.
func (w *Workload) Stretch(times float64) {
	if len(w.Tasks) == 0 {
		return
	}
	first := w.Tasks[0].Submit
	for i := range w.Tasks {
		t := &w.Tasks[i]
		t.Submit = first + time.Duration(float64(t.Submit-first)*times)
	}
}

// Drop takes out the tasks that it is told to, and what only they refer to.
func (w *Workload) Drop(drop func(*Task) bool) error {
	w.Tasks = slices.DeleteFunc(w.Tasks, func(t Task) bool { return drop(&t) })
	return w.Arrange()
}
