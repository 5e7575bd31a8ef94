package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace/internal/testkit"
	"headrace/wire"
)

func stateOf(r *wire.NodeReport, id string) string {
	for _, t := range r.Tasks {
		if t.Id == id {
			return t.State
		}
	}
	return ""
}

func TestOrders(t *testing.T) {
	testkit.NoLeaks(t)
	f, h := newManager(t), newHost("c1", "c2")
	run(t, f, h, nil)
	f.until("joined and reported", func() bool { return f.joins == 1 && len(f.last().Tasks) == 2 && f.last().Info.GetSlots() == 2 })
	f.send(&wire.NodeOrder{Number: 7, Container: "c1", Command: wire.Command_COMMAND_SUSPEND}, &wire.NodeOrder{Number: 8, Container: "c9", Command: wire.Command_COMMAND_SUSPEND})
	f.until("both results", func() bool {
		good, _ := f.resultOf(7)
		bad, _ := f.resultOf(8)
		return good != nil && bad != nil
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	good, times := f.resultOf(7)
	bad, _ := f.resultOf(8)
	if good.Error != "" || times != 1 || !strings.Contains(bad.Error, "no container c9") {
		t.Errorf("results %v (%d times) and %v", good, times, bad)
	}
	for _, r := range f.reports {
		for _, o := range r.Results {
			if o.Number == 7 && stateOf(r, "c1") != "suspended" {
				t.Errorf("the result came with the state %s", stateOf(r, "c1"))
			}
		}
	}
}

// TestForeignText: a result whose text is not UTF-8, as names of files may be, is told like others.
func TestForeignText(t *testing.T) {
	f, h := newManager(t), newHost("c1")
	h.fail = errors.New("stat d/\xff: permission denied")
	run(t, f, h, nil)
	f.until("a report", func() bool { return len(f.reports) > 0 })
	f.send(&wire.NodeOrder{Number: 7, Container: "c1", Command: wire.Command_COMMAND_SUSPEND})
	f.until("the result, or a second attempt", func() bool { r, _ := f.resultOf(7); return r != nil || f.joins > 1 })
	f.mu.Lock()
	defer f.mu.Unlock()
	if r, _ := f.resultOf(7); r == nil || r.Error != "stat d/\uFFFD: permission denied" {
		t.Errorf("%v after joining %d times", r, f.joins)
	}
}

// TestChanges are reported at once, others every now and then.
func TestChanges(t *testing.T) {
	f, h := newManager(t), newHost("c1")
	run(t, f, h, func(c *Config) { c.timing.every = patience; c.timing.silent = 2 * patience })
	f.until("a report", func() bool { return len(f.reports) == 1 })
	h.set("c1", "suspended")
	f.until("the change", func() bool { return stateOf(f.last(), "c1") == "suspended" })
	f.send(&wire.NodeOrder{Number: 7, Container: "c1", Command: wire.Command_COMMAND_RESUME})
	f.until("the result", func() bool { _, n := f.resultOf(7); return n == 1 })
}

// TestPromises: which ends containers have told the manager says, and the host keeps.
func TestPromises(t *testing.T) {
	f, h := newManager(t), newHost("c1")
	f.ends = map[string]float64{"c1": 60}
	run(t, f, h, nil)
	f.until("reported", func() bool { r := f.last(); return len(r.Tasks) == 1 && r.Tasks[0].Promised == 60 })
}

// TestEnded: the end of a container is told until it was heard, and then no more.
func TestEnded(t *testing.T) {
	f, h := newManager(t), newHost("c1")
	f.refuse = connect.NewError(connect.CodeUnavailable, errors.New("not now"))
	run(t, f, h, nil)
	h.set("c1", "done")
	f.until("tried twice", func() bool { return f.joins > 2 })
	f.change(func() { f.refuse = nil })
	f.until("two reports", func() bool { return len(f.reports) >= 2 })
	f.mu.Lock()
	defer f.mu.Unlock()
	if stateOf(f.reports[0], "c1") != "done" || len(f.reports[1].Tasks) != 0 {
		t.Errorf("reports %v", f.reports[:2])
	}
}

// TestLostStream: an order that was begun is finished and told; one that comes again
// is not done again.
func TestLostStream(t *testing.T) {
	testkit.NoLeaks(t)
	f, h := newManager(t), newHost("c1")
	h.hold = make(chan struct{})
	_, log, _ := run(t, f, h, nil)
	f.until("a report", func() bool { return len(f.reports) > 0 })
	o := &wire.NodeOrder{Number: 7, Container: "c1", Command: wire.Command_COMMAND_SUSPEND}
	f.send(o)
	f.until("begun", func() bool { return h.times(7) == 1 })
	f.change(func() { f.end <- connect.NewError(connect.CodeUnavailable, errors.New("lost")) })
	f.until("joined again", func() bool { return f.joins == 2 })
	f.send(o, o)
	n := 0
	f.until("more reports", func() bool { n = len(f.reports); return true })
	f.until("more reports", func() bool { return len(f.reports) > n+1 })
	close(h.hold)
	f.until("the result", func() bool { r, _ := f.resultOf(7); return r != nil })
	if n := h.times(7); n != 1 {
		t.Errorf("the order was done %d times", n)
	}
	f.mu.Lock()
	numbers := map[uint64]bool{} // by which the manager tells apart those that come late
	for i, r := range f.reports {
		if r.Session == 0 || r.Session != f.session || numbers[r.Report] {
			t.Errorf("report %d has the number %d of %d, after joining as %d", i, r.Report, r.Session, f.session)
		}
		numbers[r.Report] = true
	}
	f.mu.Unlock()
	if log.count("level=WARN") != 1 || log.count("the manager is back") != 1 {
		t.Errorf("log:\n%s", log)
	}
}

// TestRestart: a manager that dies, also while orders are carried out, is found again;
// one line says that it is gone and one that it is back.
func TestRestart(t *testing.T) {
	testkit.NoLeaks(t)
	f, h := newManager(t), newHost("c1")
	h.hold = make(chan struct{})
	_, log, _ := run(t, f, h, nil)
	f.until("a report", func() bool { return len(f.reports) > 0 })
	f.send(&wire.NodeOrder{Number: 7, Container: "c1", Command: wire.Command_COMMAND_CHECKPOINT})
	f.until("begun", func() bool { return h.times(7) == 1 })
	f.stop()
	close(h.hold)
	testkit.Await(t, "the agent to notice", func() bool { return log.count("cannot be reached") > 0 })
	time.Sleep(4 * quick.most) // several attempts, of which nothing is to be seen
	f.start()
	f.until("the result", func() bool { r, _ := f.resultOf(7); return r != nil && stateOf(f.last(), "c1") == "checkpointed" })
	testkit.Await(t, "word of the return", func() bool { return log.count("is back") > 0 }, log)
	if log.count("level=WARN") != 1 || log.count("is back") != 1 {
		t.Errorf("log:\n%s", log)
	}
}

// TestSilentManager: a stream on which nothing comes is given up.
func TestSilentManager(t *testing.T) {
	testkit.NoLeaks(t)
	f, h := newManager(t), newHost("c1")
	run(t, f, h, func(c *Config) { c.timing.silent = 500 * time.Millisecond })
	f.until("a report", func() bool { return len(f.reports) > 0 })
	f.change(func() { f.mute = true })
	f.until("joined again", func() bool { return f.joins > 1 })
	f.change(func() { f.mute = false })
	n := 0
	f.until("", func() bool { n = len(f.reports); return true })
	f.until("reports again", func() bool { return len(f.reports) > n })
}

// TestSlowManager: a report that is not answered in time ends the session, and its
// results are told again.
func TestSlowManager(t *testing.T) {
	testkit.NoLeaks(t)
	f, h := newManager(t), newHost("c1")
	h.hold = make(chan struct{})
	run(t, f, h, func(c *Config) { c.timing.call = 100 * time.Millisecond })
	for end := time.Now().Add(patience); h.times(7) == 0 && time.Now().Before(end); { // on a machine that is busy the session may end at any moment
		f.until("a report", func() bool { return len(f.reports) > 0 })
		f.send(&wire.NodeOrder{Number: 7, Container: "c1", Command: wire.Command_COMMAND_SUSPEND})
		time.Sleep(10 * time.Millisecond)
	}
	slow := make(chan struct{})
	f.change(func() { f.slow = slow })
	close(h.hold)
	f.until("the result is told twice", func() bool { _, n := f.resultOf(7); return n >= 2 })
	f.change(func() { f.slow = nil })
	close(slow)
	// A report on a busy machine may be late once more. The first one without the result comes after one that was not.
	var n, told int
	f.until("the answer is known", func() bool { _, told = f.resultOf(7); n = len(f.reports); return len(f.last().Results) == 0 })
	f.until("more reports", func() bool { return len(f.reports) > n+2 })
	f.until("", func() bool { _, n = f.resultOf(7); return true })
	if n != told {
		t.Errorf("the result is told again after it was answered: %d times, then %d", told, n)
	}
}

func TestWrongToken(t *testing.T) {
	f, h := newManager(t), newHost("c1")
	_, log, stop := run(t, f, h, func(c *Config) { c.Token = "another one altogether" })
	testkit.Await(t, "word of the token", func() bool { return log.count("does not accept the token") > 0 }, log)
	time.Sleep(4 * quick.most)
	stop()
	if n := log.count("\n"); n != 1 || f.joins != 0 {
		t.Errorf("%d joins, log:\n%s", f.joins, log)
	}
}

func TestTwoOfOneName(t *testing.T) {
	f, h := newManager(t), newHost("c1")
	f.joining = connect.NewError(connect.CodeAborted, errors.New("another one"))
	_, log, stop := run(t, f, h, nil)
	f.until("tried again", func() bool { return f.joins > 2 })
	stop()
	if log.count("another node has this one's name") != 1 || log.count("\n") != 1 {
		t.Errorf("log:\n%s", log)
	}
}

// TestStop: the end of the agent ends the orders that are being carried out.
func TestStop(t *testing.T) {
	testkit.NoLeaks(t)
	f, h := newManager(t), newHost("c1")
	h.hold = make(chan struct{})
	_, _, stop := run(t, f, h, nil)
	f.until("a report", func() bool { return len(f.reports) > 0 })
	f.send(&wire.NodeOrder{Number: 7, Container: "c1", Command: wire.Command_COMMAND_CHECKPOINT})
	f.until("begun", func() bool { return h.times(7) == 1 })
	stop()
	if h.stopped != 1 {
		t.Error("the order was not ended")
	}
}

// TestManyOrders: thousands at once, each once; too many at once fail with a reason.
func TestManyOrders(t *testing.T) {
	f, h := newManager(t), newHost("c1")
	h.hold = make(chan struct{})
	run(t, f, h, nil)
	f.until("a report", func() bool { return len(f.reports) > 0 })
	const n = 1500
	var all []*wire.NodeOrder
	for i := range n {
		all = append(all, &wire.NodeOrder{Number: uint64(i + 1), Container: "c1", Command: wire.Command_COMMAND_SUSPEND})
	}
	f.send(all...)
	f.until("refusals", func() bool { r, _ := f.resultOf(n); return r != nil })
	close(h.hold)
	f.until("all results", func() bool {
		got := map[uint64]bool{}
		for _, r := range f.reports {
			for _, o := range r.Results {
				got[o.Number] = true
				if (o.Number > maxUnderWay) != strings.Contains(o.Error, "too many") {
					f.t.Errorf("%v", o)
				}
			}
		}
		return len(got) == n
	})
}

func TestSeenIsBounded(t *testing.T) {
	h := newHost("c1")
	o := newOrders(h, slog.New(slog.DiscardHandler))
	for i := range uint64(maxSeen + 100) {
		o.begin(&wire.NodeOrder{Number: i + 1, Container: "c1", Command: wire.Command_COMMAND_SUSPEND})
		o.work.Wait()
	}
	if len(o.seen) != maxSeen || len(o.recent) != maxSeen || o.seen[1] || !o.seen[maxSeen+100] {
		t.Errorf("%d numbers are remembered", len(o.seen))
	}
}

func TestApplication(t *testing.T) {
	f, h := newManager(t), newHost()
	f.have = []*wire.Container{
		{Id: "c1", Hosting: &wire.Hosting{Scheduler: "yarn", Application: "a1"}},
		{Id: "c2", Hosting: &wire.Hosting{Scheduler: "yarn", Application: "a2"}},
		{Id: "c3", Hosting: &wire.Hosting{Scheduler: "other", Application: "a1"}},
	}
	a, _, _ := run(t, f, h, func(c *Config) { c.Unclaimed = time.Hour })
	ask := func() ([]*wire.Container, error) {
		return a.Application(context.Background(), "ada", "yarn", "a1", true)
	}
	began := time.Now()
	for range 20 {
		got, err := ask()
		if err != nil || len(got) != 1 || got[0].Id != "c1" {
			t.Fatalf("%v, %v", got, err)
		}
	}
	f.mu.Lock()
	asked, told := f.asked, f.told
	f.mu.Unlock()
	if took := time.Since(began); asked > 1+int(took/quick.fresh) || told != 2*asked {
		t.Errorf("20 questions became %d in %v, and were answered with %d containers, not just those of the application", asked, took, told)
	}
	if got, err := a.Application(context.Background(), "ada", "yarn", "a2", true); err != nil || len(got) != 1 || got[0].Id != "c2" {
		t.Errorf("another application: %v, %v", got, err)
	}
	if got, err := a.Application(context.Background(), "ada", "yarn", "none", true); err != nil || len(got) != 0 {
		t.Errorf("one that has none: %v, %v", got, err)
	}
	// While the manager is away the last answer counts for as long as containers stay put aside without it.
	if got, err := ask(); err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	short, _, _ := run(t, f, h, func(c *Config) { c.Name, c.Unclaimed = "n2", 200*time.Millisecond })
	brief := func() ([]*wire.Container, error) {
		return short.Application(context.Background(), "ada", "yarn", "a1", true)
	}
	if got, err := brief(); err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	f.stop()
	testkit.Await(t, "the end of an old answer where containers go on soon", func() bool {
		got, err := brief()
		if len(got) == 0 && err == nil {
			t.Fatal("without the manager there is no container, and no error")
		}
		return len(got) == 0
	})
	testkit.Await(t, "an old answer with an error", func() bool {
		got, err := ask()
		if len(got) != 1 {
			t.Fatalf("without the manager: %v, %v", got, err)
		}
		return err != nil
	})
	f.start()
	testkit.Await(t, "an answer after its return", func() bool { got, err := ask(); return err == nil && len(got) == 1 })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	time.Sleep(2 * quick.fresh)
	if _, err := a.Application(ctx, "ada", "yarn", "a1", true); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
}

// TestEndedApplications: a node hears of which of some applications the manager knows that they have ended, of none from an older one.
func TestEndedApplications(t *testing.T) {
	f, h := newManager(t), newHost()
	a, _, _ := run(t, f, h, nil)
	for older, want := range map[bool][]string{false: {"application_1"}, true: nil} {
		f.change(func() { f.older = older })
		if got, err := a.Ended(t.Context(), []string{"application_1", "application_2"}); err != nil || !slices.Equal(got, want) {
			t.Errorf("older: %v: %q, %v", older, got, err)
		}
	}
	f.stop()
	if got, err := a.Ended(t.Context(), []string{"application_1"}); err == nil {
		t.Errorf("a manager that is away says %q", got)
	}
}

// TestSlowApplication: while a manager is slow to answer about one application the others' questions do not wait for that, and
// what is known is told; and an answer counts although whoever asked has gone.
func TestSlowApplication(t *testing.T) {
	f, h := newManager(t), newHost()
	f.have = []*wire.Container{
		{Id: "c1", Hosting: &wire.Hosting{Scheduler: "yarn", Application: "a1"}},
		{Id: "c2", Hosting: &wire.Hosting{Scheduler: "yarn", Application: "a2"}},
	}
	a, _, _ := run(t, f, h, func(c *Config) { c.timing.stale = patience })
	ask := func(ctx context.Context, application string) ([]*wire.Container, error) {
		return a.Application(ctx, "ada", "yarn", application, true)
	}
	ctx, gone := context.WithCancel(context.Background())
	defer gone()
	if got, err := ask(ctx, "a1"); err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	known := time.Now()
	var before int
	f.change(func() { f.hold = make(chan struct{}); before = f.asked })
	var asking sync.WaitGroup
	asking.Go(func() { ask(ctx, "a2") })
	f.until("asked about a2", func() bool { return f.asked == before+1 })
	testkit.Await(t, "an old answer", func() bool { return time.Since(known) > 2*quick.fresh })
	asking.Go(func() {
		if got, err := ask(ctx, "a1"); err != nil || len(got) != 1 {
			t.Errorf("one who has gone, and whose question was answered: %v, %v", got, err)
		}
	})
	f.until("asked about a1 meanwhile", func() bool { return f.asked == before+2 })
	second := make(chan error, 1)
	third, left := context.WithCancel(context.Background())
	asking.Go(func() {
		got, err := ask(third, "a1")
		if err == nil && len(got) != 1 {
			err = fmt.Errorf("%v", got)
		}
		second <- err
	})
	left()
	if err := <-second; err != nil {
		t.Errorf("another who does not wait: %v", err)
	}
	gone()
	f.change(func() { close(f.hold); f.hold = nil })
	asking.Wait()
	a.apps.mu.Lock()
	defer a.apps.mu.Unlock()
	if got := a.apps.all[question{"a2", true}].containers; len(got) != 1 {
		t.Errorf("the answer about a2, whose caller had gone, is not kept: %v", got)
	}
}

// TestOneAccountAsks: an account that asks about many applications, also about those of others, takes no more than half of
// what the manager is asked at a time; another's question waits for none of its.
func TestOneAccountAsks(t *testing.T) {
	f, h := newManager(t), newHost()
	f.hold = make(chan struct{})
	a, _, _ := run(t, f, h, nil)
	var asking sync.WaitGroup
	ask := func(user, application string) {
		asking.Go(func() { a.Application(context.Background(), user, "yarn", application, true) })
	}
	for i := range 4 * mostAsking {
		ask("eve", fmt.Sprint("none", i))
	}
	f.until("asked by eve", func() bool { return f.asked == mostOfOne })
	ask("eve", "a1")
	testkit.Await(t, "eve to wait for a1", func() bool {
		a.apps.mu.Lock()
		defer a.apps.mu.Unlock()
		return len(a.apps.asking) == 4*mostAsking+1
	})
	ask("ada", "a1")
	f.until("asked by ada", func() bool { return f.asked == mostOfOne+1 && slices.Contains(f.names, "a1") })
	f.change(func() { close(f.hold); f.hold = nil })
	asking.Wait()
}

func TestProgress(t *testing.T) {
	f, h := newManager(t), newHost()
	a, _, _ := run(t, f, h, nil)
	a.Progress("ada", map[string]float64{"c1": 0.2, "c2": 0.5})
	told := map[string]float64{}
	f.until("told of both", func() bool {
		for _, r := range f.reports {
			for _, p := range r.Progress {
				if told[p.Container] = p.Share; p.User != "ada" {
					t.Errorf("by the word of %q", p.User)
				}
			}
		}
		return len(told) == 2
	})
	f.until("silent about it", func() bool { return len(f.last().Progress) == 0 })
	if told["c1"] != 0.2 || told["c2"] != 0.5 {
		t.Errorf("told: %v", told)
	}
	many := map[string]float64{}
	for i := range mostProgress + 1 {
		many[fmt.Sprint(i)] = 0.1
	}
	kept := new(Agent)
	kept.Progress("ada", many)
	kept.Progress("bob", map[string]float64{"1": 0.2, "no name": 0.3})
	if n := len(kept.apps.told.take()); n != mostProgress/2+1 {
		t.Errorf("of one user who tells much and one who tells little %d are kept", n)
	}
}

func TestConfigErrors(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := Config{Manager: "http://h:1", Token: testToken, Name: "n1"}
	for want, change := range map[string]func(*Config){
		"https://HOST:PORT": func(c *Config) { c.Manager = "h:1" },
		"http://HOST:PORT":  func(c *Config) { c.Manager = "http://h:1/path" },
		"no token":          func(c *Config) { c.Token = "" },
		"no name":           func(c *Config) { c.Name = "" },
		"--name":            func(c *Config) { c.Name = "a b" },
		"at most 255":       func(c *Config) { c.Name = strings.Repeat("x", 300) },
		"names a user":      func(c *Config) { c.Manager = "http://ada:secret@h:1" },
		`"http://h:99999"`:  func(c *Config) { c.Manager = "http://h:99999" },
		"are for https":     func(c *Config) { c.CA = empty },
		"there are none":    func(c *Config) { c.Manager, c.CA = "https://h:1", empty },
		"no such file":      func(c *Config) { c.Manager, c.CA = "https://h:1", filepath.Join(dir, "none") },
	} {
		c := good
		change(&c)
		if _, err := New(c, newHost()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestBackoff(t *testing.T) {
	b := backoff{first: 100 * time.Millisecond, most: 5 * time.Second}
	want := b.first
	for range 20 {
		if d := b.next(); d < want/2 || d > want {
			t.Errorf("%v, want up to %v", d, want)
		}
		want = min(2*want, b.most)
	}
	b.reset()
	if d := b.next(); d > b.first {
		t.Errorf("%v after a reset", d)
	}
}
