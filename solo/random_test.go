package solo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"headrace"
	"headrace/policy"
	"headrace/wire"
)

// TestRandom lets clients, tasks, supervisors and the machine do what they like
// and kills the daemon again and again, between any two of its effects and
// commits. The oracle knows little, and that is what must hold: what was
// accepted is there, what was said to have ended stays so, what a user was told
// is suspended is, no task has two supervisors, no more tasks run than there are
// slots, and in the end every task ends.
func TestRandom(t *testing.T) { atRandom(t, 0, 4) }

// TestRandomFurther does so with more seeds. It is a test of its own because scripts/test has the race detector watch
// the first four only: watched, the others take seven times as long.
func TestRandomFurther(t *testing.T) {
	to := uint64(40)
	if testing.Short() {
		to = 6
	}
	atRandom(t, 4, to)
}

func atRandom(t *testing.T, from, to uint64) {
	for seed := from; seed < to; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			newChaos(t, seed).run()
		})
	}
}

// fastClock makes pauses between attempts short.
type fastClock struct{ systemClock }

func (c fastClock) boot() time.Duration { return 20 * c.systemClock.boot() }

type chaos struct {
	*bed
	r      *rand.Rand
	oracle map[headrace.TaskID]*known
	ids    []headrace.TaskID
	deaths int
	gate   atomic.Pointer[gate]
	// dying is closed when the present daemon has been killed.
	dying chan struct{}
}

// inMemory returns a directory where nothing waits for a disk, if there is one: daemons write their journals
// thousands of times. It does not matter to what is killed in this process where they are.
func inMemory() string {
	const dir = "/dev/shm"
	if unix.Access(dir, unix.W_OK) != nil {
		return ""
	}
	return dir
}

// known is what has been acknowledged of a task.
type known struct {
	mayRestart bool
	harmed     bool   // its supervisor or the machine was killed
	final      string // state in which it was seen to have ended
	forgotten  bool
	held       string // state in which a user was told that it is held
}

func newChaos(t *testing.T, seed uint64) *chaos {
	b := newBedIn(t, inMemory(), policy.Cost)
	b.cfg.Slots = 2
	b.world.slots = 2
	b.clock = fastClock{}
	return &chaos{bed: b, r: rand.New(rand.NewPCG(seed, 7)), oracle: map[headrace.TaskID]*known{}}
}

func (c *chaos) run() {
	c.live()
	for range 150 {
		c.step()
		if c.isDead() {
			c.buryAndRaise()
		}
	}
	c.raiseForGood()
	c.finishAll()
}

// live starts a daemon that will die at a random point.
func (c *chaos) live() {
	for range 100 {
		c.cfg.Policy.Policy = policy.Names()[c.r.IntN(len(policy.Names()))]
		dying := make(chan struct{})
		c.dying = dying
		con := &conn{world: c.world}
		var once sync.Once
		die := func() { once.Do(func() { con.cut(); close(dying) }) }
		c.wrap = func(j recorder) recorder {
			return &mortal{recorder: j, left: c.r.IntN(60), written: c.r.IntN(2) == 0, dies: die}
		}
		var mu sync.Mutex
		left := c.r.IntN(400)
		count := func(string, headrace.TaskID) error {
			mu.Lock()
			defer mu.Unlock()
			if left--; left < 0 {
				die()
				return errCut
			}
			return nil
		}
		con.before, con.after = func(op string, id headrace.TaskID) error {
			if op == "remove" {
				c.passGate()
			}
			return count(op, id)
		}, count
		if c.startWith(con) == nil {
			return
		}
		c.deaths++
	}
	c.t.Fatal("no daemon lives to see its start")
}

func (c *chaos) isDead() bool {
	select {
	case <-c.dying:
		return true
	default:
		return false
	}
}

// buryAndRaise starts the next daemon, sometimes after a reboot.
func (c *chaos) buryAndRaise() {
	c.deaths++
	c.crash()
	c.misfortune()
	c.live()
	c.check()
}

func (c *chaos) misfortune() {
	if c.r.IntN(6) == 0 {
		c.world.reboot()
		c.boot = fmt.Sprint("boot-", c.deaths)
		for _, k := range c.oracle {
			k.harmed = true
			if k.held == "suspended" {
				k.held = ""
			}
		}
	}
}

func (c *chaos) raiseForGood() {
	c.crash()
	c.wrap = nil
	c.start()
	c.check()
}

func (c *chaos) any() headrace.TaskID {
	if len(c.ids) == 0 {
		return "t0"
	}
	return c.ids[c.r.IntN(len(c.ids))]
}

func (c *chaos) step() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// A request that meets the death of the daemon gets no answer.
	go func(dying <-chan struct{}) {
		select {
		case <-dying:
			cancel()
		case <-ctx.Done():
		}
	}(c.dying)
	id := c.any()
	k := c.oracle[id]
	q := &wire.VerbRequest{Id: string(id)}
	defer func() {
		if ctx.Err() == context.DeadlineExceeded {
			c.t.Error("a request got no answer")
		}
	}()
	switch n := c.r.IntN(20); {
	case n < 6:
		c.submit(ctx)
	case n < 10:
		c.world.finish(id, c.r.IntN(2))
	case n == 10 && k != nil:
		k.harmed = true
		if k.held == "suspended" {
			k.held = ""
		}
		c.world.vanish(id)
	case n < 13:
		if k != nil {
			k.held = "" // until there is an answer
		}
		if got, err := c.tasks.Suspend(ctx, q); err == nil {
			c.nowHeld(k, got)
		}
	case n < 15:
		if k != nil {
			k.held = ""
		}
		if got, err := c.tasks.Checkpoint(ctx, q); err == nil {
			c.nowHeld(k, got)
		}
	case n < 17:
		if k != nil {
			k.held = ""
		}
		c.tasks.Resume(ctx, q)
	case n == 18:
		if k != nil {
			k.held = ""
		}
		if _, err := c.tasks.Kill(ctx, q); err == nil {
			k.final = "killed"
		}
	default:
		if n == 19 && k != nil && !k.mayRestart {
			c.lose(ctx, k, q)
		}
		if now, err := c.tasks.Get(ctx, &wire.GetRequest{Id: string(id)}); k != nil && err == nil && finalState(now.State) {
			c.forget(ctx, k, q)
		}
	}
}

// lose has a task vanish that could be restored from its checkpoint, mostly.
func (c *chaos) lose(ctx context.Context, k *known, q *wire.VerbRequest) {
	k.harmed, k.held = true, ""
	c.tasks.Checkpoint(ctx, q)
	c.tasks.Restore(ctx, q)
	c.world.vanish(headrace.TaskID(q.Id))
	c.submit(ctx) // when that is answered it mostly is lost
}

// gate is where a removal waits while others ask for something.
type gate struct{ began, goOn chan struct{} }

func (c *chaos) passGate() {
	if g := c.gate.Swap(nil); g != nil {
		close(g.began)
		<-g.goOn
	}
}

// forget asks for more of the task while it is being forgotten. It does not matter what comes of it.
func (c *chaos) forget(ctx context.Context, k *known, q *wire.VerbRequest) {
	k.forgotten, k.held = true, "" // also when nobody has said so yet
	g := &gate{make(chan struct{}), make(chan struct{})}
	c.gate.Store(g)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		c.tasks.Forget(ctx, q)
	}()
	select {
	case <-g.began:
	case <-answered:
	}
	var asking sync.WaitGroup
	for range c.r.IntN(3) {
		ask := []func(context.Context, *wire.VerbRequest) (*wire.Task, error){
			c.tasks.Restore, c.tasks.Resume, c.tasks.Kill, c.tasks.Suspend,
		}[c.r.IntN(4)]
		asking.Go(func() { ask(ctx, q) })
	}
	c.submit(ctx) // when that is answered the others mostly wait
	close(g.goOn)
	asking.Wait()
	<-answered
	c.gate.Store(nil)
}

func (c *chaos) submit(ctx context.Context) {
	q := &wire.RunRequest{
		Argv: []string{"work"}, Priority: uint32(c.r.IntN(12)), Cpus: []float64{0.5, 1, 2}[c.r.IntN(3)],
		Restart: wire.Restart(c.r.IntN(2)),
	}
	r, err := c.tasks.Run(ctx, q)
	if err != nil {
		return
	}
	id := headrace.TaskID(r.Id)
	if c.oracle[id] != nil {
		c.t.Fatalf("id %s was given twice", id)
	}
	c.oracle[id] = &known{mayRestart: q.Restart == wire.Restart_RESTART_ON_LOSS}
	c.ids = append(c.ids, id)
}

func (c *chaos) nowHeld(k *known, got *wire.Task) {
	if !got.Held {
		c.t.Errorf("task %s was to be held: %v", got.Id, got)
	}
	if got.State == "suspended" || got.State == "checkpointed" || got.State == "pending" {
		k.held = got.State
	}
}

// check compares what the daemon says with the oracle.
func (c *chaos) check() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := c.tasks.List(ctx, &wire.ListRequest{All: true})
	if err != nil {
		if c.isDead() {
			return
		}
		c.t.Fatal("list:", err)
	}
	listed := map[headrace.TaskID]*wire.Task{}
	for _, task := range res.Tasks {
		listed[headrace.TaskID(task.Id)] = task
	}
	for id, k := range c.oracle {
		got := listed[id]
		switch {
		case got == nil && !k.forgotten:
			c.t.Errorf("task %s was accepted and is not there", id)
		case got == nil:
		case k.final != "" && got.State != k.final:
			c.t.Errorf("task %s had ended as %s and is now %s", id, k.final, got.State)
		case k.held != "" && !finalState(got.State) && (!got.Held || got.State != k.held):
			c.t.Errorf("task %s was %s and held by a user and is now %s, held %v", id, k.held, got.State, got.Held)
		case got.State == "lost" && (k.mayRestart || !k.harmed):
			c.t.Errorf("task %s is lost: %s (harmed %v, may be restarted %v)", id, got.Reason, k.harmed, k.mayRestart)
		case got.State == "failed" && got.Reason != "exit code 1":
			c.t.Errorf("task %s failed: %s", id, got.Reason)
		}
		if got != nil && (got.State == "done" || got.State == "failed") {
			k.final = got.State
		}
	}
}

func finalState(s string) bool {
	state, err := headrace.ParseTaskState(s)
	return err != nil || state.Final()
}

// follow sends something when the daemon has told something new.
func (c *chaos) follow(ctx context.Context) <-chan struct{} {
	stream, err := c.tasks.Watch(ctx, &wire.WatchRequest{})
	if err != nil {
		c.t.Fatal("watch:", err)
	}
	news := make(chan struct{}, 1)
	go func() {
		defer stream.Close()
		for stream.Receive() {
			select {
			case news <- struct{}{}:
			default:
			}
		}
	}()
	return news
}

// finishAll lets everything run to its end.
func (c *chaos) finishAll() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	news := c.follow(ctx)
	for {
		res, err := c.tasks.List(ctx, &wire.ListRequest{})
		if err != nil {
			c.t.Fatal("list:", err)
		}
		if len(res.Tasks) == 0 {
			break
		}
		for _, task := range res.Tasks {
			if task.Held {
				q := &wire.VerbRequest{Id: task.Id}
				if _, err := c.tasks.Resume(ctx, q); err != nil && connect.CodeOf(err) != connect.CodeFailedPrecondition {
					c.t.Fatal("resume:", err)
				}
			}
			c.world.finish(headrace.TaskID(task.Id), 0)
		}
		select {
		case <-news:
		case <-ctx.Done():
			c.t.Fatalf("after %v there still are %v", patience, res.Tasks)
		}
	}
	c.check()
	c.t.Logf("%d tasks, %d deaths", len(c.ids), c.deaths)
}
