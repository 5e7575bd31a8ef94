package member

import (
	"errors"
	"strings"
	"testing"

	"headrace/dfs"
	"headrace/internal/testkit"
	"headrace/ring"
)

// knowing is quick for a node that understands a version.
func knowing(version uint32) Config {
	c := quick
	c.Version = version
	return c
}

// TestOldNodes: a node that does not understand the version in force is refused when it joins, also by way of another node, and ends when it is raised.
func TestOldNodes(t *testing.T) {
	a, b, old := sit(t, "a", knowing(1)), sit(t, "b", knowing(2)), sit(t, "c", knowing(1))
	a.leadFrom(nil, 1)
	a.mu.Lock()
	a.admits = func(m dfs.Member) {
		if want := map[string]uint32{"a": 1, "b": 2, "c": 1}[m.Name]; m.Version != want {
			t.Errorf("%s is admitted as one that understands %d: another version may be in force when that counts", m.Name, m.Version)
		}
	}
	a.mu.Unlock()
	for _, p := range []*place{b, old} {
		_, v, _, err := p.join(t, a.address())
		if err != nil {
			t.Fatal(err)
		}
		p.Learn(v)
	}
	for _, p := range []*place{b, old} {
		testkit.Await(t, "it to say what it understands", func() bool { n, ok := a.Understands(p.name); return ok && n == p.Version })
		if m := a.View().Members[p.name]; m.Version != 0 {
			t.Errorf("nodes of the first version would not read %+v", m)
		}
	}
	if n, ok := a.Understands("a"); !ok || n != 1 {
		t.Error(n, ok)
	}
	a.mu.Lock()
	a.Circle.mu.Lock()
	a.says["d"], a.beats["d"] = understood{2, 0}, ring.Beat{At: a.now()}
	a.says["e"], a.beats["e"] = understood{2, 1}, ring.Beat{At: a.now() - quick.Patience.Suspect}
	a.Circle.mu.Unlock()
	a.mu.Unlock()
	if _, ok := a.Understands("d"); ok {
		t.Error("what was heard in another term counts")
	}
	if _, ok := a.Understands("e"); ok {
		t.Error("what was heard long ago counts")
	}
	if old.outdated() != nil || b.outdated() != nil {
		t.Error(old.outdated(), b.outdated())
	}

	a.change(func(v *dfs.View) { v.Version = 2; v.Index++ })
	testkit.Await(t, "it to hear that it is too old", func() bool { return old.outdated() != nil })
	if err := old.outdated(); !errors.Is(err, dfs.ErrOld) || !strings.Contains(err.Error(), "install the version of the other nodes here, and start again (version 2 is in force, and this one understands 1)") {
		t.Error(err)
	}
	testkit.Await(t, "what it understands to be noted", func() bool { return a.View().Members["b"].Version == 2 })
	for _, by := range []*place{a, b} {
		late := sit(t, "late-"+by.name, knowing(1))
		_, _, _, err := late.join(t, by.address())
		if !errors.Is(err, ErrRefused) || !errors.Is(err, dfs.ErrOld) || !strings.Contains(err.Error(), "version 2 is in force, and this one understands 1") {
			t.Errorf("by %s: %v", by.name, err)
		}
		if _, there := a.View().Members[late.name]; there {
			t.Error("it is a member")
		}
	}
}

// TestRackOfAnOldVersion: a node that is started in another rack stands in the one where it was until all nodes know how to move it.
func TestRackOfAnOldVersion(t *testing.T) {
	a := sit(t, "a", knowing(1))
	a.leadFrom(nil, 1)
	b := sitAt(t, "b", "BP-1", "127.0.0.1:0", knowing(2), func(self *dfs.Member) { self.Rack = "r2" })
	before := b.self
	before.Rack = "r1"
	if _, _, err := a.Admit(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if _, err := a.ChangeRing(t.Context(), ring.Rack{Node: "b", Rack: "r1"}); err != nil {
		t.Fatal(err)
	}
	b.Learn(a.View())
	rack := func() string { n, _ := a.View().Table.Node("b"); return n.Rack }
	testkit.Await(t, "somebody to be told", func() bool { return strings.Contains(a.said.String(), "counts once all nodes are updated") })
	if _, heard := a.Heard("b"); !heard || rack() != "r1" {
		t.Errorf("it is heard: %t, and stands in %s", heard, rack())
	}
	a.change(func(v *dfs.View) { v.Version = 2; v.Index++ })
	testkit.Await(t, "it to stand there", func() bool { return rack() == "r2" })
}
