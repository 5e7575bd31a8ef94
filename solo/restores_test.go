package solo

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"headrace"
	"headrace/policy"
	"headrace/proc"
	"headrace/wire"
)

// While there is an intact checkpoint no failure throws it away: a task that may be
// started from the beginning is not, and none is lost. What passes is tried again by
// itself, what CRIU refuses a few times.
func TestIntactCheckpointIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		restart func(*wire.RunRequest)
		held    bool
	}{
		"not now, restart":     {fmt.Errorf("restore: %w: too many open files", proc.ErrNotNow), func(*wire.RunRequest) {}, false},
		"not now, no restart":  {fmt.Errorf("restore: %w: too many open files", proc.ErrNotNow), never, false},
		"refused, restart":     {errors.New("CRIU could not restore the task"), func(*wire.RunRequest) {}, true},
		"refused, no restart":  {errors.New("CRIU could not restore the task"), never, true},
		"no rights any longer": {fmt.Errorf("restore: %w", proc.ErrUnsupported), func(*wire.RunRequest) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, policy.Wait)
			id := b.bringTo(headrace.Checkpointed, c.restart)
			b.world.with(id, func(th *thing) { th.noRestore = c.err })
			q := &wire.VerbRequest{Id: string(id)}
			b.tasks.Restore(b.ctx(), q) // whether it succeeds shows below
			got := b.await(id, "refused", func(w *wire.Task) bool {
				return strings.Contains(w.Reason, "could not be restored") && w.Doing == "" && w.Held == c.held
			})
			if got.State != "checkpointed" || !strings.Contains(got.Reason, c.err.Error()) {
				t.Errorf("it is %s: %s", got.State, got.Reason)
			}
			if !c.held {
				b.await(id, "tried again", func(w *wire.Task) bool {
					tries := 0
					b.world.with(id, func(th *thing) { tries = th.restores })
					return tries > 1
				})
			}
			b.world.with(id, func(th *thing) { th.noRestore = nil })
			if c.held {
				if _, err := b.tasks.Restore(b.ctx(), q); err != nil {
					t.Fatal(err)
				}
			}
			b.awaitState(id, headrace.Running)
			b.world.with(id, func(th *thing) {
				if th.starts != 1 {
					t.Errorf("started %d times", th.starts)
				}
			})
		})
	}
}
