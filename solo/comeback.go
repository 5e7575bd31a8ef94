package solo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headrace"
	"headrace/proc/attach"
	"headrace/serve"
	"headrace/solo/journal"
)

// errNotYet: what becomes of a container is not known yet.
var errNotYet = errors.New("not yet")

// comeBackTimeout is as long as such a process asks, and some more: it may begin later.
const comeBackTimeout = attach.ComeBackTimeout + 10*time.Second

// orphaned has a container that is checkpointed, and whose supervisor has gone, wait for its process, which asks for
// another one if it is still there.
func (l *life) orphaned(t *task) {
	t.awaited = l.clk.boot() + l.comeBack
	t.rec.Reason = "its supervisor was killed; it can go on when its process has asked for another one"
	l.touch(t)
}

// giveUpAwaited ends the containers whose processes have not come back in time: nothing of them can.
func (h *containers) giveUpAwaited() {
	now := h.clk.boot()
	for _, t := range append([]*task(nil), h.tasks.active...) {
		if t.awaited != 0 && t.op == nil && now >= t.awaited {
			t.awaited = 0
			h.final(t, headrace.Lost, nil, "its supervisor was gone, and its process has not come back", false)
		}
	}
}

// takeBackIn gives a container another supervisor, for its process that has come back. It is restored under that when
// its scheduler says so.
func (h *containers) takeBackIn(a arrival, c *call) {
	t, err := h.cameBack(a)
	if err != nil {
		a.files.Close()
		h.answer(c, nil, err)
		return
	}
	spec, files, until := h.specOf(t), a.files, t.awaited
	t.awaited = 0
	h.begin(t, headrace.Attaching, nil, c, func(ctx context.Context) func() error {
		live, err := h.rt.Hold(ctx, spec, files.Stdio())
		files.Close()
		return func() error {
			if err != nil {
				h.log.Warn("a container did not get another supervisor", "id", t.rec.ID, "err", err)
				t.awaited = until
				return fmt.Errorf("%w: %w", errNotYet, err)
			}
			h.attach(t, live)
			t.rec.Reason = "its supervisor was killed, and it has another one"
			t.rec.Note(journal.Event{AtMs: h.clk.wall().UnixMilli(), State: t.rec.State.String(), Reason: t.rec.Reason})
			h.touch(t)
			return nil
		}
	})
}

// cameBack returns the container whose process has come back, if it waits for that. It fails with errNotYet if it may
// come to that.
func (h *containers) cameBack(a arrival) (*task, error) {
	t := h.tasks.all[headrace.TaskID(a.ID)]
	switch {
	case t == nil || !t.hosted() || t.rec.UID != a.from.UID:
		return nil, fmt.Errorf("%w: there is no container %.140q of user %d", serve.ErrNotFound, a.ID, a.from.UID)
	case t.rec.State.Final():
		return nil, errEnded(t)
	case t.awaited == 0 || t.op != nil:
		return nil, fmt.Errorf("%w: what becomes of container %s is not known", errNotYet, t.rec.ID)
	}
	return t, nil
}
