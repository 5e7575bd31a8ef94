package node

import (
	"context"
	"time"

	"headrace"
	"headrace/wire"
	"headrace/wire/convert"
)

// Unclaimed is how long containers stay put aside without a manager, unless the
// configuration says something else.
const Unclaimed = 10 * time.Minute

// unclaimed returns the tasks that go on by themselves because no manager has been
// heard of since heard: those that are suspended or checkpointed, and not by a person.
func unclaimed(tasks []*wire.Task, heard, now time.Time, limit time.Duration) []string {
	if limit <= 0 || now.Sub(heard) < limit {
		return nil
	}
	var ids []string
	for _, t := range tasks {
		if convert.In(t, headrace.Suspended, headrace.Checkpointed) && convert.Doing(t) == "" && !t.Held {
			ids = append(ids, t.Id)
		}
	}
	return ids
}

// asideFor returns how long containers of other machines may still be put aside after the
// last word of the manager, if their nodes are told what this one is; 0: for ever.
func (a *Agent) asideFor() time.Duration {
	limit := a.cfg.Unclaimed
	if limit <= 0 {
		return 0
	}
	return limit + limit/10 + a.cfg.timing.stale // claim looks that seldom; and going on takes its time
}

// claim looks after containers that nobody claims, until ctx ends. What does not go on
// is tried again.
func (a *Agent) claim(ctx context.Context) {
	limit := a.cfg.Unclaimed
	if limit <= 0 {
		return
	}
	tick := time.NewTicker(max(limit/10, a.cfg.timing.every))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		_, tasks := a.host.Facts()
		for _, id := range unclaimed(tasks, a.lastHeard(), time.Now(), limit) {
			a.cfg.Log.Warn("a container goes on by itself: no manager was heard of", "container", id, "for", limit)
			order := &wire.NodeOrder{Container: id, Reason: "no manager was heard of for " + limit.String()}
			convert.SetCommand(order, headrace.CommandResume)
			if err := a.host.Do(ctx, order); err != nil && ctx.Err() == nil {
				a.cfg.Log.Warn("a container does not go on by itself; it is tried again", "container", id, "err", err)
			}
		}
	}
}

// lastHeard returns when a manager has answered last, at first when the agent was
// started.
func (a *Agent) lastHeard() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard
}
