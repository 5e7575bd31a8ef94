package limits

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/config"
	"headrace/internal/accounts"
)

func parsed(t *testing.T, text string) *config.File {
	t.Helper()
	f, err := config.Parse("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var groupIDs = map[string]uint32{"staff": 50, "ops": 60, "zero": 0}

// directory knows the groups of groupIDs and these users.
type directory map[string]uint32

func (d directory) User(name string) (accounts.Account, error) {
	if uid, ok := d[name]; ok {
		return accounts.Account{Name: name, UID: uid}, nil
	}
	return accounts.Account{}, errors.New("no such user")
}

func (directory) Group(name string) (uint32, error) {
	if id, ok := groupIDs[name]; ok {
		return id, nil
	}
	return 0, errors.New("no such group")
}

var lookUp = directory{"alice": 6, "bob": 8, "carl": 9}

func table(t *testing.T, text string, flags ...string) *Table {
	t.Helper()
	tab, warnings, err := Read(parsed(t, text), "f", flags, lookUp)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	return tab
}

const example = `
[limits]
waiting = 500
memory = 4G
[limits group staff]
waiting = 1000
priority = 9
slots = 2
[limits group ops]
priority = production
slots = none
running = 3
[limits user alice]
waiting = none
[limits user 7]
slots = 0.5
`

// A user counts before groups, groups before all, key by key; of groups the most
// generous counts.
func TestPrecedence(t *testing.T) {
	tab := table(t, example)
	all := Default("").Of(Who{})
	cases := []struct {
		name string
		who  Who
		want func(l *Limits)
	}{
		{"a stranger", Who{UID: 5, Name: "eve", GID: 5}, func(l *Limits) {}},
		{"staff", Who{UID: 5, Name: "eve", GID: 50}, func(l *Limits) { l.Waiting, l.Priority, l.Slots = 1000, 9, 2 }},
		{"staff and ops", Who{UID: 5, Name: "eve", GID: 5, Groups: []uint32{60, 50}}, func(l *Limits) {
			l.Waiting, l.Priority, l.Slots, l.Running = 1000, headrace.Production, math.Inf(1), 3
		}},
		{"alice of staff", Who{UID: 6, Name: "alice", GID: 50}, func(l *Limits) { l.Waiting, l.Priority, l.Slots = None, 9, 2 }},
		{"a user by number", Who{UID: 7, Name: "carol", GID: 50}, func(l *Limits) { l.Waiting, l.Priority, l.Slots = 1000, 9, 0.5 }},
	}
	for _, c := range cases {
		want := all
		want.Waiting, want.Memory = 500, 4<<30
		c.want(&want)
		if got := tab.Of(c.who); got != want {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
	}
}

func TestFlagsCountBeforeTheFile(t *testing.T) {
	tab := table(t, example, "waiting=7", "user:alice:waiting=8", "user:bob:priority=low", "group:ops:running=9")
	for name, want := range map[string]int64{"eve": 7, "alice": 8, "bob": 7} {
		if got := tab.Of(Who{UID: 5, Name: name}).Waiting; got != want {
			t.Errorf("%s: %d waiting, want %d", name, got, want)
		}
	}
	if got := tab.Of(Who{UID: 5, Name: "bob", GID: 60}); got.Priority != headrace.Low || got.Running != 9 {
		t.Errorf("bob: %+v", got)
	}
}

func TestNothingSaid(t *testing.T) {
	tab, _, err := Read(nil, "f", nil, lookUp)
	if err != nil {
		t.Fatal(err)
	}
	l := tab.Of(Who{UID: 5, Name: "eve"})
	if l.Priority >= headrace.Production || l.Waiting <= 0 || l.Waiting > 50_000 || l.SpecBytes > 1<<30 || l.LogBytes == None || l.CheckpointBytes == None {
		t.Errorf("by default one user may shut out others: %+v", l)
	}
	if l.RefuseGrace("eve", "f", time.Hour) == nil || l.RefuseGrace("eve", "f", time.Minute) != nil {
		t.Errorf("by default one user may keep a task from giving way for %v", l.Grace)
	}
	if u := (Use{CheckpointBytes: l.CheckpointBytes - 5}); l.RefuseCheckpoint("eve", "f", 6, u) == nil || l.RefuseCheckpoint("eve", "f", 5, u) != nil {
		t.Errorf("checkpoints may hold %d bytes", l.CheckpointBytes)
	}
	if l.Slots < 1e9 || l.Running != None || l.Memory != None {
		t.Errorf("by default one user may not use an idle machine: %+v", l)
	}
}

func TestReadSaysAllThatIsWrong(t *testing.T) {
	bad := parsed(t, `[limits]
waitng = 3
waiting = many
waiting = -1
priority = urgent
slots = NaN
slots = -1
memory = much
grace = 5
grace = -1s
[limits everybody]
[limits user]
[limits user alice bob]
[limits host x]
`)
	_, _, err := Read(bad, "f", []string{"waiting", "user:waiting=3", "host:x:waiting=3", "wating=3", "waiting=x"}, lookUp)
	if err == nil {
		t.Fatal("accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{"f:2: waitng is unknown; did you mean waiting?", "f:3: waiting = many: want a number", "f:4:", "f:5: priority = urgent: want free",
		"f:6:", "f:7:", "f:8: memory = much: want a size", "f:9: grace = 5: want a time", "f:10: grace = -1s: want",
		"f:11: [limits everybody]: want", "f:12:", "f:13:", "f:14:",
		"--limit waiting: want KEY=VALUE", "--limit user:waiting=3:", "--limit host:x:waiting=3:", "--limit wating=3: wating is unknown; did", "--limit waiting=x:"}
	if len(lines) != len(want) {
		t.Fatalf("got %q", lines)
	}
	for i, w := range want {
		if !strings.HasPrefix(lines[i], w) {
			t.Errorf("got %q, want %q", lines[i], w)
		}
	}
}

// TestUnknownNames: what limits of a name forbid that nobody knows counts for all who may be
// meant, what they allow for nobody; and when somebody does, they hold for whom they are.
func TestUnknownNames(t *testing.T) {
	text := `[limits]
waiting = 500
[limits group ops]
waiting = 700
[limits group gone]
waiting = 100
priority = production
slots = 3
[limits  group  1234]
running = 9
[limits user ghost]
running = 1
waiting = none
`
	tab, unknown, err := Read(parsed(t, text), "f", []string{"group:lost:waiting=50", "user:alice:waiting=800"}, lookUp)
	if err != nil {
		t.Fatal(err)
	}
	if said := fmt.Sprint(unknown); len(unknown) != 3 || !strings.Contains(said, "f:5: ") || !strings.Contains(said, "f:11: ") || !strings.Contains(said, "--limit group:lost:waiting=50: ") {
		t.Errorf("unknown: %v", unknown)
	}
	check := func(name string, who Who, waiting int64, p headrace.Priority, slots float64, running int64) {
		t.Helper()
		l := tab.Of(who)
		if l.Waiting != waiting || l.Priority != p || l.Slots != slots || l.Running != running {
			t.Errorf("%s: %d waiting, %v, %v slots, %d running, want %d, %v, %v, %d", name, l.Waiting, l.Priority, l.Slots, l.Running, waiting, p, slots, running)
		}
	}
	eve, ops := Who{UID: 5, Name: "eve"}, Who{UID: 5, Name: "eve", GID: 60}
	nameless := Who{UID: 70012, Name: "70012", GID: 70012}
	check("eve", eve, 50, headrace.High, 3, None)
	check("ops, of whom something is said", ops, 700, headrace.High, 3, None)
	check("alice", Who{UID: 6, Name: "alice"}, 800, headrace.High, 3, None)
	check("a group by number", Who{UID: 5, Name: "eve", Groups: []uint32{1234}}, 50, headrace.High, 3, 9)
	check("one without a name", nameless, 50, headrace.High, 3, 1)

	groupIDs["gone"], groupIDs["lost"] = 99, 98
	defer func() { delete(groupIDs, "gone"); delete(groupIDs, "lost") }()
	before := tab
	if tab, unknown = tab.Resolve(directory{"ghost": 70012}); len(unknown) > 0 {
		t.Fatal(unknown)
	}
	check("eve, when all are known", eve, 500, headrace.High, math.Inf(1), None)
	check("gone", Who{UID: 5, Name: "eve", GID: 99}, 100, headrace.Production, 3, None)
	check("whose name was not known", nameless, None, headrace.High, math.Inf(1), 1)
	check("another without a name", Who{UID: 70013, Name: "70013"}, 500, headrace.High, math.Inf(1), None)
	if got := before.Of(eve).Waiting; got != 50 {
		t.Errorf("a table has changed: %d", got)
	}
}

func TestRefuse(t *testing.T) {
	l := Limits{Priority: headrace.High, Slots: 2, Memory: 1e9, Running: 5, Waiting: 10, SpecBytes: 1000}
	fits := Ask{Tasks: 1, Priority: headrace.High, CPUs: 2, Memory: 1e9, SpecBytes: 1000}
	if err := l.Refuse("alice", "f", fits, Use{Waiting: 9}); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if err := Unlimited().Refuse("root", "f", Ask{Tasks: 1e6, Priority: 11, CPUs: 1e6, Memory: 1 << 60, SpecBytes: 1 << 20}, Use{Waiting: 1e9, SpecBytes: 1 << 50}); err != nil {
		t.Errorf("root: %v", err)
	}
	cases := map[string]struct {
		ask func(*Ask)
		use Use
	}{
		"priority":   {ask: func(a *Ask) { a.Priority++ }},
		"slots":      {ask: func(a *Ask) { a.CPUs = 2.1 }},
		"memory":     {ask: func(a *Ask) { a.Memory++ }},
		"waiting":    {ask: func(a *Ask) { a.SpecBytes = 0 }, use: Use{Waiting: 10}},
		"spec-bytes": {ask: func(a *Ask) {}, use: Use{SpecBytes: 1}},
	}
	for key, c := range cases {
		ask := fits
		c.ask(&ask)
		err := l.Refuse("alice", "/etc/x", ask, c.use)
		var r *Refusal
		if !errors.As(err, &r) || r.Key != key {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if text := err.Error(); !strings.Contains(text, "(limit "+key+" of alice; root can raise it in /etc/x)") {
			t.Errorf("%s: it does not say who can raise it: %s", key, text)
		}
	}
	l.Running = 0
	if err := l.Refuse("alice", "f", fits, Use{}); err == nil {
		t.Error("who may run nothing may hand in")
	}
	many := fits
	many.Tasks, many.SpecBytes = 11, 0
	if err := l.Refuse("alice", "f", many, Use{}); err == nil {
		t.Error("11 of 10 at once")
	}
}

func TestRows(t *testing.T) {
	rows := table(t, example).Rows()
	if len(rows) != 6 || len(rows[0]) != keys+1 {
		t.Fatalf("%q", rows)
	}
	if got := strings.Join(rows[1], "|"); got != "everybody|high|none|4.3 GB|none|500|64.0 MB|10.0 GB|100 GB|1m0s" {
		t.Error(got)
	}
	if got := strings.Join(rows[3], "|"); got != "group ops|production|none||3|||||" {
		t.Error(got)
	}
}

func TestSource(t *testing.T) {
	s := NewSource(Default("a"))
	s.Replace(Default("b"))
	if got := s.Now().File(); got != "b" {
		t.Error(got)
	}
}
