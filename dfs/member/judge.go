package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
			w = m.Patience.Follow(m.node.View().Table, w, m.now()) // what was heard before, another one has heard since
			m.doubts.forget()
			continue
		}
		w = m.judge(w, m.now())
	}
}

// judge has happen to the ring what beats say.
func (m *Circle) judge(w ring.Watch, now time.Duration) ring.Watch {
	v := m.node.View()
	m.mu.Lock()
	for name := range m.beats {
		if _, ok := v.Members[name]; !ok {
			delete(m.beats, name)
			delete(m.rooms, name)
			delete(m.stored, name)
			delete(m.says, name)
		}
	}
	beats, rooms, stored := maps.Clone(m.beats), maps.Clone(m.rooms), maps.Clone(m.stored)
	m.mu.Unlock()
	beats[m.self.Name] = ring.Beat{At: now, Unreachable: m.unreachable()}
	if now-w.Looked > m.Patience.Stall { // nobody was asked meanwhile
		m.doubts.forget()
	}
	for _, to := range m.doubts.count(v, beats, now) {
		m.tell(slog.LevelError, "reach "+to.Name, "a node is heard and cannot be reached, so it counts as silent: open its port for the other nodes, or name the address by which they reach it (--advertise)",
			"node", to.Name, "at", to.PeerAddress())
	}
	for _, name := range bare(v, rooms) {
		b := beats[name]
		b.At = min(b.At, stored[name])
		beats[name] = b
		m.tell(slog.LevelError, "disks "+name, "a node has no disk in use, so it counts as silent: mount it again, or replace it", "node", name)
	}
	w, verdict := m.Patience.Judge(v.Table, w, beats, now)
	for _, why := range verdict.Held {
		m.Log.Warn("nothing is done about nodes that are silent", "why", why)
	}
	m.happenAll(verdict.Events)
	for _, name := range verdict.Returned {
		m.takeBack(name)
	}
	return w
}

// bare returns nodes that are heard and have no disk in use, if others can have all copies of what was there. They count as silent since they had one: as long as such a node is up
// copies are to be there, and nobody else makes them.
func bare(v *dfs.View, rooms map[string]dfs.Room) (names []string) {
	members := 0
	for _, n := range v.Table.Nodes() {
		if n.State != ring.IsOut && !n.Leaving {
			members++
		}
	}
	for _, n := range v.Table.Nodes() {
		others := members
		if n.State != ring.IsOut && !n.Leaving {
			others--
		}
		if room, said := rooms[n.Name]; said && room.Capacity == 0 && others >= v.Table.Replicas() {
			names = append(names, n.Name)
		}
	}
	return names
}

// returnTime is how long a node that is back may take to say what it still has: that is asked of its disks.
const returnTime = 3 * time.Minute

// takeBack has a node be back that is heard again. It does not wait for it: meanwhile others are judged.
func (m *Circle) takeBack(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.returning[name] {
		return
	}
	m.returning[name] = true
	m.running.Go(func() {
		ctx, cancel := context.WithTimeout(m.ctx, returnTime)
		defer cancel()
		v, err := m.back(ctx, name)
		m.changed(name+" is back", v, err)
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.returning, name)
	})
}

// happenAll has events happen one after the other, unless others are under way: then they are judged anew. It does not wait: who does not look for a
// while has to listen to all anew.
func (m *Circle) happenAll(events []ring.Event) {
	if len(events) == 0 || !m.happening.CompareAndSwap(false, true) {
		return
	}
	m.running.Go(func() {
		defer m.happening.Store(false)
		for _, e := range events {
			m.happen(e)
		}
	})
}

// happen changes the ring. What does not succeed is judged anew.
func (m *Circle) happen(e ring.Event) {
	ctx, cancel := context.WithTimeout(m.ctx, m.Patience.Down)
	defer cancel()
	what := fmt.Sprintf("%T", e)
	switch e := e.(type) {
	case ring.Down:
		what = e.Node + " is down"
	case ring.Out:
		what = e.Node + " is out: others take over"
	}
	v, err := m.node.ChangeRing(ctx, e)
	m.changed(what, v, err)
}

// changed tells of a change of the ring.
func (m *Circle) changed(what string, v *dfs.View, err error) {
	switch {
	case errors.As(err, new(*dfs.NotLeader)), m.ctx.Err() != nil:
	case err != nil:
		m.Log.Error("the ring cannot be changed", "because", what, "err", err)
	default:
		m.Log.Warn("the ring has changed", "because", what, "epoch", v.Table.Epoch())
	}
}
