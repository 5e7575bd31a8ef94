package preempt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"headrace/internal/linux"
	"headrace/lab/rig"
	"headrace/lab/trial"
	"headrace/report"
	"headrace/wire"
)

// sizes are the lengths and sizes of all experiments.
type sizes struct {
	shares []float64 // (a): r, the share done when the urgent task arrives

	lightText             int64
	lightLow, lightUrgent float64 // seconds

	dirtyShares           []float64
	dirtyLow, dirtyUrgent float64 // seconds of computing, without memory
	dirtyBytes            int64
	// footprints are the urgent task's memory in parts of dirtyBytes.
	footprints []float64

	bandwidths      []int64
	roomyBandwidths []int64
	kmeansBytes     int64
	kmeansTime      float64

	touchBytes     int64
	touchBandwidth int64
}

func (o *Options) sizes() (sizes, error) {
	mem, err := linux.ProcFS("").MemInfo()
	if err != nil {
		return sizes{}, err
	}
	s := sizes{
		shares:    []float64{0.1, 0.3, 0.6, 0.9},
		lightText: 64 << 20,
		lightLow:  2, lightUrgent: 1.2,
		dirtyShares: []float64{0.1, 0.5, 0.9},
		// In the paper, paging all of a task's memory takes about a quarter of its
		// time; so it does here with 512 MiB and a disk of 800 MB/s.
		dirtyLow: 2.8, dirtyUrgent: 2.2,
		dirtyBytes:      o.Size,
		footprints:      []float64{0.5, 0.75, 1, 1.25},
		bandwidths:      []int64{30e6, 100e6, 300e6, 1000e6},
		roomyBandwidths: []int64{100e6},
		kmeansTime:      2.4,
		touchBandwidth:  100e6,
	}
	if o.Quick {
		s.shares, s.dirtyShares = []float64{0.5}, []float64{0.5}
		s.lightText, s.lightLow, s.lightUrgent = 16<<20, 1, 0.3
		s.dirtyLow, s.dirtyUrgent = 0.5, 0.3
		s.footprints = []float64{1.25}
		s.bandwidths, s.roomyBandwidths = []int64{100e6}, nil
		s.kmeansTime = 0.5
	}
	if s.dirtyBytes == 0 {
		s.dirtyBytes = min(512<<20, mem.Total/16)
		if o.Quick {
			s.dirtyBytes = min(128<<20, mem.Total/16)
		}
	}
	s.kmeansBytes, s.touchBytes = s.dirtyBytes/2, s.dirtyBytes
	if need := 4 * s.dirtyBytes; mem.Available < need {
		return sizes{}, fmt.Errorf("%d MB of memory are available, %d are needed: give a smaller --size", mem.Available>>20, need>>20)
	}
	return s, nil
}

// light is experiment (a): os-assisted-preemption, figure 2.
func (h *bench) light(ctx context.Context, z sizes) error {
	h.Say(0, "(a) making the input")
	text, err := h.RandomText(z.lightText)
	if err != nil {
		return err
	}
	low, err := h.ParseJob(ctx, text, z.lightLow)
	if err != nil {
		return err
	}
	urgent, err := h.ParseJob(ctx, text, z.lightUrgent)
	if err != nil {
		return err
	}
	at, err := h.DiskStore(ctx)
	if err != nil {
		return err
	}
	h.res.Setups = append(h.res.Setups, Setup{Experiment: ExpLight, Low: low.Alone, Urgent: urgent.Alone,
		LowBytes: low.Memory, UrgentBytes: urgent.Memory, Stores: []rig.StoreFact{at.Fact}})

	var entries []entry
	for _, policy := range h.policies("wait", "kill", "suspend", "checkpoint", "cost") {
		store, err := h.StoreIn(at.Dir, at.Fact.Name, ExpLight+policy)
		if err != nil {
			return err
		}
		for _, share := range z.shares {
			entries = append(entries, entry{policy: policy, point: Point{Share: share},
				config: rig.DaemonConfig{Policy: policy, Stores: []rig.StoreDir{store}},
				trial:  Pair{Low: low, Urgent: urgent, Share: share}})
		}
	}
	return h.repeat(ctx, ExpLight, entries)
}

// dirtyMemory is experiment (b): os-assisted-preemption, figures 3 and 4.
func (h *bench) dirtyMemory(ctx context.Context, z sizes) error {
	h.Say(0, "(b) adding swap")
	swap := 3 * z.dirtyBytes
	if err := h.Disk.AddSwap(swap); err != nil {
		h.res.Skip("(b) large dirty memory", err.Error())
		return nil
	}
	lowRounds, err := h.DirtyRounds(ctx, z.dirtyLow)
	if err != nil {
		return err
	}
	urgentRounds, err := h.DirtyRounds(ctx, z.dirtyUrgent)
	if err != nil {
		return err
	}
	whole := h.Todo
	h.Todo = whole / 2
	if err := h.worstCase(ctx, z, swap, lowRounds, urgentRounds); err != nil {
		return err
	}
	if err := h.StopDaemons(); err != nil {
		return err
	}
	h.Done, h.Todo = h.Done+h.Todo, whole-h.Todo
	return h.footprint(ctx, z, swap, lowRounds, urgentRounds)
}

func (h *bench) worstCase(ctx context.Context, z sizes, swap, lowRounds, urgentRounds int64) error {
	low, err := h.DirtyJob(ctx, z.dirtyBytes, lowRounds, h.Seed)
	if err != nil {
		return err
	}
	urgent, err := h.DirtyJob(ctx, z.dirtyBytes, urgentRounds, h.Seed+1)
	if err != nil {
		return err
	}
	at, err := h.DiskStore(ctx)
	if err != nil {
		return err
	}
	limit := z.dirtyBytes*3/2 + rig.TaskOverhead
	h.res.Setups = append(h.res.Setups, Setup{Experiment: expDirty, Low: low.Alone, Urgent: urgent.Alone,
		LowBytes: z.dirtyBytes, UrgentBytes: z.dirtyBytes, Limit: limit, Enforced: true, Swap: swap, Stores: []rig.StoreFact{at.Fact}})

	var entries []entry
	for _, policy := range h.policies("wait", "kill", "suspend", "checkpoint", "cost") {
		store, err := h.StoreIn(at.Dir, at.Fact.Name, expDirty+policy)
		if err != nil {
			return err
		}
		shares := z.dirtyShares
		if policy == "checkpoint" || policy == "cost" {
			// They are for comparison; the figure is about the others.
			shares = []float64{0.5}
		}
		for _, share := range shares {
			entries = append(entries, entry{policy: policy, point: Point{Share: share},
				config: rig.DaemonConfig{Policy: policy, Memory: limit, Enforce: true, Stores: []rig.StoreDir{store}},
				trial:  Pair{Low: low, Urgent: urgent, Share: share}})
		}
	}
	err = h.repeat(ctx, expDirty, entries)
	if err == nil {
		h.noteSwap(ctx)
	}
	return err
}

// noteSwap adds to the present setup what a daemon that pages out has measured.
// Nothing is lost when none does.
func (h *bench) noteSwap(ctx context.Context) {
	for _, d := range h.Daemons {
		if d.Config.Policy != "suspend" || d.Broken() {
			continue
		}
		if info, err := d.Node.Info(ctx, &wire.InfoRequest{}); err == nil {
			s := &h.res.Setups[len(h.res.Setups)-1]
			s.SwapOut, s.SwapIn = info.SwapOut, info.SwapIn
		}
	}
}

func (h *bench) footprint(ctx context.Context, z sizes, swap, lowRounds, urgentRounds int64) error {
	lowBytes := z.dirtyBytes * 5 / 4
	low, err := h.DirtyJob(ctx, lowBytes, lowRounds, h.Seed)
	if err != nil {
		return err
	}
	limit := 2*z.dirtyBytes + rig.TaskOverhead
	setup := Setup{Experiment: expFootprint, Low: low.Alone, LowBytes: lowBytes, Limit: limit, Enforced: true, Swap: swap}
	var entries []entry
	for _, part := range z.footprints {
		bytes := int64(float64(z.dirtyBytes) * part)
		urgent, err := h.DirtyJob(ctx, bytes, urgentRounds, h.Seed+1)
		if err != nil {
			return err
		}
		setup.Urgent = urgent.Alone
		for _, policy := range []string{"wait", "kill", "suspend"} {
			entries = append(entries, entry{policy: policy, point: Point{UrgentBytes: bytes, Share: 0.5},
				config: rig.DaemonConfig{Policy: policy, Memory: limit, Enforce: true},
				trial:  Pair{Low: low, Urgent: urgent, Share: 0.5}})
		}
	}
	h.res.Setups = append(h.res.Setups, setup)
	return h.repeat(ctx, expFootprint, entries)
}

// storage is experiment (c): checkpoint-preemption, figures 4 and 6. It is run
// where memory holds one of the tasks only and nothing can be paged out, so that
// suspending is out of the question and the choice is hard; and again, at fewer
// points, where memory holds both.
func (h *bench) storage(ctx context.Context, z sizes) error {
	h.Say(0, "(c) preparing the tasks")
	low, err := h.KmeansJob(ctx, z.kmeansBytes, h.Seed, z.kmeansTime)
	if err != nil {
		return err
	}
	urgent, err := h.KmeansJob(ctx, z.kmeansBytes, h.Seed+1, z.kmeansTime)
	if err != nil {
		return err
	}
	places, err := h.Stores(ctx, z.bandwidths, 3*z.kmeansBytes+64<<20, true, "(c)")
	if err != nil || len(places) == 0 {
		return err
	}
	setup := Setup{Experiment: expStorage, Low: low.Alone, Urgent: urgent.Alone, LowBytes: z.kmeansBytes,
		UrgentBytes: z.kmeansBytes, Limit: z.kmeansBytes*3/2 + rig.TaskOverhead, Stores: rig.StoreFacts(places)}
	h.res.Setups = append(h.res.Setups, setup)
	t := Pair{Low: low, Urgent: urgent, Share: 0.5}
	tight := rig.DaemonConfig{Memory: setup.Limit, NoSwap: h.res.Machine.Swap > 0}

	whole := h.Todo
	h.Todo = whole * 0.75
	entries, err := h.storageEntries(t, tight, places, []string{"wait", "kill"}, []string{"checkpoint", "adaptive", "cost"})
	if err != nil {
		return err
	}
	if err := h.repeat(ctx, expStorage, entries); err != nil {
		return err
	}
	if err := h.StopDaemons(); err != nil {
		return err
	}
	h.Done, h.Todo = h.Done+h.Todo, whole-h.Todo

	places = roomyPlaces(places, z)
	setup.Experiment, setup.Limit, setup.Stores = expRoomy, 0, rig.StoreFacts(places)
	h.res.Setups = append(h.res.Setups, setup)
	entries, err = h.storageEntries(t, rig.DaemonConfig{}, places, []string{"wait", "kill", "suspend"}, []string{"checkpoint", "cost"})
	if err != nil {
		return err
	}
	return h.repeat(ctx, expRoomy, entries)
}

// roomyPlaces returns those at which the second part is run.
func roomyPlaces(places []rig.Store, z sizes) []rig.Store {
	var out []rig.Store
	for _, p := range places {
		chosen := func(b int64) bool { return p.Fact.Name == rig.StoreName(b) }
		if p.Fact.Name == rig.StoreMemory || slices.ContainsFunc(z.roomyBandwidths, chosen) {
			out = append(out, p)
		}
	}
	return out
}

// storageEntries returns one trial for each policy that does not use storage, and one
// at each place for those that may.
func (h *bench) storageEntries(t Pair, c rig.DaemonConfig, places []rig.Store, without, with []string) ([]entry, error) {
	var entries []entry
	for _, policy := range without {
		c := c
		c.Policy = policy
		entries = append(entries, entry{policy: policy, config: c, trial: t})
	}
	for _, p := range places {
		for _, policy := range with {
			c, t := c, t
			store, err := h.StoreIn(p.Dir, "store", fmt.Sprintf("%d-%s", c.Memory, policy))
			if err != nil {
				return nil, err
			}
			c.Policy, c.Group, c.Stores = policy, p.Group, []rig.StoreDir{store}
			if p.Cold {
				t.cold = []string{store.Dir}
			}
			entries = append(entries, entry{policy: policy, point: Point{Store: p.Fact.Name}, config: c, trial: t})
		}
	}
	return entries, nil
}

// policies returns those of the given ones that the machine can carry out.
func (h *bench) policies(names ...string) []string {
	return slices.DeleteFunc(names, func(p string) bool {
		return h.noCheckpoint != "" && (p == "checkpoint" || p == "adaptive")
	})
}

// entry is one trial of a plan.
type entry struct {
	policy string
	point  Point
	config rig.DaemonConfig
	trial  Pair
}

func (e entry) String() string {
	var at []string
	if e.point.Store != "" {
		at = append(at, e.point.Store)
	}
	if e.point.UrgentBytes > 0 {
		at = append(at, report.Bytes(e.point.UrgentBytes))
	}
	if e.point.Share > 0 {
		at = append(at, fmt.Sprintf("%.0f %%", e.point.Share*100))
	}
	if len(at) == 0 {
		return e.policy
	}
	return e.policy + " at " + strings.Join(at, ", ")
}

// once carries out the trial with the daemon that it wants.
func (e entry) once(ctx context.Context, h *rig.Bench) (Run, error) {
	d, err := h.Daemon(ctx, e.config)
	if err != nil {
		return Run{}, err
	}
	o, err := e.trial.Run(ctx, d, h.Disk)
	return o.Run, errors.Join(err, h.Settle(d))
}

// repeat carries out all entries of an experiment.
func (h *bench) repeat(ctx context.Context, experiment string, entries []entry) error {
	return trial.Rounds[entry, Run]{Repeats: h.o.Repeats, Seed: h.o.Seed, Entries: entries, Say: h.Say, Name: "(" + experiment + ") ",
		Run: func(e entry) (Run, error) { return e.once(ctx, h.Bench) },
		Keep: func(e entry, r Run, t trial.Turn) {
			r.Experiment, r.Policy, r.Point = experiment, e.policy, e.point
			r.Repeat, r.Order, r.Failure = t.Repeat, t.Order, t.Failure
			h.res.Runs = append(h.res.Runs, r)
		},
	}.Do(ctx, &h.res.Circumstances)
}
