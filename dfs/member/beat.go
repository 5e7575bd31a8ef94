package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"headrace/dfs"
	"headrace/dfs/names"
	"headrace/ring"
	"headrace/wire"
)

// roomBeats is how many beats tell of the same room: a disk may take long to say what is free, and beats do not wait for it.
const roomBeats = 5

// keepBeating tells the node that leads that this one is there.
func (m *Circle) keepBeating() {
	tick := time.NewTicker(m.Beat)
	defer tick.Stop()
	room := m.node.Room()
	looked, looking := make(chan dfs.Room, 1), false
	var led *dfs.View
	var noted time.Duration // when whoever leads by led took a beat, or was first known
	for n := 1; ; n++ {
		select {
		case room = <-looked:
			looking = false
		default:
		}
		service{m}.noteRoom(m.self.Name, room)
		if n%roomBeats == 0 && !looking {
			looking = true
			m.running.Go(func() { looked <- m.node.Room() })
		}
		var both sync.WaitGroup
		both.Go(m.askNeighbours)
		if m.node.Leads() {
			service{m}.stand()
			led = nil
		} else if heard, v := m.beat(room, n), m.node.View(); heard || led == nil || v.Leader != led.Leader || v.Term != led.Term {
			led, noted = v, m.now()
		} else if m.now()-noted >= m.Patience.Down {
			m.node.Silent(v)
		}
		both.Wait()
		select {
		case <-m.ctx.Done():
			return
		case <-tick.C:
		case <-m.nudge:
			time.Sleep(min(m.Beat, leastPause)) // however many wait for somebody to lead
		}
	}
}

// stand has the ring know where this node is, which leads it.
func (s service) stand() {
	v := s.node.View()
	if v.Members[s.self.Name].Name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.Patience.Down)
	defer cancel()
	if _, err := s.place(ctx, v, s.self); err != nil && !undone(err) && s.ctx.Err() == nil {
		s.Log.Warn("the ring cannot be told where this node is", "err", err)
	}
}

// place has the ring know where a member says that it is, of which it knows already, and returns a view that does. Only the node that leads may.
func (s service) place(ctx context.Context, v *dfs.View, is dfs.Member) (*dfs.View, error) {
	known := v.Members[is.Name]
	is = s.standing(v, is)
	if is.Number = known.Number; v.As(is) != known {
		var err error
		if v, _, err = s.node.Admit(ctx, is); err != nil {
			return nil, err
		}
	}
	if n, there := v.Table.Node(is.Name); there && n.Rack != is.Rack {
		next, err := s.node.ChangeRing(ctx, ring.Rack{Node: is.Name, Rack: is.Rack})
		s.changed(fmt.Sprintf("%s stands in rack %q, and was in %q: copies are moved by that", is.Name, is.Rack, n.Rack), next, err)
		return next, err
	}
	return v, nil
}

// standing returns a member as the ring is to know it. It is in the rack where it was if it says of none, as a flag that was forgotten once is not to move all that
// there is; and also as long as a node may be there that does not know how to move it.
func (s service) standing(v *dfs.View, is dfs.Member) dfs.Member {
	n, there := v.Table.Node(is.Name)
	if there && is.Rack != "" && is.Rack != n.Rack && !v.Allows(ring.Rack{}) {
		s.tell(slog.LevelWarn, "rack "+is.Name, "a node stands in another rack than before, which counts once all nodes are updated, and the version in force is raised (headrace dfs raise)",
			"node", is.Name, "rack", is.Rack, "before", n.Rack)
		is.Rack = ""
	}
	if there && is.Rack == "" {
		is.Rack = n.Rack
	}
	return is
}

// wake has the next beat come at once, because nobody leads, or somebody else.
func (m *Circle) wake() {
	select {
	case m.nudge <- struct{}{}:
	default:
	}
}

// leastPause is the time between beats when nobody leads.
const leastPause = 50 * time.Millisecond

// mostTold is how many nodes are told of one beat: each may know who leads.
const mostTold = 3

// beat tells the leader, or some of those who may know it, others each time, and reports whether the leader has noted it.
func (m *Circle) beat(room dfs.Room, n int) bool {
	told := map[target]bool{}
	for i := 0; i < mostTold && m.ctx.Err() == nil; i++ {
		v := m.node.View()
		var to target
		if l, ok := v.Members[v.Leader]; ok && v.Leader != m.self.Name {
			to = targetOf(l)
		}
		if to == (target{}) || told[to] {
			to = m.another(v, told, n)
		}
		if to == (target{}) {
			return false
		}
		told[to] = true
		if noted, err := m.beatTo(to, v, room); noted {
			return true
		} else if err != nil {
			m.complain(to.address, err)
		}
	}
	return false
}

// complain tells why a node has not taken a beat: loudly, and once, when it will not have this one.
func (m *Circle) complain(to string, err error) {
	level := slog.LevelDebug
	switch connect.CodeOf(err) {
	case connect.CodeNotFound, connect.CodeFailedPrecondition, connect.CodeInvalidArgument:
		level = slog.LevelError
	}
	m.tell(level, "beats "+to, "a node cannot be told that this one is there", "to", to, "err", told(err))
}

// another returns a target that was not tried yet, of a node or of those that were named at the start.
func (m *Circle) another(v *dfs.View, told map[target]bool, n int) target {
	var all []target
	for _, o := range v.Table.Nodes() {
		if o.Name != m.self.Name {
			all = append(all, targetOf(v.Members[o.Name]))
		}
	}
	m.mu.Lock()
	for _, o := range m.moved {
		all = append(all, targetOf(o))
	}
	m.mu.Unlock()
	for _, address := range m.Seeds {
		all = append(all, target{address: address})
	}
	own := m.self.PeerAddress()
	all = slices.DeleteFunc(all, func(a target) bool { return told[a] || a.address == own })
	if len(all) == 0 {
		return target{}
	}
	return all[(n*mostTold+len(told))%len(all)]
}

func (m *Circle) beatTo(to target, v *dfs.View, room dfs.Room) (noted bool, err error) {
	ctx, cancel := context.WithTimeout(m.ctx, beatTime)
	defer cancel()
	a, err := m.client(to).Beat(ctx, &wire.RingBeatRequest{Member: toWire(m.self), Pool: m.system.Pool, Epoch: v.Table.Epoch(), Index: v.Index, Term: v.Term,
		Leader: v.Leader, Unreachable: m.unreachable(), HostName: m.HostName,
		Room: room.Wire()})
	var next *dfs.View
	if err == nil && len(a.View) > 0 {
		next, err = names.DecodeView(a.View)
	}
	if err != nil {
		if old := asOld(err); old != nil {
			m.node.Outdated(old)
		}
		return false, err
	}
	switch {
	case next == nil:
	case a.Noted:
		m.node.Hear(next)
	default:
		m.node.Learn(next)
	}
	return a.Noted, nil
}

// oldHeader is of refusals of nodes that are too old.
const oldHeader = "Headrace-Old"

// refuseOld refuses a node that does not understand the version in force.
func refuseOld(v *dfs.View, m dfs.Member) error {
	if err := v.Old(m.Version); err != nil {
		return tooOld(err)
	}
	return nil
}

func tooOld(err error) error {
	e := connect.NewError(connect.CodeFailedPrecondition, err)
	e.Meta().Set(oldHeader, "true")
	return e
}

// asOld returns ErrOld if an error says that this node is too old, else nil.
func asOld(err error) error {
	if e, ok := errors.AsType[*connect.Error](err); ok && e.Meta().Get(oldHeader) != "" {
		return fmt.Errorf("%w%s", dfs.ErrOld, strings.TrimPrefix(e.Message(), dfs.ErrOld.Error()))
	}
	if errors.Is(err, dfs.ErrOld) {
		return err
	}
	return nil
}

// Understands returns the version that a node understands, and false if it has not said so lately to this one while it leads: it may have been stopped since, and be another
// program when it is back.
func (m *Circle) Understands(name string) (uint32, bool) {
	if name == m.self.Name {
		return m.Version, true
	}
	term := m.node.View().Term
	m.mu.Lock()
	defer m.mu.Unlock()
	u, ok := m.says[name]
	return u.version, ok && u.term == term && m.now()-m.beats[name].At < m.Patience.Suspect
}

// askNeighbours asks those on both sides whether they answer.
func (m *Circle) askNeighbours() {
	v := m.node.View()
	before, after := v.Table.Neighbours(m.self.Name)
	var both sync.WaitGroup
	answered := map[string]bool{}
	var mu sync.Mutex
	for name := range map[string]bool{before: true, after: true} {
		to, ok := v.Members[name]
		if !ok || name == m.self.Name {
			continue
		}
		both.Go(func() {
			ctx, cancel := context.WithTimeout(m.ctx, beatTime)
			defer cancel()
			_, err := m.client(targetOf(to)).Ping(ctx, &wire.RingPingRequest{})
			mu.Lock()
			answered[name] = err == nil
			mu.Unlock()
		})
	}
	both.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.deaf
	m.deaf = map[string]int{}
	for name, ok := range answered {
		if !ok {
			m.deaf[name] = was[name] + 1
		}
	}
}

// unreachable are neighbours that have not answered twice.
func (m *Circle) unreachable() (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, times := range m.deaf {
		if times > 1 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Host returns what a node's machine is called, as far as it is known here; see dfs.Config.HostName.
func (m *Circle) Host(name string) string {
	if name == m.self.Name {
		return m.HostName
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hosts[name]
}

// Heard returns for how long another node was not heard by this one, and false when it never was.
func (m *Circle) Heard(name string) (silent time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.beats[name]
	return m.now() - b.At, ok
}

// Room returns what a node has said of its disks; see dfs.Peers.
func (m *Circle) Room(name string) (dfs.Room, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.rooms[name]
	return r, ok
}

// now is the judge's clock: no change of the machine's time touches it.
func (m *Circle) now() time.Duration { return time.Since(m.began) }
