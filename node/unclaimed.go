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
// heard of since heard: those that are suspended or checkpointed, and not by a person. Those that only need to be
// told come first.
func unclaimed(tasks []*wire.Task, heard, now time.Time, limit time.Duration) (all []*wire.Task) {
	if limit <= 0 || now.Sub(heard) < limit {
		return nil
	}
	for _, state := range []headrace.TaskState{headrace.Suspended, headrace.Checkpointed} {
		for _, t := range tasks {
			if convert.In(t, state) && convert.Doing(t) == "" && !t.Held {
				all = append(all, t)
			}
		}
	}
	return all
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

// restoresAtOnce is how many containers are restored at a time without a manager: it may come back meanwhile, and
// others have the resources of those whose turn has not come. One that takes longer than Config.Unclaimed does not count: its store may never answer.
const restoresAtOnce = 2

// claims has containers go on that nobody claims. Each is looked at anew when it is its turn. But for ended only
// run uses it.
type claims struct {
	*Agent
	begun map[string]begun // those that were told to go on and have not yet
	ended chan claimed
}

// begun is since when a container goes on, and whether it is restored.
type begun struct {
	at       time.Time
	restored bool
}

// claimed is what has become of a container that was told to go on.
type claimed struct {
	id  string
	err error
}

func newClaims(a *Agent) *claims { return &claims{a, map[string]begun{}, make(chan claimed)} }

// run looks after them until ctx ends, and then for those that it has told. What does not go on is tried again.
func (c *claims) run(ctx context.Context) {
	if c.cfg.Unclaimed <= 0 {
		return
	}
	tick := time.NewTicker(max(c.cfg.Unclaimed/10, c.cfg.timing.every))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case e := <-c.ended:
			delete(c.begun, e.id)
			if e.err != nil {
				c.cfg.Log.Warn("a container does not go on by itself; it is tried again", "container", e.id, "err", e.err)
				continue
			}
		case <-ctx.Done():
			for range c.begun {
				<-c.ended
			}
			return
		}
		c.look(ctx, time.Now())
	}
}

// look tells those to go on whose turn it is.
func (c *claims) look(ctx context.Context, now time.Time) {
	_, tasks := c.host.Facts()
	for _, t := range unclaimed(tasks, c.lastHeard(), now, c.cfg.Unclaimed) {
		restored := convert.In(t, headrace.Checkpointed)
		if _, told := c.begun[t.Id]; told || restored && c.restoring(now) >= restoresAtOnce {
			continue
		}
		c.begun[t.Id] = begun{now, restored}
		c.cfg.Log.Warn("a container goes on by itself: no manager was heard of", "container", t.Id, "for", c.cfg.Unclaimed)
		order := &wire.NodeOrder{Container: t.Id, Reason: "no manager was heard of for " + c.cfg.Unclaimed.String()}
		convert.SetCommand(order, headrace.CommandResume)
		go func() { c.ended <- claimed{t.Id, c.host.Do(ctx, order)} }()
	}
}

// restoring returns how many are restored that may end soon.
func (c *claims) restoring(now time.Time) (n int) {
	for _, b := range c.begun {
		if b.restored && now.Sub(b.at) < c.cfg.Unclaimed {
			n++
		}
	}
	return n
}

// lastHeard returns when a manager has answered last, at first when the agent was
// started.
func (a *Agent) lastHeard() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard
}
