package sim

import (
	"fmt"
	"strings"
	"time"
)

// kills counts how often a task was killed, since a time, while no task has ended.
type kills struct {
	n, ended int
	since    time.Duration
}

// mostKills is how often a task is killed while none ends, and mostRuns how many of the longest running times that
// must have lasted, until a run is given up. Who is left alone for the longest running time ends.
const mostKills, mostRuns = 1000, 10

// endless counts a kill of t, and fails when it would be killed without end.
func (t *task) endless(e *engine) error {
	k := &t.kills
	if k.n == 0 || k.ended != e.tally.ended {
		*k = kills{ended: e.tally.ended, since: e.now}
	}
	if k.n++; k.n%mostKills != 0 {
		return nil
	}
	longest := time.Duration(0)
	for i := range e.w.Tasks {
		longest = max(longest, e.w.Tasks[i].Run)
	}
	if (e.now-k.since)/mostRuns <= longest {
		return nil
	}
	var who []string
	for _, o := range e.roster.order {
		if o != nil && o.kills.ended == k.ended && o.kills.n >= mostKills/2 && len(who) < 4 {
			who = append(who, fmt.Sprintf("%s %d times", o.v.ID, o.kills.n))
		}
	}
	return fmt.Errorf("sim: at %v no task has ended since %v, and tasks were killed again and again before their end, %s: so it would go on for ever; give more nodes, other queues, or another policy than %s",
		e.now, k.since, strings.Join(who, ", "), e.c.Policy.Policy)
}
