package solo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

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

// TestShortageAtRestore: a checkpointed task waits, however long, until the machine has enough of what its supervisor needs.
func TestShortageAtRestore(t *testing.T) {
	for _, short := range []error{unix.EAGAIN, unix.ENOSPC, unix.EMFILE, context.DeadlineExceeded} {
		t.Run(short.Error(), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, policy.Suspend)
			id := b.bringTo(headrace.Checkpointed, never)
			b.shutdown()
			b.clock = hasty{began: systemClock{}.boot()} // to which a store is soon late; now it is waited for
			var tries atomic.Int64
			c := &conn{world: b.world, before: func(op string, _ headrace.TaskID) error {
				if op == "restore" && tries.Add(1) <= 2*maxRestoreFailures {
					return fmt.Errorf("restore task %s: start the supervisor: %w", id, short)
				}
				return nil
			}}
			if err := b.startWith(c); err != nil {
				t.Fatal(err)
			}
			b.tasks.Restore(b.ctx(), &wire.VerbRequest{Id: string(id)}) // whether it succeeds shows below
			got := b.await(id, "running, or given up", func(w *wire.Task) bool {
				return w.Doing == "" && (w.State == "running" || w.Held && tries.Load() > 0)
			})
			if n := tries.Load(); got.State != "running" || n != 2*maxRestoreFailures+1 {
				t.Errorf("after %d tries it is %s: %s", n, got.State, got.Reason)
			}
		})
	}
}

// TestRestoredTwice: a restore is repeated that an earlier daemon's request has done
// already. The task is not taken for one that cannot be restored, also when it ends
// before it has been asked how it is.
func TestRestoredTwice(t *testing.T) {
	for name, ends := range map[string]string{"runs": "", "ends as it is found": "attach", "ends as it is restored": "restore"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, policy.Wait)
			id := b.bringTo(headrace.Checkpointed, func(*wire.RunRequest) {})
			b.shutdown()
			var early bool
			end := func(op string) {
				if early && op == ends {
					b.world.with(id, func(th *thing) {
						if th.shim != nil {
							th.completed++
							b.world.end(th, proc.Exit{Restored: true})
						}
					})
				}
			}
			c := &conn{world: b.world}
			c.before = func(op string, _ headrace.TaskID) error {
				if op != "restore" || early {
					return nil
				}
				b.world.with(id, func(th *thing) {
					if th.shim == nil {
						c.begin(th, id)
					}
					th.shim.state, early = headrace.Running, true
				})
				if end(op); ends == op {
					return fmt.Errorf("restore: %w", proc.ErrGone)
				}
				return nil
			}
			c.after = func(op string, _ headrace.TaskID) error {
				end(op)
				return nil
			}
			if err := b.startWith(c); err != nil {
				t.Fatal(err)
			}
			b.tasks.Restore(b.ctx(), &wire.VerbRequest{Id: string(id)}) // whether it succeeds shows below
			if ends == "" {
				b.awaitState(id, headrace.Running)
				b.world.finish(id, 0)
			}
			b.awaitState(id, headrace.Done)
			b.world.with(id, func(th *thing) {
				if th.completed != 1 || th.starts != 1 {
					t.Errorf("started %d times, completed %d times", th.starts, th.completed)
				}
			})
		})
	}
}
