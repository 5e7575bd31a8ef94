package names

import (
	"errors"
	mrand "math/rand/v2"
	"slices"
	"strings"
	"testing"

	"headrace/ring"
)

// mostKnown is the newest version that nodes of worlds understand which are updated: of one that is still to come.
const mostKnown = newest + 1

func rolling(seed uint64) *mrand.Rand { return mrand.New(mrand.NewPCG(seed, 11)) }

// knowsMore has this test's program read views of versions that are still to come, which the machine of each process has to refuse.
func knowsMore(t *testing.T) {
	understood = "3"
	t.Cleanup(func() { understood = "" })
	if Understands() != mostKnown {
		t.Fatal(Understands())
	}
}

// roll updates nodes, one after the other, takes some back, and raises the version in force, well or badly timed.
func (w *world) roll() {
	if w.rolling == nil {
		return
	}
	p := w.processes[w.rolling.IntN(len(w.processes))]
	switch w.rolling.IntN(150) {
	case 0, 1, 2:
		if p.knows < mostKnown {
			w.install(p, p.knows+1, "updated")
		}
	case 3:
		if p.knows > version1 {
			p.astray = true
			w.install(p, p.knows-1, "taken back")
		}
	case 4, 5, 6, 7, 8:
		w.raise(w.rolling.IntN(4) == 0)
	}
}

// install has a process go on with another program.
func (w *world) install(p *process, knows uint32, what string) {
	w.counts[what]++
	w.note("%s is %s to %d", p.name, what, knows)
	p.knows = knows
	if p.node != nil {
		w.do(p, func() { p.die("to be " + what) })
	}
}

// raise has somebody who leads raise the version in force by what it has heard.
func (w *world) raise(despiteAway bool) {
	l := w.leading()
	if !w.leads(l) {
		return
	}
	v := l.known.View()
	heard := map[string]bool{} // some of those who run have not beaten yet since it leads
	for _, q := range w.processes {
		heard[q.name] = q == l || q.node != nil && !w.cut[[2]*process{q, l}] && w.rolling.IntN(4) > 0
	}
	hears := func(name string) (uint32, bool) { return w.named(name).knows, heard[name] }
	to, err := v.next(hears, despiteAway)
	if w.fault.raisesBlindly {
		to.Version, err = l.knows, nil
	}
	if err != nil || to.Version <= v.Version {
		w.counts["not raised"]++
		return
	}
	if despiteAway {
		w.counts["raised despite"]++
	}
	for _, q := range w.processes {
		n, there := v.Table.Node(q.name)
		if there && n.State != ring.IsUp || !there && q.store != nil {
			q.astray = true
		}
	}
	b, _ := encodeRaise(to)
	w.note("%s raises %+v", l.name, to)
	w.do(l, func() {
		l.node.Propose(group, b, func(b []byte, err error) {
			switch {
			case err == nil && b[0] == isAnswer:
				w.counts["raised"]++
			case err == nil:
				w.counts["raise refused"]++
			}
		})
	})
}

// refused has somebody update a process that is too old, and knows the reason.
func (w *world) refused(p *process, why string) {
	w.counts["refused"]++
	w.note("%s, which understands %d, is refused: %s", p.name, p.knows, why)
	if p.store != nil && !p.astray {
		w.failf("%s was a node all the time, and is too old: it understands %d: %s", p.name, p.knows, why)
	}
	p.knows++
}

// TestWorldsThatAreUpdated: worlds whose nodes are updated one after the other, some of them taken back meanwhile, beside all that happens in other worlds. All that is
// answered is right, nodes of several versions come to the same state, and only those are ever refused that were taken back, or were not there when a version was raised.
func TestWorldsThatAreUpdated(t *testing.T) {
	knowsMore(t)
	top := 0
	n, counts := runWorlds(t, 100, false, version1, func(w *world) {
		for _, p := range w.processes {
			if w.leads(p) && p.known.View().Version == mostKnown {
				top++
			}
		}
	})
	t.Logf("%d worlds came to version %d", top, mostKnown)
	if n < 50 {
		return
	}
	for _, k := range []string{"updated", "taken back", "raised", "raised despite", "not raised", "refused", "ring.Rack", "did Survey", "chunk", "joined"} {
		if counts[k] == 0 {
			t.Errorf("no %s", k)
		}
	}
	if top == 0 {
		t.Error("no world came to the newest version")
	}
}

// TestVersionFaultsAreFound: the simulation finds mistakes about versions that are made on purpose.
func TestVersionFaultsAreFound(t *testing.T) {
	withChance(t)
	knowsMore(t)
	for name, f := range map[string]fault{"writes what not all know": {writesNewest: true}, "raises without asking": {raisesBlindly: true}} {
		t.Run(name, func(t *testing.T) {
			for i := range uint64(200) {
				w := newWorldOf(version1, i, f, map[string]int{})
				w.rolling = rolling(i)
				if problem := w.run(simSteps); problem != "" {
					t.Logf("seed %d: %.300s", i, problem)
					return
				}
			}
			t.Error("not found")
		})
	}
}

// TestNext: a version is raised when all nodes understand it that are not out; who is down is waited for unless that is not wanted, who is up always, and who is older is named.
func TestNext(t *testing.T) {
	down, gone := viewOf(t, 4, 1, 0, 1, 2), viewOf(t, 4, 1, 0, 1, 2)
	happens := func(v *View, e ring.Event) {
		table, _, err := v.Table.Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		v.Table = table
	}
	happens(down, ring.Down{Node: "n3"})
	happens(gone, ring.Down{Node: "n3"})
	happens(gone, ring.Out{Node: "n3"})
	for name, c := range map[string]struct {
		v       *View
		in      uint32
		says    map[string]uint32
		despite bool
		want    uint32
		refuses string
	}{
		"all":                 {gone, 1, map[string]uint32{"n0": 2, "n1": 2, "n2": 2}, false, 2, ""},
		"some know more":      {gone, 1, map[string]uint32{"n0": 3, "n1": 2, "n2": 3}, false, 2, ""},
		"nothing newer":       {gone, 2, map[string]uint32{"n0": 2, "n1": 2, "n2": 2}, false, 2, ""},
		"one is left":         {gone, 1, map[string]uint32{"n0": 2, "n1": 1, "n2": 2}, true, 0, "version 1 is all that these understand: node n1"},
		"one is down":         {down, 1, map[string]uint32{"n0": 2, "n1": 2, "n2": 2, "n3": 2}, false, 0, "these are away, and may be older: node n3"},
		"one is silent":       {gone, 1, map[string]uint32{"n0": 2, "n1": 2}, false, 0, "has not heard lately what these understand: node n2"},
		"it is to keep":       {gone, 1, map[string]uint32{"n0": 2, "n1": 2}, true, 0, "has not heard lately what these understand: node n2"},
		"that is not to keep": {down, 1, map[string]uint32{"n0": 2, "n1": 2, "n2": 2}, true, 2, ""},
		"all are silent":      {gone, 1, nil, true, 0, "no node"},
	} {
		v := *c.v
		v.Version = c.in
		got, err := v.next(func(name string) (uint32, bool) { n, ok := c.says[name]; return n, ok }, c.despite)
		if c.refuses == "" && (err != nil || got.Version != c.want) || c.refuses != "" && (!errors.Is(err, ErrStays) || !strings.Contains(err.Error(), c.refuses)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if slices.Contains(got.Nodes, "n3") != (c.v == down) {
			t.Errorf("%s: %v", name, got.Nodes)
		}
	}
}
