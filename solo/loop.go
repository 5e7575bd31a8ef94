package solo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"headrace"
	"headrace/internal/crash"
	"headrace/limits"
	"headrace/policy"
)

// loop owns the state of the daemon. All its methods are called by the one
// goroutine that runs it, except post and background.
type loop struct {
	// sweepRest removes what earlier tasks have left in cgroups; nil: there are none.
	sweepRest  func()
	cfg        Config
	boot       string // id of this boot of the machine
	host       string
	inputs     *inputs
	containers *containers
	rt         Runtime
	img        Images
	journal    journal
	board      *board
	counts     *counters
	policy     decider
	memory     func() (memoryInfo, error)
	// every is the time between two ticks; an end of the daemon waits at most
	// stopWait for operations.
	every, stopWait time.Duration

	*driver
	*turn
	*seldom

	meta   meta
	tasks  map[headrace.TaskID]*task
	active []*task // have not ended, in order of submission
	ended  []*task // in the order in which they ended
	// endedStates counts them.
	endedStates [headrace.Lost + 1]int
	stores      []*store
	swap        swapState
	mem         memoryInfo
	round       round

	// littered tasks have ended and left checkpoints that could not be removed;
	// at the boot time given it is tried again.
	littered map[*task]time.Duration

	logs logKeeping
	// uses is what users have in the queue, nil until somebody asks in a turn.
	uses map[uint32]limits.Use

	stopping bool
	full     bool // the file system of the state directory is full
	started  time.Time
}

const (
	tickInterval = time.Second
	stopTimeout  = 5 * time.Second
)

// decider is the policy: what to do, and with explain why others wait. It must
// not block.
type decider func(v headrace.View, explain bool) ([]headrace.Order, []policy.Note)

// run works until ctx ends or the state can no longer be kept.
func (l *loop) run(ctx context.Context) error {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	l.redecide = true
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
		l.pageOut(p.task, p.bytes)
	}
	l.pageOuts = nil
	if l.redecide && !l.stopping {
		l.redecide = false
		l.decide()
	}
	for _, r := range l.released {
		r.told(l.turn)
	}
	l.released = nil
	l.inputs.keep(l.active)
	return l.commit(ctx)
}

// commit writes what the turn has changed, shows it, and lets follow what was put off
// until then.
func (l *loop) commit(ctx context.Context) error {
	b := l.batch()
	if l.metaChanged {
		b.meta = &l.meta
	}
	if !b.empty() {
		crash.Here("solo.commit.before")
		if err := l.write(ctx, b); err != nil {
			return err
		}
		crash.Here("solo.commit.after")
	}
	for id := range l.written {
		if t := l.tasks[id]; t != nil {
			t.store()
		}
	}
	l.board.publish(l.snapshots(), l.deleted, l.nodeStatus())
	l.uses = nil
	l.turn.perform()
	return nil
}

// write commits a batch. While the file system is full it waits: nothing may
// happen that is not recorded.
func (l *loop) write(ctx context.Context, b batch) error {
	for {
		err := l.journal.commit(b)
		r, reserves := l.journal.(reserver)
		if err == nil {
			l.full = l.full && reserves // until the reserve is there again
			return nil
		}
		if !errors.Is(err, errNoSpace) {
			return fmt.Errorf("%w; the daemon stops, tasks run on and are found again when it is started", err)
		}
		l.full = true
		l.log.Error("the state directory is full: make room", "dir", l.cfg.StateDir, "err", err)
		if reserves && r.spendReserve() {
			continue
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return err
		}
	}
}

// reserver is a journal that keeps space for bad times.
type reserver interface {
	keepReserve() bool
	spendReserve() bool
}

// tick does what has to be done from time to time.
func (l *loop) tick() {
	l.redecide = true
	l.readMemory()
	l.pollStats()
	if !l.cfg.Policy.NoResidencyOrder {
		l.inputs.follow(func() []*task { return l.active }, func() { l.redecide = true })
	}
	l.watchStores()
	l.forgetOld()
	l.keepLogs()
	l.sweep()
	if r, ok := l.journal.(reserver); ok {
		if kept := r.keepReserve(); kept && l.full {
			l.full = false
			l.log.Info("the state directory has room again")
		} else if !kept {
			l.full = true
		}
	}
}

// stop lets operations that are under way end, within limits, and leaves the
// tasks as they are.
func (l *loop) stop() error {
	l.stopping = true
	deadline := time.NewTimer(l.stopWait)
	defer deadline.Stop()
	background := context.Background()
	for {
		busy, running, stopped := 0, 0, 0
		for _, t := range l.active {
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
		if err := l.endTurn(background); err != nil || busy == 0 {
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

// inactive moves a task that has ended out of the queue.
func (l *loop) inactive(t *task) {
	if i := slices.Index(l.active, t); i >= 0 {
		l.active = slices.Delete(l.active, i, i+1)
	}
	l.ended = append(l.ended, t)
	l.endedStates[t.rec.State]++
	for _, c := range t.queue {
		l.answer(c, t, errEnded(t))
	}
	t.queue = nil
	l.inputs.unfollow(t)
}

// removeEnded takes an ended task out of the list of these.
func (l *loop) removeEnded(t *task) {
	if i := slices.Index(l.ended, t); i >= 0 {
		l.ended = slices.Delete(l.ended, i, i+1)
		l.endedStates[t.rec.State]--
	}
	delete(l.littered, t)
}

// reactivate is the opposite of inactive.
func (l *loop) reactivate(t *task) {
	l.removeEnded(t)
	at, _ := slices.BinarySearchFunc(l.active, t.rec.Order, func(x *task, order uint64) int {
		switch {
		case x.rec.Order < order:
			return -1
		case x.rec.Order > order:
			return 1
		}
		return 0
	})
	l.active = slices.Insert(l.active, at, t)
}

// forgetOld forgets the oldest ended tasks beyond the number to keep.
func (l *loop) forgetOld() {
	excess := len(l.ended) - l.cfg.KeepEnded
	for _, t := range slices.Clone(l.ended) {
		if excess <= 0 {
			return
		}
		excess--
		if t.op == nil && t.rec.Checkpoint == nil {
			l.forget(t, nil)
		}
	}
}

// slotsUsed is what running tasks and those that are being brought back hold.
func (l *loop) slotsUsed() float64 {
	var used float64
	for _, t := range l.active {
		if t.holdsSlot() {
			used += t.rec.CPUs
		}
	}
	return used
}
