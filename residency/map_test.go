package residency

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/internal/budget"
)

func id(n int) headrace.BlockID { return headrace.BlockID{Pool: "BP-1", Number: int64(n)} }

func on(n int, hosts string) headrace.Block {
	return headrace.Block{ID: id(n), Bytes: 100, Hosts: strings.Fields(hosts)}
}

var t0 = time.Unix(1_700_000_000, 0)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOneBlock(t *testing.T) {
	m, a := New(Config{}, t0), App{"anna", "sort"}
	must(t, m.Join("n1", 1, []string{"dn1.example"}))
	must(t, m.Add(a, []headrace.Block{on(1, "dn1.example dn2.example")}, t0))
	w, err := m.Watch("n1", 1, 0, 10)
	must(t, err)
	if !w.Full || !slices.Equal(w.Add, []headrace.BlockID{id(1)}) {
		t.Errorf("the node is to watch %+v", w)
	}
	u, err := m.Changes(a, 0, 10, t0)
	must(t, err)
	if !u.Full || len(u.Changes) > 0 {
		t.Errorf("nothing is in memory: %+v", u)
	}
	ready, err := m.Ready(a)
	must(t, err)
	if err := m.Report("n1", 1, false, nil); !errors.Is(err, ErrStale) {
		t.Errorf("changes before the whole: %v", err)
	}
	must(t, m.Report("n1", 1, true, []Resident{{id(1), 40, 100}, {id(2), 1, 1}}))
	select {
	case <-ready:
	default:
		t.Error("the application is not woken")
	}
	u, err = m.Changes(a, u.Version, 10, t0)
	must(t, err)
	if want := []Change{{id(1), []At{{"n1", 40, 100}}}}; u.Full || fmt.Sprint(u.Changes) != fmt.Sprint(want) {
		t.Errorf("told %+v, want %+v", u, want)
	}
	// A report that changes nothing wakes nobody.
	must(t, m.Report("n1", 1, false, []Resident{{id(1), 40, 100}}))
	if next, _ := m.Changes(a, u.Version, 10, t0); next.Version != u.Version {
		t.Errorf("told %+v, and nothing has changed", next)
	}
	// Absurd figures are cut to what can be.
	must(t, m.Report("n1", 1, false, []Resident{{id(1), 1 << 40, 100}}))
	if at := m.Where(id(1)); len(at) != 1 || at[0] != (At{"n1", 100, 100}) {
		t.Errorf("in memory: %+v", at)
	}
	must(t, m.Report("n1", 1, false, []Resident{{id(1), -5, -7}}))
	if at := m.Where(id(1)); len(at) != 0 {
		t.Errorf("in memory: %+v", at)
	}
	if got := m.Totals(); got != (Totals{Nodes: 1, Applications: 1, Owners: 1, Blocks: 1, Interests: 2, Passed: 1}) {
		t.Errorf("totals: %+v", got)
	}
}

func TestSessions(t *testing.T) {
	m := New(Config{}, t0)
	a := App{"anna", "sort"}
	must(t, m.Add(a, []headrace.Block{on(1, "n1"), on(2, "n1")}, t0))
	must(t, m.Join("n1", 5, nil))
	must(t, m.Report("n1", 5, true, []Resident{{id(1), 9, 9}, {id(2), 9, 9}}))
	if err := m.Join("n1", 5, nil); !errors.Is(err, ErrStale) {
		t.Errorf("an old session joins: %v", err)
	}
	must(t, m.Join("n1", 6, nil))
	if err := m.Report("n1", 5, true, nil); !errors.Is(err, ErrStale) {
		t.Errorf("an old session reports: %v", err)
	}
	if len(m.Where(id(1))) != 1 {
		t.Error("what was known was forgotten before the node has told its state")
	}
	must(t, m.Report("n1", 6, true, []Resident{{id(2), 9, 9}}))
	if len(m.Where(id(1))) != 0 || len(m.Where(id(2))) != 1 {
		t.Errorf("after the whole state: %v, %v", m.Where(id(1)), m.Where(id(2)))
	}
	m.Remove("n1")
	if len(m.Where(id(2))) != 0 {
		t.Error("a node that is gone has something in memory")
	}
	if err := m.Report("n1", 6, true, nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("a node that is gone reports: %v", err)
	}
	if _, err := m.Watch("n1", 6, 0, 1); !errors.Is(err, ErrUnknown) {
		t.Errorf("a node that is gone asks: %v", err)
	}
	// A name that goes over to another node.
	must(t, m.Join("n2", 7, []string{"n1"}))
	must(t, m.Report("n2", 7, true, []Resident{{id(2), 3, 9}}))
	w, err := m.Watch("n2", 7, 0, 10)
	must(t, err)
	must(t, m.Join("n1", 8, nil))
	if w, err = m.Watch("n2", 7, w.Seq, 10); err != nil || !w.Full || len(w.Add) > 0 {
		t.Errorf("a node that has lost a name is to watch %+v, %v", w, err)
	}
	if at := m.Where(id(2)); len(at) != 0 {
		t.Errorf("in memory on %v, whose name is another's now", at)
	}
}

// TestNames: of machines that nobody has heard of an owner names so many, and those that join count all the same.
func TestNames(t *testing.T) {
	m, a := New(Config{}, t0), App{"anna", "sort"}
	m.names.Owner, m.names.All = 3, 4
	must(t, m.Join("n1", 1, []string{"dn1"}))
	must(t, m.Add(a, []headrace.Block{on(1, "x1 x2 x3 x4 dn1"), on(2, "x5 n1"), on(3, "x1")}, t0))
	must(t, m.Add(App{"bob", "b"}, []headrace.Block{on(1, "x1 y1 y2")}, t0))
	if got := len(m.hosts); got != 2+3+1 {
		t.Errorf("%d machines are known", got)
	}
	must(t, m.Join("n2", 1, []string{"x2"}))
	for node, want := range map[string]int{"n1": 2, "n2": 1} {
		w, err := m.Watch(node, 1, 0, 10)
		if must(t, err); len(w.Add) != want {
			t.Errorf("%s is to watch %v", node, w.Add)
		}
	}
	m.Forget(a)
	m.Forget(App{"bob", "b"})
	m.Tidy(100)
	m.Remove("n2")
	if all, owners := m.names.Taken(); all != 0 || owners != 0 || len(m.hosts) != 2 {
		t.Errorf("%d names of %d owners stay, of %d machines", all, owners, len(m.hosts))
	}
}

// TestManyApplications: there are so many of an owner's and of all, those that have ended and were not tidied up among them.
func TestManyApplications(t *testing.T) {
	m := New(Config{OwnerApplications: 2, AllApplications: 3}, t0)
	add := func(owner, name string) error { return m.Add(App{owner, name}, []headrace.Block{on(1, "n1")}, t0) }
	must(t, add("anna", "a1"))
	must(t, add("anna", "a2"))
	must(t, add("anna", "a2"))
	must(t, add("bob", "b1"))
	for _, owner := range []string{"anna", "bob"} {
		if err := add(owner, "more"); !errors.Is(err, budget.ErrOver) || !strings.Contains(err.Error(), "applications") {
			t.Errorf("one more of %s: %v", owner, err)
		}
	}
	m.Forget(App{"anna", "a1"})
	if err := add("anna", "more"); !errors.Is(err, budget.ErrOver) {
		t.Errorf("before the one that has ended is tidied up: %v", err)
	}
	m.Tidy(10)
	must(t, add("anna", "more"))
	for _, app := range []App{{"anna", "a2"}, {"anna", "more"}, {"bob", "b1"}} {
		m.Forget(app)
	}
	m.Tidy(10)
	if n, owners := m.many.Taken(); n != 0 || owners != 0 || m.Totals().Interests != 0 {
		t.Errorf("%d applications of %d owners, %+v", n, owners, m.Totals())
	}
}

func TestBounds(t *testing.T) {
	blocks := func(from, to int) (all []headrace.Block) {
		for i := from; i < to; i++ {
			all = append(all, on(i, "n1"), on(i, "n2")) // the same once more counts once
		}
		return all
	}
	m := New(Config{PerApplication: 10, PerOwner: 15, All: 20, Forget: time.Minute}, t0)
	refused := func(err error, text string) {
		t.Helper()
		if !errors.Is(err, budget.ErrOver) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	anna1, anna2, bob := App{"anna", "a1"}, App{"anna", "a2"}, App{"bob", "a1"}
	must(t, m.Add(anna1, blocks(0, 9), t0))
	refused(m.Add(anna1, blocks(5, 10), t0), "it would have 11, and may have 10")
	refused(m.Add(anna2, blocks(0, 5), t0), "its owner anna would have 16")
	must(t, m.Add(anna2, blocks(0, 4), t0))
	refused(m.Add(bob, blocks(0, 5), t0), "all together would have 21")
	if _, err := m.Changes(bob, 0, 1, t0); !errors.Is(err, ErrUnknown) {
		t.Errorf("an application that was refused: %v", err)
	}
	must(t, register(m, anna1, blocks(20, 24), t0))
	must(t, m.Add(bob, blocks(0, 8), t0))
	if gone := m.Look(t0.Add(time.Minute)); len(gone) != 0 {
		t.Errorf("forgotten too early: %v", gone)
	}
	must(t, m.Drop(bob, []headrace.BlockID{id(0), id(77)}, t0.Add(time.Minute)))
	if gone := m.Look(t0.Add(time.Minute + time.Second)); len(gone) != 2 {
		t.Errorf("forgotten: %v", gone)
	}
	if got := m.Totals(); got.Interests != 18 || got.Owners != 2 {
		t.Errorf("%+v is there before anything is tidied", got)
	}
	for n := 1; m.Tidy(1); n++ {
		if got := m.Totals(); got.Interests > int64(18-n) {
			t.Errorf("%+v is left when %d blocks are tidied", got, n)
		}
	}
	if got := m.Totals(); got.Interests != 8 || got.Owners != 1 || got.Blocks != 7 {
		t.Errorf("%+v is left", got)
	}
	if err := m.Drop(anna1, nil, t0); !errors.Is(err, ErrUnknown) {
		t.Errorf("an application that was forgotten: %v", err)
	}
}

// register registers blocks instead of those that the application had.
func register(m *Map, app App, blocks []headrace.Block, now time.Time) error {
	stay := map[headrace.BlockID]bool{}
	for _, b := range blocks {
		stay[b.ID] = true
	}
	if others := slices.DeleteFunc(m.Registered(app), func(id headrace.BlockID) bool { return stay[id] }); len(others) > 0 {
		if err := m.Drop(app, others, now); err != nil {
			return err
		}
	}
	return m.Add(app, blocks, now)
}

// agent is a node that does what the comment of the package says.
type agent struct {
	name              string
	hosts             []string
	real              map[headrace.BlockID]Resident // what is in memory
	session, seq      uint64
	joined, told      bool
	watched, reported map[headrace.BlockID]Resident
	anew              map[headrace.BlockID]bool
}

func (a *agent) watch(w Watch) {
	if w.Full {
		clear(a.watched)
	}
	for _, b := range w.Remove {
		delete(a.watched, b)
		delete(a.reported, b)
		delete(a.anew, b)
	}
	for _, b := range w.Add {
		a.watched[b] = Resident{}
		a.anew[b] = true
	}
	a.seq = w.Seq
}

func (a *agent) report(m *Map, full bool) error {
	var all []Resident
	for b := range a.watched {
		was, is := a.reported[b], a.real[b]
		if full && is.Resident > 0 || !full && (is != was || a.anew[b] && is.Resident > 0) {
			is.Block = b
			all = append(all, is)
		}
	}
	if err := m.Report(a.name, a.session, full, all); err != nil {
		return err
	}
	a.told = true
	clear(a.anew)
	for b := range a.watched {
		a.reported[b] = a.real[b]
	}
	return nil
}

// client is an application that follows what it is told.
type client struct {
	app     App
	version uint64
	wants   map[headrace.BlockID][]string // nil: not registered
	knows   map[headrace.BlockID][]At
}

func (c *client) apply(u Update) {
	if u.Full {
		clear(c.knows)
	}
	for _, ch := range u.Changes {
		if c.knows[ch.Block] = ch.At; len(ch.At) == 0 {
			delete(c.knows, ch.Block)
		}
	}
	c.version = u.Version
}

// world is a map, its nodes and its applications, and says itself what they should know.
type world struct {
	r       *rand.Rand
	m       *Map
	now     time.Time
	session uint64
	agents  []*agent
	clients []*client
	held    map[headrace.BlockID][]string
	did     map[string]int
}

const blocksOfWorld = 12

func newWorld(seed uint64, did map[string]int) *world {
	w := &world{r: rand.New(rand.NewPCG(seed, 9)), now: t0, did: did, held: map[headrace.BlockID][]string{}}
	w.m = New(Config{}, w.now)
	for i := range 4 {
		w.agents = append(w.agents, &agent{name: fmt.Sprintf("n%d", i), hosts: []string{fmt.Sprintf("dn%d", i)}, real: map[headrace.BlockID]Resident{}})
		w.clients = append(w.clients, &client{app: App{fmt.Sprint("owner", i%2), fmt.Sprint("app", i)}})
	}
	return w
}

func (w *world) join(a *agent) error {
	w.session++
	a.session, a.joined, a.seq, a.told = w.session, true, 0, false
	if a.watched == nil || w.r.IntN(2) == 0 { // it may have been started anew
		a.watched, a.reported, a.anew = map[headrace.BlockID]Resident{}, map[headrace.BlockID]Resident{}, map[headrace.BlockID]bool{}
	}
	return w.m.Join(a.name, a.session, a.hosts)
}

// some makes up blocks with hosts.
func (w *world) some() (all []headrace.Block) {
	for range 1 + w.r.IntN(4) {
		b := headrace.Block{ID: id(w.r.IntN(blocksOfWorld))}
		for _, i := range w.r.Perm(6)[:w.r.IntN(4)] {
			b.Hosts = append(b.Hosts, fmt.Sprintf("dn%d", i)) // dn4 and dn5 have no node
		}
		all = append(all, b)
	}
	return all
}

func (w *world) step() error {
	w.now = w.now.Add(time.Second)
	a, c := w.agents[w.r.IntN(len(w.agents))], w.clients[w.r.IntN(len(w.clients))]
	b := id(w.r.IntN(blocksOfWorld))
	switch what := w.r.IntN(14); what {
	case 0, 1, 2:
		a.real[b] = Resident{Resident: w.r.Int64N(3), Bytes: 10}
		if a.real[b].Resident == 0 {
			delete(a.real, b)
		}
	case 3, 4:
		if a.joined && a.told {
			w.did["report"]++
			return a.report(w.m, w.r.IntN(5) == 0)
		}
	case 5, 6:
		return w.tell(a, 1+w.r.IntN(5), true)
	case 7:
		if w.r.IntN(3) == 0 {
			w.did["leave"]++
			a.joined = false
			w.m.Remove(a.name)
			return nil
		}
		if w.r.IntN(3) == 0 {
			w.did["join"]++
			return w.join(a)
		}
	case 8, 9:
		return w.register(c)
	case 10:
		if c.wants != nil {
			w.did["drop"]++
			delete(c.wants, b)
			delete(c.knows, b)
			return w.m.Drop(c.app, []headrace.BlockID{b}, w.now)
		}
	case 11:
		if w.r.IntN(3) == 0 && c.wants != nil {
			w.did["forget"]++
			w.m.Forget(c.app)
			w.m.Tidy(w.r.IntN(4))
			c.wants = nil
		}
	case 12:
		return w.ask(c, 1+w.r.IntN(3), true)
	case 13:
		w.hold(b)
	}
	return nil
}

func (w *world) register(c *client) error {
	replace := w.r.IntN(2) == 0
	blocks := w.some()
	if c.wants == nil {
		c.wants, c.knows, c.version = map[headrace.BlockID][]string{}, map[headrace.BlockID][]At{}, 0
	}
	if replace {
		clear(c.wants)
	}
	for _, b := range blocks {
		c.wants[b.ID] = b.Hosts
		delete(c.knows, b.ID) // it may have been dropped, which is not told when it is wanted again soon
	}
	maps.DeleteFunc(c.knows, func(b headrace.BlockID, _ []At) bool { _, ok := c.wants[b]; return !ok })
	if replace {
		w.did["replace"]++
		return register(w.m, c.app, blocks, w.now)
	}
	w.did["add"]++
	return w.m.Add(c.app, blocks, w.now)
}

func (w *world) hold(b headrace.BlockID) {
	if w.r.IntN(3) == 0 {
		delete(w.held, b)
		w.m.Release(b)
		return
	}
	w.did["hold"]++
	var names []string
	for _, i := range w.r.Perm(5)[:w.r.IntN(4)] { // n4 and dn4 have no node
		names = append(names, fmt.Sprint([]string{"n", "dn"}[w.r.IntN(2)], i))
	}
	w.held[b] = names
	w.m.Hold(b, names)
}

// tell has a node ask what it is to watch; the answer may be lost.
func (w *world) tell(a *agent, most int, lossy bool) error {
	if !a.joined {
		return nil
	}
	answer, err := w.m.Watch(a.name, a.session, a.seq, most)
	if err == nil && (!lossy || w.r.IntN(4) > 0) {
		a.watch(answer)
	}
	if err == nil && !a.told {
		err = a.report(w.m, true)
	}
	return err
}

func (w *world) ask(c *client, most int, lossy bool) error {
	if c.wants == nil {
		return nil
	}
	u, err := w.m.Changes(c.app, c.version, most, w.now)
	if err == nil && (!lossy || w.r.IntN(4) > 0) {
		c.apply(u)
	}
	return err
}

// settle lets all messages through.
func (w *world) settle() error {
	for range 2 * blocksOfWorld {
		for _, a := range w.agents {
			if err := w.tell(a, 3, false); err != nil {
				return err
			}
			if a.joined {
				if err := a.report(w.m, false); err != nil {
					return err
				}
			}
		}
		for _, c := range w.clients {
			if err := w.ask(c, 3, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// check compares what everybody knows with what is true.
func (w *world) check() error {
	interested := func(b headrace.BlockID, a *agent) bool {
		for _, c := range w.clients {
			for _, h := range c.wants[b] {
				if h == a.name || slices.Contains(a.hosts, h) {
					return true
				}
			}
		}
		return slices.ContainsFunc(w.held[b], func(h string) bool { return h == a.name || slices.Contains(a.hosts, h) })
	}
	for _, a := range w.agents {
		for n := range blocksOfWorld {
			_, watches := a.watched[id(n)]
			if a.joined && watches != interested(id(n), a) {
				return fmt.Errorf("%s watches %d: %v", a.name, n, watches)
			}
		}
	}
	for _, a := range w.agents {
		for n := range blocksOfWorld {
			want := a.real[id(n)].Resident
			if !a.joined || !interested(id(n), a) {
				want = 0
			}
			if got := w.m.On(a.name, id(n)); got != want {
				return fmt.Errorf("%s has %d of %d in memory, true is %d", a.name, got, n, want)
			}
		}
	}
	for _, c := range w.clients {
		for b := range c.wants {
			var want []At
			for _, a := range w.agents {
				if r := a.real[b]; a.joined && r.Resident > 0 && interested(b, a) {
					want = append(want, At{a.name, r.Resident, r.Bytes})
				}
			}
			got := slices.Clone(c.knows[b])
			slices.SortFunc(got, func(a, b At) int { return strings.Compare(a.Node, b.Node) })
			if !slices.Equal(got, want) {
				return fmt.Errorf("%v knows %v of %v, true is %v", c.app, got, b, want)
			}
		}
		if c.wants != nil && len(c.knows) > len(c.wants) {
			return fmt.Errorf("%v knows %d blocks of %d", c.app, len(c.knows), len(c.wants))
		}
	}
	return nil
}

// TestAgainstTruth has nodes and applications come and go, and messages get lost. When all
// messages have come through, everybody knows what is true; when all have gone, nothing is left.
func TestAgainstTruth(t *testing.T) {
	did := map[string]int{}
	for seed := range uint64(150) {
		w := newWorld(seed, did)
		for step := range 400 {
			err := w.step()
			if err == nil && step%50 == 49 {
				for w.m.Tidy(10) {
				}
				if err = w.settle(); err == nil {
					err = w.check()
				}
			}
			if err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
		for _, c := range w.clients {
			w.m.Forget(c.app)
		}
		for w.m.Tidy(10) {
		}
		for b := range w.held {
			w.m.Release(b)
		}
		for _, a := range w.agents {
			w.m.Remove(a.name)
		}
		if got := w.m.Totals(); got != (Totals{Passed: got.Passed}) || len(w.m.hosts) > 0 {
			t.Fatalf("seed %d: %+v and %d hosts are left", seed, got, len(w.m.hosts))
		}
	}
	for _, what := range []string{"report", "leave", "join", "add", "replace", "drop", "forget", "hold"} {
		if did[what] < 300 {
			t.Errorf("only %d cases of %s in %v", did[what], what, did)
		}
	}
}
