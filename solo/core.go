package solo

import (
	"time"

	"headrace"
	"headrace/proc"
	"headrace/solo/store"
)

// core is what all parts of the executor work with.
type core struct {
	*driver
	*turn
	*seldom
	cfg    *Config
	boot   string // id of this boot of the machine
	rt     Runtime
	counts *counters
	tasks  *table
	stores *store.Stores
	memory *memory
	images *images
	ledger *ledger
	inputs *inputs
	// alone are tasks that the records do not know and that cannot be taken in (recovery.unknown), and why.
	alone map[headrace.TaskID]string
	// stopping: the daemon ends, and nothing new is begun.
	stopping bool
	// pipedAt is when usePiped was due last, by clk.boot.
	pipedAt time.Duration
}

func newCore(cfg *Config, p parts, j recorder) (*core, error) {
	memory := &memory{read: p.memory, reserve: cfg.SwapReserve}
	if err := memory.look(); err != nil {
		return nil, err
	}
	driver := newDriver()
	turn := newTurn(driver)
	stores := store.New(cfg.Stores, store.Daemon{
		Boot: p.clock.boot, Wall: p.clock.wall, Background: turn.background,
		Changed: func() { turn.redecide, turn.metaChanged = true, true }, NumberOf: numberOf, Log: cfg.Log,
	})
	c := &core{
		driver: driver, turn: turn, seldom: newSeldom(cfg.Log, p.clock),
		cfg: cfg, boot: p.boot, rt: p.runtime, counts: newCounters(), tasks: newTable(), stores: stores, memory: memory,
		ledger: &ledger{recorder: j, dir: cfg.StateDir, log: cfg.Log}, alone: map[headrace.TaskID]string{},
	}
	c.images = newImages(p.images, c)
	driver.stands = c.ledger.stands
	return c, nil
}

// sinceNow has a task wait or run from now on.
func (c *core) sinceNow(t *task) {
	t.rec.Since, t.rec.SinceMs, t.rec.Boot = c.clk.boot(), c.clk.wall().UnixMilli(), c.boot
}

// stopwatch measures an operation: call it at its beginning, and the result at
// its end.
func (c *core) stopwatch() func() (took time.Duration, atMs int64) {
	began := c.clk.boot()
	return func() (time.Duration, int64) { return c.clk.boot() - began, c.clk.wall().UnixMilli() }
}

// unseenEnd reads how a task has ended that has no supervisor, if no daemon has taken
// that in, the last end that one has being at seen; else it returns nil.
func (c *core) unseenEnd(id headrace.TaskID, seen time.Time) (*proc.Exit, error) {
	exit, ok, err := c.rt.ExitOf(id)
	if err != nil || !ok || exit.At.Equal(seen) {
		return nil, err
	}
	return &exit, nil
}
