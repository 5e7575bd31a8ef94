package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"headrace/internal/linux"
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

func (o *PreemptOptions) sizes() (sizes, error) {
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
	h.say(0, "(a) making the input")
	text, err := h.randomText(z.lightText)
	if err != nil {
		return err
	}
	low, err := h.parseJob(ctx, text, z.lightLow)
	if err != nil {
		return err
	}
	urgent, err := h.parseJob(ctx, text, z.lightUrgent)
	if err != nil {
		return err
	}
	at, err := h.diskPlace(ctx)
	if err != nil {
		return err
	}
	h.res.Setups = append(h.res.Setups, Setup{Experiment: expLight, Low: low.alone, Urgent: urgent.alone,
		LowBytes: low.memory, UrgentBytes: urgent.memory, Stores: []StoreFact{at.fact}})

	var entries []entry
	for _, policy := range h.policies("wait", "kill", "suspend", "checkpoint", "cost") {
		store, err := h.storeIn(at.dir, at.fact.Name, expLight+policy)
		if err != nil {
			return err
		}
		for _, share := range z.shares {
			entries = append(entries, entry{policy: policy, point: Point{Share: share},
				config: daemonConfig{policy: policy, stores: []storeDir{store}},
				trial:  trial{low: low, urgent: urgent, share: share}})
		}
	}
	return h.repeat(ctx, expLight, entries)
}

// dirtyMemory is experiment (b): os-assisted-preemption, figures 3 and 4.
func (h *bench) dirtyMemory(ctx context.Context, z sizes) error {
	h.say(0, "(b) adding swap")
	swap := 3 * z.dirtyBytes
	if err := h.disk.addSwap(swap); err != nil {
		h.res.skip("(b) large dirty memory", err.Error())
		return nil
	}
	lowRounds, err := h.dirtyRounds(ctx, z.dirtyLow)
	if err != nil {
		return err
	}
	urgentRounds, err := h.dirtyRounds(ctx, z.dirtyUrgent)
	if err != nil {
		return err
	}
	whole := h.todo
	h.todo = whole / 2
	if err := h.worstCase(ctx, z, swap, lowRounds, urgentRounds); err != nil {
		return err
	}
	if err := h.stopDaemons(); err != nil {
		return err
	}
	h.done, h.todo = h.done+h.todo, whole-h.todo
	return h.footprint(ctx, z, swap, lowRounds, urgentRounds)
}

func (h *bench) worstCase(ctx context.Context, z sizes, swap, lowRounds, urgentRounds int64) error {
	low, err := h.dirtyJob(ctx, z.dirtyBytes, lowRounds, h.seed)
	if err != nil {
		return err
	}
	urgent, err := h.dirtyJob(ctx, z.dirtyBytes, urgentRounds, h.seed+1)
	if err != nil {
		return err
	}
	at, err := h.diskPlace(ctx)
	if err != nil {
		return err
	}
	limit := z.dirtyBytes*3/2 + taskOverhead
	h.res.Setups = append(h.res.Setups, Setup{Experiment: expDirty, Low: low.alone, Urgent: urgent.alone,
		LowBytes: z.dirtyBytes, UrgentBytes: z.dirtyBytes, Limit: limit, Enforced: true, Swap: swap, Stores: []StoreFact{at.fact}})

	var entries []entry
	for _, policy := range h.policies("wait", "kill", "suspend", "checkpoint", "cost") {
		store, err := h.storeIn(at.dir, at.fact.Name, expDirty+policy)
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
				config: daemonConfig{policy: policy, memory: limit, enforce: true, stores: []storeDir{store}},
				trial:  trial{low: low, urgent: urgent, share: share}})
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
	for _, d := range h.daemons {
		if d.config.policy != "suspend" || d.broken() {
			continue
		}
		if info, err := d.node.Info(ctx, &wire.InfoRequest{}); err == nil {
			s := &h.res.Setups[len(h.res.Setups)-1]
			s.SwapOut, s.SwapIn = info.SwapOut, info.SwapIn
		}
	}
}

func (h *bench) footprint(ctx context.Context, z sizes, swap, lowRounds, urgentRounds int64) error {
	lowBytes := z.dirtyBytes * 5 / 4
	low, err := h.dirtyJob(ctx, lowBytes, lowRounds, h.seed)
	if err != nil {
		return err
	}
	limit := 2*z.dirtyBytes + taskOverhead
	setup := Setup{Experiment: expFootprint, Low: low.alone, LowBytes: lowBytes, Limit: limit, Enforced: true, Swap: swap}
	var entries []entry
	for _, part := range z.footprints {
		bytes := int64(float64(z.dirtyBytes) * part)
		urgent, err := h.dirtyJob(ctx, bytes, urgentRounds, h.seed+1)
		if err != nil {
			return err
		}
		setup.Urgent = urgent.alone
		for _, policy := range []string{"wait", "kill", "suspend"} {
			entries = append(entries, entry{policy: policy, point: Point{UrgentBytes: bytes, Share: 0.5},
				config: daemonConfig{policy: policy, memory: limit, enforce: true},
				trial:  trial{low: low, urgent: urgent, share: 0.5}})
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
	h.say(0, "(c) preparing the tasks")
	low, err := h.kmeansJob(ctx, z.kmeansBytes, h.seed, z.kmeansTime)
	if err != nil {
		return err
	}
	urgent, err := h.kmeansJob(ctx, z.kmeansBytes, h.seed+1, z.kmeansTime)
	if err != nil {
		return err
	}
	places, err := h.places(ctx, z.bandwidths, 3*z.kmeansBytes+64<<20, true, "(c)")
	if err != nil || len(places) == 0 {
		return err
	}
	setup := Setup{Experiment: expStorage, Low: low.alone, Urgent: urgent.alone, LowBytes: z.kmeansBytes,
		UrgentBytes: z.kmeansBytes, Limit: z.kmeansBytes*3/2 + taskOverhead, Stores: facts(places)}
	h.res.Setups = append(h.res.Setups, setup)
	t := trial{low: low, urgent: urgent, share: 0.5}
	tight := daemonConfig{memory: setup.Limit, noSwap: h.res.Machine.Swap > 0}

	whole := h.todo
	h.todo = whole * 0.75
	entries, err := h.storageEntries(t, tight, places, []string{"wait", "kill"}, []string{"checkpoint", "adaptive", "cost"})
	if err != nil {
		return err
	}
	if err := h.repeat(ctx, expStorage, entries); err != nil {
		return err
	}
	if err := h.stopDaemons(); err != nil {
		return err
	}
	h.done, h.todo = h.done+h.todo, whole-h.todo

	places = roomyPlaces(places, z)
	setup.Experiment, setup.Limit, setup.Stores = expRoomy, 0, facts(places)
	h.res.Setups = append(h.res.Setups, setup)
	entries, err = h.storageEntries(t, daemonConfig{}, places, []string{"wait", "kill", "suspend"}, []string{"checkpoint", "cost"})
	if err != nil {
		return err
	}
	return h.repeat(ctx, expRoomy, entries)
}

// roomyPlaces are those at which the second part is run.
func roomyPlaces(places []place, z sizes) []place {
	var out []place
	for _, p := range places {
		chosen := func(b int64) bool { return p.fact.Name == storeName(b) }
		if p.fact.Name == storeMemory || slices.ContainsFunc(z.roomyBandwidths, chosen) {
			out = append(out, p)
		}
	}
	return out
}

// storageEntries are one trial for each policy that does not use storage, and one
// at each place for those that may.
func (h *bench) storageEntries(t trial, c daemonConfig, places []place, without, with []string) ([]entry, error) {
	var entries []entry
	for _, policy := range without {
		c := c
		c.policy = policy
		entries = append(entries, entry{policy: policy, config: c, trial: t})
	}
	for _, p := range places {
		for _, policy := range with {
			c, t := c, t
			store, err := h.storeIn(p.dir, "store", fmt.Sprintf("%d-%s", c.memory, policy))
			if err != nil {
				return nil, err
			}
			c.policy, c.group, c.stores = policy, p.group, []storeDir{store}
			if p.cold {
				t.cold = []string{store.dir}
			}
			entries = append(entries, entry{policy: policy, point: Point{Store: p.fact.Name}, config: c, trial: t})
		}
	}
	return entries, nil
}

// policies are those of the given ones that the machine can carry out.
func (h *bench) policies(names ...string) []string {
	return slices.DeleteFunc(names, func(p string) bool {
		return h.noCheckpoint != "" && (p == "checkpoint" || p == "adaptive")
	})
}

// entry is one trial of a plan.
type entry struct {
	policy string
	point  Point
	config daemonConfig
	trial  trial
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
func (e entry) once(ctx context.Context, h *harness) (Run, error) {
	d, err := h.daemon(ctx, e.config)
	if err != nil {
		return Run{}, err
	}
	o, err := e.trial.run(ctx, d, h.disk)
	return o.Run, errors.Join(err, h.settle(d))
}

// repeat carries out all entries of an experiment.
func (h *bench) repeat(ctx context.Context, experiment string, entries []entry) error {
	return rounds[entry, Run]{repeats: h.o.Repeats, seed: h.o.Seed, entries: entries, say: h.say, name: "(" + experiment + ") ",
		run: func(e entry) (Run, error) { return e.once(ctx, h.harness) },
		keep: func(e entry, r Run, t turn) {
			r.Experiment, r.Policy, r.Point = experiment, e.policy, e.point
			r.Repeat, r.Order, r.Failure = t.repeat, t.order, t.failure
			h.res.Runs = append(h.res.Runs, r)
		},
	}.do(ctx, &h.res.Circumstances)
}
