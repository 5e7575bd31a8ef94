package manager

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"headrace"
	"headrace/wire"
	"headrace/wire/convert"
)

var (
	errUnknown = errors.New("it is not known here")
	errAway    = errors.New("nothing is heard of its node")
	errEarly   = errors.New("it is not known yet: the manager was started only just now")
)

// standing says why a victim cannot be told anything.
type standing int

const (
	// present: it can be told.
	present standing = iota
	// ended: its node has told so. YARN does not know yet when its NodeManager is away.
	ended
	// early: the manager was started only just now, and nodes are still coming back.
	early
	// unknown: it is still being brought to its machine, runs without Headrace, or its
	// node has not been heard of since the manager was started.
	unknown
	// away: nothing is heard of its node.
	away
	// pending: its process has not come yet.
	pending
)

// answer tells whether a victim that is not present is to wait, and why: as long as the
// doubt may end by itself. When nothing is left to hope for, its scheduler does what it is
// told to do without an answer.
//
// asked is for how long the scheduler has been asking about it, limit how long it may
// have to for that.
func (s standing) answer(asked, limit time.Duration) (wait bool, reason string) {
	switch s {
	case ended:
		return true, "it has ended already; its scheduler has not been told yet"
	case early:
		return true, errEarly.Error()
	}
	reason = map[standing]string{
		unknown: errUnknown.Error() + ": it is still being brought to its machine, runs without Headrace, or its node has not joined",
		away:    errAway.Error(),
		pending: "it has not been started",
	}[s]
	if asked < limit {
		return true, reason + fmt.Sprintf("; it is given %v", limit)
	}
	return false, reason + fmt.Sprintf(", and that for %v", asked.Round(time.Second))
}

// standing tells how a container stands now; k is what is known of it, or nil.
func (c *cluster) standing(id string, now time.Time) (s standing, k *container) {
	k = c.containers.all[id]
	switch {
	case k == nil && c.containers.ended.has(id):
		return ended, nil
	case k == nil && now.Sub(c.began) < c.cfg.timing.settle:
		return early, nil
	case k == nil:
		return unknown, nil
	case k.node.away:
		return away, k
	case k.state == headrace.Pending && k.order == nil && !k.busy():
		return pending, k
	}
	return present, k
}

// reach returns the container of that name, if its node can be told something.
func (c *cluster) reach(id string) (*container, error) {
	switch s, k := c.standing(id, time.Now()); s {
	case early:
		return nil, errEarly
	case ended, unknown:
		return nil, errUnknown
	case away:
		return nil, errAway
	default:
		return k, nil
	}
}

// doubt is about a container of which the scheduler has asked in vain.
type doubt struct {
	since, last time.Time
	told        string
}

// doubts are by the names of containers.
type doubts map[string]*doubt

// about returns the doubt about a container, of which the scheduler asks now.
func (all doubts) about(id string, now time.Time) *doubt {
	d := all[id]
	if d == nil {
		d = &doubt{since: now}
		all[id] = d
	}
	d.last = now
	return d
}

// forget forgets what nobody has asked about for long.
func (all doubts) forget(now time.Time, span time.Duration) {
	maps.DeleteFunc(all, func(_ string, d *doubt) bool { return now.Sub(d.last) > span })
}

// doubtful answers about a victim that is not present.
func (c *cluster) doubtful(id string, s standing, k *container, observe bool, now time.Time) *wire.PreemptDecision {
	d := c.doubts.about(id, now)
	answer := &wire.PreemptDecision{Container: id}
	var wait bool
	if wait, answer.Reason = s.answer(now.Sub(d.since), c.cfg.timing.doubt); wait {
		convert.SetMechanism(answer, headrace.Wait)
	}
	node := ""
	if k != nil {
		node = k.node.name
	}
	c.log(id, node, &d.told, answer, observe)
	return answer
}

// lately is a set of names, each of which is in it for a while: once to twice its span.
type lately struct {
	now, before map[string]struct{}
	rotated     time.Time
}

// add puts a name in; beyond most others are forgotten early.
func (l *lately) add(name string, most int) {
	if len(l.now) >= most {
		l.now, l.before = nil, l.now
	}
	if l.now == nil {
		l.now = map[string]struct{}{}
	}
	l.now[name] = struct{}{}
}

func (l *lately) has(name string) bool {
	_, now := l.now[name]
	_, before := l.before[name]
	return now || before
}

// remove takes a name out.
func (l *lately) remove(name string) {
	delete(l.now, name)
	delete(l.before, name)
}

// rotate forgets what is older than the span.
func (l *lately) rotate(now time.Time, span time.Duration) {
	if now.Sub(l.rotated) > span {
		l.now, l.before, l.rotated = nil, l.now, now
	}
}
