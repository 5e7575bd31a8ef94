package sim

import "time"

// recheck is when a scheduler is asked though nothing has changed, because waiting
// alone may change what it says.
const recheck = 30 * time.Second

// mostStuck is how many decisions in vain are made while nothing is under way: what
// waiting alone can change must have changed by then.
const mostStuck = 10000

// asking says when a scheduler is asked.
type asking struct {
	interval time.Duration // the least from one time to the next
	last     time.Duration
	next     time.Duration // when the next one is due though nothing has happened
	changed  bool          // something has happened since
	// always: it is asked though nobody waits, because it acts at times of its own. Other
	// schedulers have nothing to say then: what they could page out waits as well.
	always bool
	// vain counts decisions in a row that ordered nothing while nothing was under way.
	vain int
}

// due returns when the next decision is due, if at all, while so many tasks wait.
func (a *asking) due(now time.Duration, waiting int) (time.Duration, bool) {
	switch {
	case a.changed && (waiting > 0 || a.always):
		return max(now, a.last+a.interval), true
	case waiting > 0 && a.vain < mostStuck:
		return max(now, a.last+a.interval, a.next), true
	}
	return 0, false
}

// asked notes that a decision was made, whether it was in vain, and when the next one is
// due though nothing happens.
func (a *asking) asked(now, next time.Duration, vain bool) {
	a.last, a.next, a.changed = now, next, false
	if a.vain++; !vain {
		a.vain = 0
	}
}
