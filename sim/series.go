package sim

import (
	"slices"
	"time"
)

const (
	firstStep = time.Minute
	// mostSteps is how many steps a series has at most; it is even.
	mostSteps = 576
)

// series is the CPUs that are held and the tasks that wait, summed up over steps of
// time. Steps become longer as the run does.
type series struct {
	step    time.Duration
	load    []float64 // core-seconds
	waiters []float64 // task-seconds
}

// add enters the time from one moment to a later one.
func (s *series) add(from, to time.Duration, held float64, waiting int) {
	for from < to {
		i := int(from / s.step)
		if i >= mostSteps {
			s.double()
			continue
		}
		for len(s.load) <= i {
			s.load, s.waiters = append(s.load, 0), append(s.waiters, 0)
		}
		end := min(to, time.Duration(i+1)*s.step)
		took := (end - from).Seconds()
		s.load[i] += float64(took * held)
		s.waiters[i] += float64(took * float64(waiting))
		from = end
	}
}

// double makes each two steps one.
func (s *series) double() {
	s.step *= 2
	for _, v := range []*[]float64{&s.load, &s.waiters} {
		for i := range *v {
			if i%2 == 0 {
				(*v)[i/2] = (*v)[i]
			} else {
				(*v)[i/2] += (*v)[i]
			}
		}
		*v = (*v)[:(len(*v)+1)/2]
	}
}

// result returns the length of a step in seconds, and the means: of the share of so
// many CPUs, and of the tasks that wait.
func (s *series) result(cpus float64) (step float64, load, waiting []float64) {
	step = s.step.Seconds()
	for i := range s.load {
		load = append(load, s.load[i]/step/cpus)
		waiting = append(waiting, s.waiters[i]/step)
	}
	return step, load, waiting
}

// curve is how many values a spread's curve has.
const curve = 201

// spread sorts v and sums it up.
func spread(v []float32) Spread {
	s := Spread{N: len(v)}
	if s.N == 0 {
		return s
	}
	slices.Sort(v)
	var sum float64
	for _, x := range v {
		sum += float64(x)
	}
	s.Mean = sum / float64(s.N)
	s.At = make([]float64, curve)
	for i := range s.At {
		rank := (s.N*i + curve - 2) / (curve - 1) // so many do not exceed it
		s.At[i] = float64(v[max(rank, 1)-1])
	}
	return s
}
