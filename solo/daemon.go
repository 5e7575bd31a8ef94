package solo

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"headrace"
	"headrace/data"
	"headrace/disk"
	"headrace/internal/accept"
	"headrace/internal/linux"
	"headrace/internal/linux/cgroup"
	"headrace/pagecache"
	"headrace/policy"
	"headrace/proc"
	"headrace/proc/checkpoint"
	"headrace/solo/journal"
	"headrace/solo/statedir"
	"headrace/wire"
)

// Daemon runs tasks on this machine.
type Daemon struct {
	cfg   Config
	parts parts
	ready chan struct{}
	host  Host
	// reserve has descriptors for the listeners.
	reserve *accept.Reserve
	hangs   func() []disk.Hang
}

// parts are what the loop works with; tests replace them.
type parts struct {
	runtime Runtime
	images  Images
	policy  decider
	clock   clock
	boot    string
	memory  func() (memoryInfo, error)
	// swap measures the speed of swap; nil: it is guessed until it was used.
	swap func(context.Context, int64) (proc.SwapSpeed, error)
	// tick and stopWait: see loop; comeBack: see life.
	tick, stopWait, comeBack time.Duration
	// journal wraps the journal.
	journal func(recorder) recorder
	// cache opens the page cache, meter what measures the disks.
	cache func(pagecache.Config) (pagecache.Cache, error)
	meter func() (*disk.Meter, error)
	// cgroups gives tasks cgroups of their own; nil: they get none.
	cgroups func(*loop) (*cgroup.Base, error)
}

// New checks a configuration. Nothing is touched before Run.
func New(cfg Config) (*Daemon, error) {
	boot, err := linux.BootID()
	if err != nil {
		return nil, fmt.Errorf("find out which boot of the machine this is: %w", err)
	}
	rt := &proc.Runtime{Shim: cfg.Shim, CRIU: cfg.CRIU, StallLimit: cfg.StallLimit, Dir: statedir.Tasks(filepath.Clean(cfg.StateDir))}
	p := parts{
		runtime: runtimeOf{rt},
		swap:    rt.MeasureSwap,
		images:  storeImages{},
		clock:   systemClock{},
		boot:    strings.TrimSpace(boot),
		memory:  readMemoryInfo,
		tick:    tickInterval, stopWait: stopTimeout, comeBack: comeBackTimeout,
		policy: func(v headrace.View, explain bool) ([]headrace.Order, []policy.Note) {
			if explain {
				return policy.Explain(v, cfg.Policy)
			}
			return policy.Decide(v, cfg.Policy), nil
		},
		journal: func(j recorder) recorder { return j },
		cache:   pagecache.New,
		meter:   func() (*disk.Meter, error) { return disk.NewMeter(disk.MeterOptions{}) },
	}
	p.cgroups = func(l *loop) (*cgroup.Base, error) { return openCgroups(l, rt) }
	return newDaemon(cfg, p)
}

func newDaemon(cfg Config, p parts) (*Daemon, error) {
	mem, err := p.memory()
	if err != nil {
		return nil, err
	}
	if err := cfg.complete(mem); err != nil {
		return nil, err
	}
	return &Daemon{cfg: cfg, parts: p, ready: make(chan struct{}), host: Host{changed: make(chan struct{}, 1)}}, nil
}

// Host returns the daemon as the agent of a cluster needs it.
func (d *Daemon) Host() *Host { return &d.host }

// Ready returns what is closed when the daemon answers on its socket.
func (d *Daemon) Ready() <-chan struct{} { return d.ready }

// AlsoTell has the daemon tell also of disks that do not answer others in this process. It is called before Run; hangs may be called from any
// goroutine.
func (d *Daemon) AlsoTell(hangs func() []disk.Hang) { d.hangs = hangs }

// Socket returns the path of the API's socket.
func (d *Daemon) Socket() string { return wire.SocketPath(d.cfg.StateDir) }

// Run works until ctx ends, or something happens that makes it impossible to go
// on; in both cases the tasks go on and the next daemon finds them. It may be
// called once.
func (d *Daemon) Run(ctx context.Context) error {
	if err := statedir.Make(d.cfg.StateDir); err != nil {
		return err
	}
	lock, err := statedir.Lock(ctx, d.cfg.StateDir, d.cfg.Log)
	if err != nil {
		return err
	}
	defer lock.Close()
	file, err := journal.Open(d.cfg.StateDir)
	if err != nil {
		return err
	}
	defer file.Close()
	l, err := newLoop(&d.cfg, d.parts, d.parts.journal(file))
	if err != nil {
		return err
	}
	files, err := data.Open(data.Config{
		Streams: statedir.Streams(d.cfg.StateDir),
		Budget:  d.cfg.WarmBudget, NoWarm: d.cfg.NoWarm, Warm: d.cfg.Warm,
		Buffer: d.cfg.Buffer, NoResidentFirst: d.cfg.Policy.NoResidencyOrder,
		Disks: l.stores.Disks, Hangs: d.hangs, Cache: d.parts.cache, Meter: d.parts.meter, Requests: file.Requests(), Jobs: jobs{l.board}, Log: l.log,
	})
	if err != nil {
		return err
	}
	defer files.Close()
	if of := d.cfg.DataNode; of != nil {
		d.host.blocks = files.Blocks(of.Replicas, of.Hosts)
		defer d.host.blocks.Close()
	}
	l.inputs = newInputs(files, l)
	if d.parts.cgroups != nil {
		base, err := d.parts.cgroups(l)
		if err != nil {
			return err
		}
		defer base.Close()
	}
	return d.serve(ctx, l, files)
}

// serve recovers, opens the API and runs the loop.
func (d *Daemon) serve(ctx context.Context, l *loop, files *data.Files) error {
	var closers []func()
	defer func() {
		close(l.dead)
		for _, end := range slices.Backward(closers) {
			end()
		}
		l.letGo()
	}()

	state, err := l.ledger.Load()
	if err != nil {
		return err
	}
	l.tasks.order, l.ledger.madeMs = state.Meta.Order, state.Meta.MadeMs
	if state.Meta.Boot == "" { // there were no records
		l.ledger.madeMs = l.clk.wall().UnixMilli()
	}
	if l.stores.Owner, err = statedir.Owner(d.cfg.StateDir, l.host); err != nil {
		return err
	}
	l.memory.setSpeed(state.Meta.SwapSpeed)
	if err := checkpoint.SweepScratch(statedir.Scratch(d.cfg.StateDir)); err != nil {
		l.log.Warn("what earlier restores have left behind cannot be removed", "err", err)
	}
	if err := l.stores.Open(l.driver.ctx, state, d.cfg.NewStores, l.images.Measure); err != nil {
		return err
	}
	if try := d.parts.swap; try != nil && state.Meta.SwapBoot != l.boot {
		l.memory.measure(ctx, l.boot, try, l.log)
	}
	if err := (&recovery{operations: l.operations, written: state.Meta.Boot}).run(ctx, state); err != nil {
		return err
	}
	if l.sweepRest != nil {
		l.sweepRest()
	}
	// Whoever asks first must find what was recovered.
	if err := l.endTurn(ctx); err != nil {
		return err
	}
	l.sweepPiped()
	if d.reserve, err = accept.NewReserve(reserved); err != nil {
		return err
	}
	closers = append(closers, func() { d.reserve.Close() })
	stop, err := d.listenStreams(l, files)
	if err != nil {
		return err
	}
	closers = append(closers, stop)
	stop, err = d.listen(l, files)
	if err != nil {
		return err
	}
	closers = append(closers, stop)
	stop, err = d.listenAttach(l)
	if err != nil {
		return err
	}
	closers = append(closers, stop)
	l.log.Info("the daemon is up", "version", d.cfg.Version, "state", d.cfg.StateDir, "slots", d.cfg.Slots,
		"memory", d.cfg.Memory, "policy", d.cfg.policyName())
	close(d.ready)
	return l.run(ctx)
}
