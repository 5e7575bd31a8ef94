package names

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/meta"
	"headrace/quorum"
	"headrace/ring"
)

// TestVersionsAreNoted: whoever adds a version of commands, or an event, is reminded that not all nodes know it: see the versions of this package.
func TestVersionsAreNoted(t *testing.T) {
	if commands[newest-1] != meta.Newest {
		t.Errorf("commands of package meta have version %d, and those of the newest version here %d: there has to be another one", meta.Newest, commands[newest-1])
	}
	known := strings.Fields("Abandon Back Confirm Down Drain Fill Join Level Lost Out Remove Weigh") // from the first version on
	for name := range events {
		if eventSince[name] == 0 && !slices.Contains(known, name) {
			t.Errorf("ring.%s: from which version on is it understood?", name)
		}
	}
}

// machineOf opens a state with a program that understands a version.
func machineOf(t *testing.T, s *memory, knows uint32) *machine {
	t.Helper()
	m, err := newMachine(s, knows, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// stateOf is a state in which a version is in force.
func stateOf(t *testing.T, version uint32) *memory {
	t.Helper()
	s := &memory{state: &writes{}, die: func(string) {}}
	r, err := firstView(Member{Name: "one"}, version, 1, 8, 3)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range firstKeys().Scan(nil, end) {
		s.state.Set(string(k), v)
	}
	s.state.Set(string(viewKey), r.encode())
	return s
}

func raised(t *testing.T, index uint64, to uint32, nodes ...string) quorum.Entry {
	t.Helper()
	b, err := encodeRaise(raise{to, nodes})
	if err != nil {
		t.Fatal(err)
	}
	return quorum.Entry{Index: index, Data: b}
}

// TestRaise: a version is in force from a command on, of which no node may be left out that is there; it is none of those that an older program applies, starts with, or takes
// over from others.
func TestRaise(t *testing.T) {
	knowsMore(t)
	s := stateOf(t, version1)
	m := machineOf(t, s, version2)
	if v := m.agreed(); v.Version != version1 || v.Encode()[0] != version1 || v.Members["one"].Version != 0 {
		t.Errorf("%+v", v)
	}
	answer := func(e quorum.Entry) error {
		t.Helper()
		answers, err := m.Apply([]quorum.Entry{e})
		if err != nil {
			t.Fatal(err)
		}
		_, err = decodeAnswer(answers[0])
		return err
	}
	if err := answer(raised(t, 1, version2, "two")); !errors.Is(err, ring.ErrState) || !strings.Contains(err.Error(), "whether node one understands version 2 is not known") {
		t.Errorf("%v", err)
	}
	if err := errors.Join(answer(raised(t, 2, version2, "one", "two")), answer(raised(t, 3, version1, "one"))); err != nil { // it is never lowered
		t.Error(err)
	}
	v := m.agreed()
	if v.Version != version2 || v.Index != 2 || v.Encode()[0] != version2 {
		t.Errorf("%+v", v)
	}
	for version, want := range map[uint32]error{0: ErrOld, version1: ErrOld, version2: nil, 7: nil} {
		b, _ := encodeMember(Member{Name: "two", Version: version})
		if err := answer(quorum.Entry{Index: m.agreed().Index + 5, Data: b}); !errors.Is(err, want) {
			t.Errorf("a node that understands %d: %v", version, err)
		}
	}
	if _, err := m.Apply([]quorum.Entry{makes(40), raised(t, 41, 3, "one", "two"), makes(42)}); !errors.Is(err, errNewer) || !strings.Contains(err.Error(), "install the version of the other nodes here") ||
		!strings.Contains(err.Error(), "it takes version 3, and this program understands 2") {
		t.Errorf("%v", err)
	}

	third := stateOf(t, 3)
	if _, err := newMachine(third, version2, testLog(t)); !errors.Is(err, ErrOld) || !strings.Contains(err.Error(), "version 3 is in force, and this one understands 2") {
		t.Errorf("it starts: %v", err)
	}
	sends, err := machineOf(t, third, 3).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer sends.Close()
	before := s.state
	if err := machineOf(t, s, version2).Restore(30, sends); !errors.Is(err, ErrOld) {
		t.Errorf("it takes over a state of the third version: %v", err)
	}
	if s.state != before {
		t.Error("what it had is gone")
	}
}

// TestOldWays: a program of the second version goes on with a file system of the first one. It writes commands and views as nodes of that know them, refuses what they do not
// know, and goes back to the older program; until the version is raised.
func TestOldWays(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	t.Cleanup(func() { understood = "" })
	var g *Group
	run := func(knows string) {
		t.Helper()
		if g != nil {
			g.Close()
			g.machine.store.(bolted).db.Close()
		}
		understood = knows
		g, _ = start(t, dir)
	}
	y := meta.Command{Caller: person, Op: &meta.Survey{Path: simDir, Number: 1}}
	var logged []byte
	for i, knows := range []string{"1", "2", "1", "2"} {
		run(knows)
		g.machine.applied = func(_ uint64, data, _ []byte) { logged = data }
		if _, err := g.command(ctx, y); err != nil || logged[0] != kindMeta || logged[1] != 6 {
			t.Errorf("start %d: version %v, %v", i, logged[:2], err)
		}
		if _, err := g.ChangeRing(ctx, ring.Rack{Node: "one", Rack: "r2"}); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "it takes version 2, and 1 is in force") {
			t.Errorf("start %d: %v", i, err)
		}
		if v, _, err := g.Admit(ctx, Member{Name: "one", Peer: uint16(i + 1)}); err != nil || v.Version != version1 || v.Members["one"].Version != 0 || v.Encode()[0] != version1 {
			t.Errorf("start %d: %+v, %v", i, v, err)
		}
	}
	if _, err := g.propose(ctx, newestMeta(y)); !errors.Is(err, ErrVersion) {
		t.Errorf("%v", err)
	}
	nobody := func(string) (uint32, bool) { t.Error("somebody is asked"); return 0, false }
	for i, want := range []bool{true, false} {
		if v, raised, err := g.Raise(ctx, nobody, false); err != nil || raised != want || v.Version != version2 {
			t.Errorf("time %d: %+v, %t, %v", i, v, raised, err)
		}
	}
	if _, err := g.command(ctx, y); err != nil || logged[1] != 7 {
		t.Errorf("version %v, %v", logged[:2], err)
	}
	if v, err := g.ChangeRing(ctx, ring.Rack{Node: "one", Rack: "r2"}); err != nil {
		t.Errorf("%+v, %v", v, err)
	}
	if v, _, err := g.Admit(ctx, Member{Name: "one"}); err != nil || v.Members["one"].Version != version2 {
		t.Errorf("%+v, %v", v, err)
	}
	g.Close()
	g.machine.store.(bolted).db.Close()
	understood = "1"
	if again, err := Open(Config{DB: database(t, dir).db, Dir: filepath.Join(dir, "log"), Self: "one", Send: func(quorum.Message) {}, Now: time.Now, Log: testLog(t)}); !errors.Is(err, ErrOld) {
		again.Close()
		t.Errorf("it starts: %v", err)
	}
}

// TestAdmittedBesideARaise: what a node understands counts by the version that is in force when it is admitted, also when another one was when that was asked for.
func TestAdmittedBesideARaise(t *testing.T) {
	ctx := context.Background()
	t.Cleanup(func() { understood = "" })
	understood = "1"
	dir := t.TempDir()
	g, _ := start(t, dir)
	g.Close()
	g.machine.store.(bolted).db.Close()
	understood = ""
	g, _ = start(t, dir)
	before := g.View()
	if _, raised, err := g.Raise(ctx, nil, false); err != nil || !raised || before.Version != version1 {
		t.Fatalf("%+v, %t, %v", before, raised, err)
	}
	if _, _, err := g.admit(ctx, before, Member{Name: "old", Version: version1}); !errors.Is(err, ErrOld) {
		t.Errorf("one that is too old: %v", err)
	}
	if v, number, err := g.admit(ctx, before, Member{Name: "new", Version: version2}); err != nil || number == 0 || v.Members["new"].Version != version2 {
		t.Errorf("one that is not: %+v, %d, %v", v, number, err)
	}
}

// TestAdmittedBesideARemoval: a member that was removed is not entered anew by a command that was to note where it is.
func TestAdmittedBesideARemoval(t *testing.T) {
	g, _ := start(t, t.TempDir())
	ctx := context.Background()
	_, number, err := g.Admit(ctx, Member{Name: "two"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.ChangeRing(ctx, ring.Drain{Node: "two"}); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "it to have no seat, and to be removed", func() bool { _, err := g.ChangeRing(ctx, ring.Remove{Node: "two"}); return err == nil })
	if v, _, err := g.Admit(ctx, Member{Name: "two", Number: number, Peer: 7}); !errors.Is(err, ring.ErrUnknown) || v.Members["two"].Name != "" {
		t.Errorf("%+v, %v", v.Members, err)
	}
	if _, again, err := g.Admit(ctx, Member{Name: "two"}); err != nil || again == number { // one that says of no number is new
		t.Errorf("%d, %v", again, err)
	}
}
