package rig

import (
	"fmt"
	"sync"
)

// Answers are those of jobs, as the first run of each has had them. The zero value has
// none. It may be used by several goroutines.
type Answers struct {
	mu    sync.Mutex
	first map[string]string
}

// Check fails with ErrWrong when a job has given another answer than when it first ran.
func (a *Answers) Check(job, answer string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	first, ok := a.first[job]
	if !ok {
		if a.first == nil {
			a.first = map[string]string{}
		}
		a.first[job] = answer
		return nil
	}
	if answer != first {
		return fmt.Errorf("%w: %s answers %q, and before %q", ErrWrong, job, answer, first)
	}
	return nil
}
