package solo

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headrace"
	"headrace/data/datatest"
	"headrace/disk"
	"headrace/internal/linux/cgroup"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/solo/journal"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// patience is how long a test waits for something that must happen.
const patience = time.Minute

// bed is a world with one daemon after the other on the same state directory.
type bed struct {
	t     *testing.T
	world *world
	cfg   Config
	boot  string
	wrap  func(recorder) recorder
	clock clock
	mem   memoryInfo
	view  func(headrace.View)
	space func(dir string) int64 // of stores; nil: what there is
	looks *atomic.Int64          // how often that was asked
	// comeBackTime is how long containers without a supervisor wait for their processes.
	comeBackTime time.Duration

	loop   *loop // of the present daemon; nil: it is a real one
	conn   *conn
	daemon *Daemon
	tasks  wireconnect.TaskServiceClient
	node   wireconnect.NodeServiceClient
	data   wireconnect.DataServiceClient
	stop   context.CancelFunc
	ended  chan error
}

func newBed(t *testing.T, pol policy.Name) *bed {
	t.Helper()
	return newBedIn(t, "", pol)
}

// newBedIn has the state directory in another one.
func newBedIn(t *testing.T, parent string, pol policy.Name) *bed {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "hr-solo-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bed{
		t: t, world: newWorld(dir), boot: "boot-1", looks: new(atomic.Int64),
		mem: memoryInfo{Total: 64 << 30, Available: 60 << 30, SwapTotal: 32 << 30, SwapFree: 32 << 30},
		cfg: Config{
			StateDir: dir, Slots: 1, CRIU: "/criu",
			Policy: policy.Config{Policy: pol, MinRun: policy.None},
		},
	}
	if testing.Verbose() {
		b.cfg.Log = slog.New(slog.NewTextHandler(testLog{t}, nil))
	}
	t.Cleanup(func() {
		b.shutdown()
		b.world.mu.Lock()
		defer b.world.mu.Unlock()
		for _, f := range b.world.faults {
			t.Error(f)
		}
	})
	return b
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// start runs a daemon and returns when it answers.
func (b *bed) start() {
	b.t.Helper()
	if err := b.tryStart(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) tryStart() error {
	b.conn = &conn{world: b.world}
	return b.startWith(b.conn)
}

func (b *bed) startWith(c *conn) error {
	b.conn, b.world.boot = c, b.boot
	clk := b.clock
	if clk == nil {
		clk = systemClock{}
	}
	wrap := b.wrap
	if wrap == nil {
		wrap = func(j recorder) recorder { return j }
	}
	cfg := b.cfg.Policy
	d, err := newDaemon(b.cfg, parts{
		runtime: c, images: fakeImages{c}, clock: clk, boot: b.boot, tick: 5 * time.Millisecond, stopWait: 100 * time.Millisecond, comeBack: b.comeBackTime,
		journal: func(j recorder) recorder { return wrap(severed{j, c}) },
		memory:  func() (memoryInfo, error) { return b.mem, nil },
		cache:   datatest.OpenCache,
		cgroups: func(l *loop) (*cgroup.Base, error) {
			b.loop = l
			space := b.space
			if space == nil {
				space = l.stores.Space
			}
			l.stores.Space = func(dir string) int64 { b.looks.Add(1); return space(dir) }
			return nil, nil
		},
		meter: func() (*disk.Meter, error) { return disk.NewMeter(disk.MeterOptions{NoBPF: true}) },
		policy: func(v headrace.View, explain bool) ([]headrace.Order, []policy.Note) {
			if b.view != nil {
				b.view(v)
			}
			b.world.noteCPUs(v)
			return policy.Explain(v, cfg)
		},
	})
	if err != nil {
		return err
	}
	return b.serve(d)
}

// serve runs d and returns when it answers.
func (b *bed) serve(d *Daemon) error {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	select {
	case err := <-ended:
		stop()
		return err
	case <-d.Ready():
	}
	b.daemon = d
	b.stop, b.ended = stop, ended
	client := wire.NewHTTPClient(d.Socket())
	b.tasks = wireconnect.NewTaskServiceClient(client, wire.BaseURL)
	b.node = wireconnect.NewNodeServiceClient(client, wire.BaseURL)
	b.data = wireconnect.NewDataServiceClient(client, wire.BaseURL)
	return nil
}

// watchView has f see every view that the next daemon's policy gets.
func (b *bed) watchView(f func(headrace.View)) { b.view = f }

// noteCPUs lets the world know what tasks ask for.
func (w *world) noteCPUs(v headrace.View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range v.Tasks {
		w.cpus[t.ID] = t.CPUs
	}
}

// shutdown ends the daemon properly.
func (b *bed) shutdown() {
	b.t.Helper()
	if b.stop == nil {
		return
	}
	b.stop()
	select {
	case err := <-b.ended:
		if err != nil && !errors.Is(err, errDead) {
			b.t.Error("the daemon ended with:", err)
		}
	case <-time.After(patience):
		b.t.Error("the daemon does not end")
	}
	if b.loop != nil && !b.loop.driver.wait(patience) { // what it still did would be taken for the next one's
		b.t.Error("what the daemon did in the background does not end")
	}
	b.stop = nil
}

// crash ends the daemon as kill -9 would: from one moment to the next nothing
// that it does has an effect.
func (b *bed) crash() {
	b.t.Helper()
	b.conn.cut()
	b.shutdown()
}

func (b *bed) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// run submits a task that "runs" until the test ends it.
func (b *bed) run(p headrace.Priority, change ...func(*wire.RunRequest)) headrace.TaskID {
	b.t.Helper()
	q := &wire.RunRequest{Argv: []string{"work"}, Priority: uint32(p), Restart: wire.Restart_RESTART_ON_LOSS}
	for _, c := range change {
		c(q)
	}
	r, err := b.tasks.Run(b.ctx(), q)
	if err != nil {
		b.t.Fatal("run:", err)
	}
	return headrace.TaskID(r.Id)
}

func (b *bed) get(id headrace.TaskID) *wire.Task {
	b.t.Helper()
	t, err := b.tasks.Get(b.ctx(), &wire.GetRequest{Id: string(id)})
	if err != nil {
		b.t.Fatal("get:", err)
	}
	return t
}

// await waits until the task satisfies a condition.
func (b *bed) await(id headrace.TaskID, what string, ok func(*wire.Task) bool) *wire.Task {
	b.t.Helper()
	if t := b.get(id); ok(t) { // Watch may end at once with an ended task
		return t
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := b.tasks.Watch(ctx, &wire.WatchRequest{Id: string(id)})
	if err != nil {
		b.t.Fatal("watch:", err)
	}
	defer stream.Close()
	var last *wire.Task
	for stream.Receive() {
		for _, t := range stream.Msg().Tasks {
			if last = t; ok(t) {
				return t
			}
		}
	}
	b.t.Fatalf("task %s never was %s; last: %v (%v)", id, what, last, stream.Err())
	return nil
}

// awaitState waits until the task is in a state and nothing is done to it.
func (b *bed) awaitState(id headrace.TaskID, s headrace.TaskState) *wire.Task {
	b.t.Helper()
	return b.await(id, s.String(), func(t *wire.Task) bool { return t.State == s.String() && t.Doing == "" })
}

// pass sets the clock of the daemon on. To that a look at the store that is under way then takes as long, and the store is not there until
// it ends: a later look is awaited.
func (b *bed) pass(clk *fakeClock, d time.Duration) {
	b.t.Helper()
	clk.advance(d, d)
	before := b.looks.Load()
	testkit.Await(b.t, "another look at the store", func() bool { return b.looks.Load() >= before+2 })
}

// finish ends a running task's command.
func (b *bed) finish(id headrace.TaskID, code int) {
	b.t.Helper()
	if !b.world.finish(id, code) {
		b.t.Fatalf("task %s does not run", id)
	}
}

func held(q *wire.RunRequest)  { q.Held = true }
func never(q *wire.RunRequest) { q.Restart = wire.Restart_RESTART_NEVER }

// errDead is what the journal of a dead daemon returns.
var errDead = errors.New("killed by the test")

// severed is a journal in which a daemon that is dead writes nothing.
type severed struct {
	recorder
	c *conn
}

func (s severed) Commit(b journal.Batch) error {
	if s.c.dead() {
		return errDead
	}
	return s.recorder.Commit(b)
}

// mortal is a journal whose daemon dies at a given commit, before or after it
// is written.
type mortal struct {
	recorder
	mu      sync.Mutex
	left    int // commits until the death; negative: it lives
	written bool
	dies    func()
}

func (m *mortal) Commit(b journal.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left < 0 {
		return m.recorder.Commit(b)
	}
	if m.left > 0 {
		m.left--
		return m.recorder.Commit(b)
	}
	if m.written {
		if err := m.recorder.Commit(b); err != nil {
			return err
		}
	}
	m.dies()
	return errDead
}
