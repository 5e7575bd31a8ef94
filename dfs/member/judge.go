package member

import (
	"context"
	"errors"
	"maps"
	"time"

	"headrace/dfs"
	"headrace/ring"
)

// keepJudging judges who is there, as long as this node leads.
func (m *Circle) keepJudging() {
	tick := time.NewTicker(m.Beat)
	defer tick.Stop()
	var w ring.Watch
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-tick.C:
		}
		if !m.node.Leads() {
			w = ring.Watch{} // what was heard before, another one has heard since
			continue
		}
		w = m.judge(w, m.now())
	}
}

// judge has happen to the ring what beats say.
func (m *Circle) judge(w ring.Watch, now time.Duration) ring.Watch {
	v := m.node.View()
	m.mu.Lock()
	m.beats[m.self.Name] = ring.Beat{At: now}
	for name := range m.beats {
		if _, ok := v.Members[name]; !ok {
			delete(m.beats, name)
		}
	}
	beats := maps.Clone(m.beats)
	m.mu.Unlock()
	beats[m.self.Name] = ring.Beat{At: now, Unreachable: m.unreachable()}
	w, verdict := m.Patience.Judge(v.Table, w, beats, now)
	for _, why := range verdict.Held {
		m.Log.Warn("nothing is done about nodes that are silent", "why", why)
	}
	for _, e := range verdict.Events {
		m.happen(e)
	}
	for _, name := range verdict.Returned {
		has, err := m.held(v, name)
		if err != nil {
			m.Log.Warn("a node that came back does not say what it has", "node", name, "err", err)
			continue // it is asked again
		}
		m.happen(ring.Back{Node: name, Has: has})
	}
	return w
}

// happen changes the ring. What does not succeed is judged anew.
func (m *Circle) happen(e ring.Event) {
	ctx, cancel := context.WithTimeout(m.ctx, m.Patience.Down)
	defer cancel()
	v, err := m.node.ChangeRing(ctx, e)
	switch {
	case errors.As(err, new(*dfs.NotLeader)), m.ctx.Err() != nil:
	case err != nil:
		m.Log.Error("the ring cannot be changed", "event", eventName(e), "err", err)
	default:
		m.Log.Warn("the ring has changed", "event", eventName(e), "epoch", v.Table.Epoch())
	}
}

func eventName(e ring.Event) string {
	switch e := e.(type) {
	case ring.Down:
		return e.Node + " is down"
	case ring.Out:
		return e.Node + " is out: others take over"
	case ring.Back:
		return e.Node + " is back"
	}
	return "another"
}

// held is of which segments a node has all.
func (m *Circle) held(v *dfs.View, name string) ([]uint16, error) {
	if m.Held != nil {
		ctx, cancel := context.WithTimeout(m.ctx, beatTime)
		defer cancel()
		return m.Held(ctx, v.Members[name])
	}
	var has []uint16
	for s := range v.Table.Segments() {
		for _, holder := range v.Table.Holders(uint16(s)) {
			if holder == name {
				has = append(has, uint16(s))
			}
		}
	}
	return has, nil
}
