package disk

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// Patience is how long a reader that has a turn may get on with nothing (Turn.Progress) before others
	// are let by. It is long beside a disk that wakes up or repeats a request.
	Patience = 30 * time.Second
	// overdue is how long a dump or restore keeps its turn at least, and overdueTimes how many times what is expected of it
	// comes on top of that: nobody here sees how far it is. Its supervisor ends what does nothing for a minute; but what waits for a
	// device, which a file system of the task's own may be, has ten, and somebody may have stopped the supervisor. That
	// others go on beside one that is only slow costs little.
	overdue, overdueTimes = 90 * time.Second, 4
)

// Hang is a device on which somebody who has a turn gets on with nothing.
type Hang struct {
	Device
	// Since is when something came last.
	Since time.Time
	// Silent: nobody there is answered, as far as is known. Of those who wait one at a time is let in, to try: at once,
	// and then each time when the silence has doubled.
	Silent bool
	// Hanging are the names of those that get on with nothing, Waiting of those that wait because the device is silent; both
	// in the order of their opening.
	Hanging, Waiting []string
}

// Hangs lists the devices that do not answer somebody, those that have been silent for longest first.
func (s *Scheduler) Hangs() []Hang {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Hang
	for _, at := range s.devices {
		if h := at.hang(); len(h.Hanging) > 0 || h.Silent {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b Hang) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return all
}

func (at *station) hang() Hang {
	h := Hang{Device: at.Device, Since: at.silent, Silent: !at.silent.IsZero()}
	for _, r := range at.readers {
		switch {
		case r.turn != nil && r.hangs() > 0:
			if h.Hanging = append(h.Hanging, r.use.Name); h.Since.IsZero() || r.turn.moved.Before(h.Since) {
				h.Since = r.turn.moved
			}
		case r.wait != nil && h.Silent && r.use.Class.side() == reads:
			h.Waiting = append(h.Waiting, r.use.Name)
		}
	}
	return h
}

// Progress says that some of what the turn is for has come. The holder calls it more often than
// every Patience as long as that is so, or others are let by: then its reads go on beside theirs.
func (t *Turn) Progress() {
	at, s := t.reader.at, t.reader.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	t.moved = time.Now()
	if s.heard(at) {
		s.dispatch(at)
	}
}

// limit returns for how long nothing may come of a turn before others are let by; 0: nobody waits for it.
func (r *Reader) limit() time.Duration {
	switch {
	case r.use.Class.side() == moves: // nobody sees how far it is
		return overdue + overdueTimes*r.expect
	case r.at.Memory:
		return 0
	}
	return cmp.Or(r.scheduler.patience, Patience)
}

// hangs returns for how long nothing has come of the turn that the reader has, once that is too long.
func (r *Reader) hangs() time.Duration {
	if d, limit := time.Since(r.turn.moved), r.limit(); limit > 0 && d >= limit {
		return d
	}
	return 0
}

// watch lets others by if nothing has come of a turn for too long, and else looks again.
func (s *Scheduler) watch(t *Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := t.reader
	if r.turn != t || t.passed {
		return
	}
	if r.hangs() == 0 {
		t.late.Reset(r.limit() - time.Since(t.moved))
		return
	}
	t.passed = true
	if r.use.Class.side() == reads {
		r.at.queue.pass(&r.entry)
		s.silence(t)
	} else {
		s.passMove(t)
	}
	s.dispatch(r.at)
}

// passMove lets others by a dump or restore. Its user is charged for it now, or would be next again.
func (s *Scheduler) passMove(t *Turn) {
	r := t.reader
	t.charged = time.Since(t.since)
	r.at.queue.moved(&r.entry, t.charged)
	if s.Log != nil {
		s.Log.Error("a dump or restore takes far too long; others go on beside it", "what", r.use.Name, "disk", r.at.Name, "mount", r.at.Mount,
			"since", t.since, "expected", r.expect)
	}
}

// silence notes that a device has not answered a reader. The first time another one tries at once: it may be a matter of
// one file. When that one hangs as well they are no longer let in one after the other, as each takes a thread with it: the
// next one tries when the silence has doubled. So a disk that is dead for a day has a dozen, and one whose
// requests were lost is used again.
func (s *Scheduler) silence(t *Turn) {
	at, now := t.reader.at, time.Now()
	msg := "a disk or file server does not answer; another reader tries whether it is only this file"
	if at.silent.IsZero() {
		at.silent, at.probe = t.moved, now
	} else {
		msg = "a disk or file server does not answer another reader either; who wants to read there waits until it does, or the next one tries"
		again := now.Sub(at.silent)
		at.probe = now.Add(again)
		time.AfterFunc(again, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.dispatch(at)
		})
	}
	if s.Log != nil {
		s.Log.Error(msg, "disk", at.Name, "mount", at.Mount, "reader", t.reader.use.Name, "since", at.silent, "next", at.probe)
	}
}

// heard notes that a device has answered a reader, and reports whether it had been silent.
func (s *Scheduler) heard(at *station) bool {
	if at.silent.IsZero() {
		return false
	}
	if s.Log != nil {
		s.Log.Info("a disk or file server answers again", "disk", at.Name, "mount", at.Mount, "after", time.Since(at.silent))
	}
	at.silent = time.Time{}
	return true
}

// shut reports whether no turn of reading begins now because nobody is answered.
func (at *station) shut() bool { return !at.silent.IsZero() && time.Until(at.probe) > 0 }

// explain says where and why a turn was waited for in vain.
func (r *Reader) explain(err error) error {
	if at := r.at; !at.silent.IsZero() {
		return fmt.Errorf("wait for a turn at %s, which has not answered since %s: %w", at.Name, at.silent.Format(time.TimeOnly), err)
	}
	return fmt.Errorf("wait for a turn at %s: %w", r.at.Name, err)
}
