package solo

import (
	"context"
	"time"

	"headrace"
	"headrace/solo/board"
	"headrace/solo/journal"
)

// loop is the executor. It works in turns: it takes the messages that have arrived, asks
// the policy, and commits what came of that. All methods of it and its parts are called
// by the one goroutine that runs it, but those of driver and seldom, and those that say
// so.
type loop struct {
	*core
	board      *board.Board
	operations *operations
	admission  *admission
	measuring  *measuring
	own        *own
	containers *containers
	calls      *calls
	logs       *logKeeping
	// every is the time between two ticks; an end of the daemon waits at most
	// stopWait for operations.
	every, stopWait time.Duration
	// sweepRest removes what earlier tasks have left in cgroups; nil: there are none.
	sweepRest func()
	host      string
	started   time.Time
}

func newLoop(cfg *Config, p parts, j recorder) (*loop, error) {
	c, err := newCore(cfg, p, j)
	if err != nil {
		return nil, err
	}
	life := &life{core: c, comeBack: p.comeBack}
	admission := &admission{core: c}
	operations := &operations{life: life, moving: &moving{c}, admission: admission}
	l := &loop{
		core: c, board: board.New(), operations: operations, admission: admission, measuring: &measuring{core: c},
		containers: &containers{operations: operations, admission: admission, announced: newAnnouncements(c.clk)},
		calls:      &calls{operations: operations, admission: admission},
		logs:       newLogKeeping(c, admission),
		every:      p.tick, stopWait: p.stopWait, host: hostname(), started: c.clk.wall(),
	}
	l.ledger.relieve = l.logs.makeRoom
	l.own = &own{operations: operations, admission: admission, measuring: l.measuring, policy: p.policy}
	l.measuring.emptied = operations.emptied
	life.own, life.foreign, life.idle = l.own, l.containers, l.calls.nextCall
	l.rt.Watch(operations.heard)
	return l, nil
}

const (
	tickInterval = time.Second
	stopTimeout  = 5 * time.Second
)

// run works until ctx ends or the state can no longer be kept.
func (l *loop) run(ctx context.Context) error {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	l.redecide = true
	l.measuring.refresh()
	for {
		if err := l.endTurn(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return l.stop()
		case f := <-l.mail:
			f()
		case <-tick.C:
			l.tick()
		}
		l.drain()
	}
}

// drain handles what has arrived meanwhile, so that one transaction serves many
// messages.
func (l *loop) drain() {
	for range 512 {
		select {
		case f := <-l.mail:
			f()
		default:
			return
		}
	}
}

// endTurn decides, makes durable what has changed, and then announces it and
// acts on it.
func (l *loop) endTurn(ctx context.Context) error {
	for _, p := range l.pageOuts {
		l.operations.pageOut(p.task, p.bytes)
	}
	l.pageOuts = nil
	if l.redecide && !l.stopping {
		l.redecide = false
		l.own.decide()
	}
	for _, r := range l.released {
		r.told(l.turn)
	}
	l.released = nil
	l.inputs.keep(l.tasks.active)
	return l.commit(ctx)
}

// commit writes what the turn has changed, shows it, and lets follow what was put off
// until then.
func (l *loop) commit(ctx context.Context) error {
	b := l.batch()
	if l.metaChanged {
		b.Meta = &journal.Meta{Boot: l.boot, Order: l.tasks.order, MadeMs: l.ledger.madeMs, SwapSpeed: l.memory.SwapSpeed, Stores: l.stores.Known, Renewed: l.stores.Renewed}
	}
	if err := l.ledger.write(ctx, b); err != nil {
		return err
	}
	for id := range l.written {
		if t := l.tasks.all[id]; t != nil {
			t.store()
		}
	}
	l.board.Publish(l.snapshots(), l.deleted, l.nodeStatus())
	l.admission.uses = nil
	l.turn.perform()
	return nil
}

// tick does what has to be done from time to time.
func (l *loop) tick() {
	l.redecide = true
	if err := l.memory.look(); err != nil {
		l.warn("memory", "the memory could not be read", "err", err)
	}
	l.containers.giveUpAwaited()
	l.measuring.pollAll()
	if !l.cfg.Policy.NoResidencyOrder {
		l.inputs.follow(func() []*task { return l.tasks.active }, func() { l.redecide = true })
	}
	l.stores.Watch(l.tasks.withImagesIn)
	l.forgetOld()
	l.logs.keep()
	l.images.sweep()
	l.ledger.keepReserve()
	l.usePiped()
}

// stop lets operations that are under way end, within limits, and leaves the
// tasks as they are.
func (l *loop) stop() error {
	l.stopping = true
	deadline := time.NewTimer(l.stopWait)
	defer deadline.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), l.stopWait) // a disk may be full for ever
	defer cancel()
	for {
		busy, running, stopped := 0, 0, 0
		for _, t := range l.tasks.active {
			if t.op != nil {
				busy++
			}
			switch t.rec.State {
			case headrace.Running:
				running++
			case headrace.Suspended:
				stopped++
			}
		}
		if err := l.endTurn(ctx); err != nil || busy == 0 {
			l.log.Info("the daemon ends; tasks go on without it", "running", running, "suspended", stopped)
			return err
		}
		select {
		case f := <-l.mail:
			f()
		case <-deadline.C:
			l.log.Info("the daemon ends; tasks go on without it, and so do operations",
				"running", running, "suspended", stopped, "operations", busy)
			return nil
		}
	}
}

// forgetOld forgets the oldest ended tasks beyond the number to keep.
func (l *loop) forgetOld() {
	for _, t := range l.tasks.old(l.cfg.KeepEnded) {
		if t.op == nil && !l.inputs.owed(t) && (len(t.rec.ImageDirs) == 0 || t.rec.Checkpoint != nil) { // else they are removed first
			l.operations.forget(t, nil)
		}
	}
}

// letGo drops the connections to the tasks and waits for what still runs outside
// the loop.
func (l *loop) letGo() {
	l.driver.cancel()
	for _, t := range l.tasks.active {
		if t.live != nil {
			t.live.Close()
		}
	}
	if !l.driver.wait(l.stopWait) {
		l.log.Warn("something that was begun does not end; it is left behind")
	}
}
