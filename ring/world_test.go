package ring

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// world is nodes with disks, which know some table, not always the newest, and whose
// messages come late. It tries what the rules are for: that a holder has what was settled.
type world struct {
	*testing.T
	r     *rand.Rand
	table *Table
	past  []*Table

	checked *Table
	nodes   map[string]*machine
	late    []Confirm
	files   []*stored // blocks, all of them
	gone    map[int]bool
	count   struct{ events, refused, settled, lost, abandoned, compared int }
}

type machine struct {
	name  string
	disk  map[uint16]map[int]bool // blocks by segment
	knows *Table
}

type stored struct {
	id      int
	segment uint16
	at      []string // until it is settled
}

func (w *world) pick(n int) bool { return w.r.IntN(n) == 0 }

func (w *world) apply(e Event) bool {
	w.count.events++
	next, moves, err := w.table.Apply(e)
	if err != nil {
		w.count.refused++
		return false
	}
	if err := checkStep(w.table, e, next, moves()); err != nil {
		w.Fatalf("%#v: %v\n%v%v", e, err, w.table.Picture(), next.Picture())
	}
	w.past = append(w.past, w.table)
	w.table = next
	return true
}

func (w *world) any() *machine {
	nodes := w.table.Nodes()
	return w.nodes[nodes[w.r.IntN(len(nodes))].Name]
}

func (w *world) state(name string) Node {
	n, _ := w.table.Node(name)
	return n
}

// learn has a node take over the newest table or one after the one that it knew.
func (w *world) learn(m *machine) {
	old := uint64(0)
	if m.knows != nil {
		old = m.knows.Epoch()
	}
	m.knows = w.table
	if newer := slices.IndexFunc(w.past, func(t *Table) bool { return t.Epoch() > old && t.index(m.name) >= 0 }); newer >= 0 && w.pick(2) {
		m.knows = w.past[newer+w.r.IntN(len(w.past)-newer)]
	}
}

func (m *machine) has() []uint16 { return slices.Sorted(maps.Keys(m.disk)) }

// live is a node that goes on with its work: it learns, forgets, copies, confirms.
func (w *world) live(m *machine) {
	if w.state(m.name).State != IsUp {
		return
	}
	w.learn(m)
	d := m.knows.Reconcile(m.name, m.has())
	for _, s := range d.Forget {
		delete(m.disk, s)
	}
	confirm := Confirm{Node: m.name, Epoch: m.knows.Epoch()}
	for _, f := range d.Fetch {
		from, ok := w.nodes[f.From]
		// Who is asked says no if it is down, or no longer holds it.
		if !ok || w.state(f.From).State != IsUp || !slices.Contains(w.table.Holders(f.Segment), f.From) || w.pick(2) {
			continue
		}
		if m.disk[f.Segment] == nil {
			m.disk[f.Segment] = map[int]bool{}
		}
		maps.Copy(m.disk[f.Segment], from.disk[f.Segment])
		confirm.Segments = append(confirm.Segments, f.Segment)
	}
	for _, s := range d.Compare {
		if w.hasAll(m, s) {
			confirm.Segments = append(confirm.Segments, s)
			w.count.compared++
		}
	}
	if len(confirm.Segments) > 0 {
		w.late = append(w.late, confirm)
	}
}

// hasAll compares what a node has of a segment with all that was settled of it.
func (w *world) hasAll(m *machine, s uint16) bool {
	for _, b := range w.files {
		if b.segment == s && b.at == nil && !w.gone[b.id] && !m.disk[s][b.id] {
			return false
		}
	}
	return true
}

func (w *world) write() {
	s := uint16(w.r.IntN(w.table.Segments()))
	to := w.table.WriteTo(s, func(string) bool { return w.pick(8) })
	if len(to) == 0 {
		return
	}
	b := &stored{len(w.files), s, to}
	w.files = append(w.files, b)
	for _, n := range to {
		m := w.nodes[n]
		if m.disk[s] == nil {
			m.disk[s] = map[int]bool{}
		}
		m.disk[s][b.id] = true
	}
}

// settleBlocks forgets the places of blocks whose copies are all where they belong.
func (w *world) settleBlocks() {
	for _, b := range w.files {
		if b.at == nil || !w.table.Settled(b.segment) {
			continue
		}
		all := true
		for _, n := range w.table.Targets(b.segment) {
			m := w.nodes[n]
			has := m.disk[b.segment][b.id]
			readable := slices.ContainsFunc(b.at, func(n string) bool {
				return w.state(n).State == IsUp && w.nodes[n].disk[b.segment][b.id]
			})
			if !has && readable && w.state(n).State == IsUp {
				if m.disk[b.segment] == nil {
					m.disk[b.segment] = map[int]bool{}
				}
				m.disk[b.segment][b.id], has = true, true
			}
			all = all && has
		}
		if all {
			b.at = nil
			w.count.settled++
		}
	}
}

func (w *world) fail() {
	m := w.any()
	switch w.r.IntN(6) {
	case 0, 1:
		w.apply(Down{m.name})
	case 2:
		w.apply(Out{m.name})
	case 3, 4:
		if w.state(m.name).State == IsUp {
			return
		}
		if w.pick(6) { // with a new disk
			m.disk = map[uint16]map[int]bool{}
			w.count.lost++
		}
		w.apply(Back{m.name, m.has()})
	case 5:
		if w.state(m.name).State != IsUp || !w.pick(8) || len(m.disk) == 0 {
			return
		}
		s := m.has()[w.r.IntN(len(m.disk))]
		delete(m.disk, s)
		w.count.lost++
		w.apply(Lost{m.name, []uint16{s}})
	}
}

func (w *world) operate() {
	m := w.any()
	switch w.r.IntN(9) {
	case 0:
		if len(w.table.Nodes()) < 8 {
			n := Node{Name: fmt.Sprint("n", len(w.nodes)), Rack: fmt.Sprint(w.r.IntN(3)), Weight: uint32(1 + w.r.IntN(3))}
			w.nodes[n.Name] = &machine{name: n.Name, disk: map[uint16]map[int]bool{}}
			if !w.apply(Join{n, w.r.IntN(3)}) {
				w.Fatal("cannot join")
			}
		}
	case 1:
		w.apply(Drain{m.name})
	case 2:
		w.apply(Fill{m.name, w.r.IntN(4)})
	case 3:
		w.apply(Level{w.r.IntN(4)})
	case 4:
		w.apply(Weigh{m.name, uint32(1 + w.r.IntN(3))})
	case 8:
		w.apply(Rack{m.name, fmt.Sprint(w.r.IntN(3))})
	case 5, 6:
		if w.state(m.name).State == IsOut || w.state(m.name).Leaving {
			w.apply(Remove{m.name})
		}
	case 7:
		missing := w.table.Missing()
		if len(missing) == 0 || !w.pick(20) {
			return
		}
		for _, s := range missing {
			w.count.abandoned++
			for _, b := range w.files {
				if b.segment == s {
					w.gone[b.id] = true
				}
			}
		}
		w.apply(Abandon{missing})
	}
}

// check holds that a holder has all that was settled.
func (w *world) check() {
	if w.table != w.checked {
		if err := checkTable(w.table); err != nil {
			w.Fatal(err)
		}
		w.checked = w.table
	}
	for _, b := range w.files {
		if b.at != nil || w.gone[b.id] {
			continue
		}
		for _, n := range w.table.Holders(b.segment) {
			if !w.nodes[n].disk[b.segment][b.id] {
				w.Fatalf("epoch %d: %s is said to hold segment %d and lacks block %d\n%v", w.table.Epoch(), n, b.segment, b.id, w.table.Picture())
			}
		}
	}
}

// heal has everything come back that can, and time pass: then all is where it belongs.
func (w *world) heal() {
	for _, n := range w.table.Nodes() {
		w.apply(Back{n.Name, w.nodes[n.Name].has()})
	}
	w.apply(Abandon{w.table.Missing()})
	for range 4 {
		for _, n := range w.table.Nodes() {
			m := w.nodes[n.Name]
			m.knows = w.table
			d := w.table.Reconcile(m.name, m.has())
			confirm := Confirm{Node: m.name, Epoch: w.table.Epoch()}
			for _, f := range d.Fetch {
				confirm.Segments = append(confirm.Segments, f.Segment)
			}
			w.apply(confirm)
		}
	}
	if moves := w.table.Moves(); len(moves) > 0 || len(w.table.Missing()) > 0 {
		w.Fatalf("it does not heal: %v\n%v", moves, w.table.Picture())
	}
	for s := range uint16(w.table.Segments()) {
		leaving := slices.ContainsFunc(w.table.Holders(s), func(n string) bool { return w.state(n).Leaving })
		if !w.table.Settled(s) && !leaving {
			w.Fatalf("segment %d is not settled: %v", s, w.table.Holders(s))
		}
	}
}

func TestWorlds(t *testing.T) {
	worlds := 200
	if testing.Short() {
		worlds = 30
	}
	var all world
	for seed := range worlds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 7))
			nodes := names(1 + r.IntN(5))
			w := &world{T: t, r: r, nodes: map[string]*machine{}, gone: map[int]bool{}}
			for i := range nodes {
				nodes[i].Rack = fmt.Sprint(r.IntN(3))
				w.nodes[nodes[i].Name] = &machine{name: nodes[i].Name, disk: map[uint16]map[int]bool{}}
				for s := range uint16(12) {
					w.nodes[nodes[i].Name].disk[s] = map[int]bool{}
				}
			}
			var err error
			if w.table, err = New(12, 1+r.IntN(4), nodes...); err != nil {
				t.Fatal(err)
			}
			for range 400 {
				switch r.IntN(10) {
				case 0, 1:
					w.write()
				case 2:
					w.settleBlocks()
				case 3:
					w.fail()
				case 4:
					w.operate()
				case 5, 6, 7:
					w.live(w.any())
				default:
					if len(w.late) > 0 {
						k := r.IntN(len(w.late))
						w.apply(w.late[k])
						if !w.pick(4) { // or it comes twice
							w.late = slices.Delete(w.late, k, k+1)
						}
					}
				}
				w.check()
			}
			w.heal()
			all.count.events += w.count.events
			all.count.refused += w.count.refused
			all.count.settled += w.count.settled
			all.count.lost += w.count.lost
			all.count.abandoned += w.count.abandoned
			all.count.compared += w.count.compared
		})
	}
	t.Logf("%+v", all.count)
	if c := all.count; c.settled < worlds || c.lost < worlds/10 || c.abandoned < worlds/30 || c.compared < worlds/30 {
		t.Errorf("too little has happened: %+v", c)
	}
}

// TestLateConfirmations: what a node has confirmed counts only if it cannot have lost it since.
func TestLateConfirmations(t *testing.T) {
	first, err := New(8, 2, names(3)...)
	if err != nil {
		t.Fatal(err)
	}
	joined, moves := apply(t, first, Join{Node: Node{Name: "x", Weight: 1}})
	i := slices.IndexFunc(moves, func(m Move) bool { return m.Node == "x" && joined.Owner(m.Segment) == "x" })
	s := moves[i].Segment
	late := Confirm{"x", joined.Epoch(), []uint16{s}}
	all := []uint16{0, 1, 2, 3, 4, 5, 6, 7}

	for what, between := range map[string][]Event{
		"it was told to forget": {Drain{"x"}, Fill{"x", 0}},
		"it has lost it":        {Lost{"x", []uint16{s}}},
		"it was away":           {Down{"x"}, Back{"x", all}},
		"its disk is new":       {Down{"x"}, Out{"x"}, Back{"x", nil}},
		"it never went down":    {Back{"x", nil}},
	} {
		table, _ := apply(t, joined, between...)
		if !slices.Contains(table.Targets(s), "x") {
			t.Fatalf("%s: segment %d does not belong to x", what, s)
		}
		if after, _ := apply(t, table, late); after != table {
			t.Errorf("%s: it still counts: %v", what, after.Holders(s))
		}
		late := late
		late.Epoch = table.Epoch()
		if after, _ := apply(t, table, late, late); !slices.Contains(after.Holders(s), "x") {
			t.Errorf("%s: it does not count anew", what)
		}
	}
	// What happens elsewhere does not matter.
	table, _ := apply(t, joined, Down{joined.Holders(s)[0]}, Weigh{"x", 2}, late)
	if !slices.Contains(table.Holders(s), "x") {
		t.Error("it does not count although nothing has happened")
	}
	late.Epoch += 9
	if _, _, err := joined.Apply(late); !errors.Is(err, ErrInvalid) {
		t.Errorf("it confirms for an epoch that has not come: %v", err)
	}
}

// TestAllLost: when each holder has said that it lost a segment, those to whom it belongs compare what they have, and one that has all is a holder again.
func TestAllLost(t *testing.T) {
	table, err := New(8, 2, names(3)...)
	if err != nil {
		t.Fatal(err)
	}
	targets := table.Targets(5)
	table, _ = apply(t, table, Lost{targets[0], []uint16{5}}, Lost{targets[1], []uint16{5}})
	for _, n := range targets {
		if d := table.Reconcile(n, []uint16{0, 1, 2, 3, 4, 6, 7}); !slices.Equal(d.Compare, []uint16{5}) || len(d.Fetch) > 0 || len(d.Lost) > 0 {
			t.Errorf("%s is to do %+v", n, d)
		}
	}
	table, _ = apply(t, table, Confirm{targets[1], table.Epoch(), []uint16{5}})
	if d := table.Reconcile(targets[0], nil); !slices.Contains(d.Fetch, Move{5, targets[0], targets[1]}) || slices.Contains(d.Compare, 5) {
		t.Errorf("with one that has it %s is to do %+v", targets[0], d)
	}
	table, _ = apply(t, table, Down{targets[1]})
	if d := table.Reconcile(targets[0], nil); !slices.Contains(d.Compare, 5) {
		t.Errorf("with that one down %s is to do %+v", targets[0], d)
	}
}
