package solo

import (
	"fmt"
	"sync"
	"testing"

	"headrace"
	"headrace/policy"
	"headrace/proc"
)

// TestEndThatIsNotTold: a task that has no processes any more, and whose end is not on record, is asked to
// leave a few times, and another one leaves in its place.
func TestEndThatIsNotTold(t *testing.T) {
	for op, pol := range map[string]policy.Name{"suspend": policy.Suspend, "checkpoint": policy.Checkpoint} {
		t.Run(op, func(t *testing.T) {
			b := newBed(t, pol)
			b.cfg.Slots = 2
			c := &conn{world: b.world}
			var mu sync.Mutex
			var ending headrace.TaskID
			asked := 0
			c.before = func(was string, id headrace.TaskID) error {
				mu.Lock()
				defer mu.Unlock()
				if was == op && ending == "" {
					ending = id
				}
				if was != op || id != ending {
					return nil
				}
				asked++
				return fmt.Errorf("%s task %s: %w", op, id, proc.ErrGone)
			}
			if err := b.startWith(c); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				b.awaitState(b.run(headrace.Low), headrace.Running)
			}
			urgent := b.run(headrace.High)
			b.awaitState(urgent, headrace.Running)
			mu.Lock()
			if asked < 1 || asked > 4 {
				t.Errorf("it was asked %d times to leave", asked)
			}
			mu.Unlock()
			if got := b.get(ending).State; got != "running" {
				t.Errorf("it is %s, and nothing of it runs", got)
			}
			b.finish(ending, 0)
			b.awaitState(ending, headrace.Done)
		})
	}
}
