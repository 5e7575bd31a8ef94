package rig

import (
	"context"
	"fmt"
)

// Store is a checkpoint store to compare: where it lies and how fast it is.
type Store struct {
	Fact  StoreFact
	Dir   string
	Group string
	// Cold stores are dropped from the page cache between a dump and a restore.
	Cold bool
}

// The names of stores that are not throttled.
const (
	StoreDisk   = "disk"
	StoreMemory = "memory"
)

// StoreName returns the name of a store throttled to bytes per second.
func StoreName(bandwidth int64) string { return fmt.Sprintf("%d MB/s", bandwidth/1e6) }

// throttledPlace is storage of a given bandwidth with room for bytes.
func (h *Bench) throttledPlace(ctx context.Context, bandwidth, bytes int64) (Store, error) {
	name := fmt.Sprintf("throttled%d", bandwidth/1e6)
	d, err := h.Disk.AddDevice(name, bytes, h.Memory)
	if err != nil {
		return Store{}, err
	}
	group, err := h.Disk.Throttle(d, bandwidth)
	if err != nil {
		return Store{}, err
	}
	p := Store{Dir: d.Dir, Group: group, Cold: true}
	p.Fact = StoreFact{Name: StoreName(bandwidth), Nominal: float64(bandwidth)}
	return p, h.calibrate(ctx, &p, min(max(bandwidth/2, 8<<20), 128<<20))
}

func (h *Bench) memoryPlace(ctx context.Context) (Store, error) {
	p := Store{Dir: h.Memory.Dir, Fact: StoreFact{Name: StoreMemory}}
	return p, h.calibrate(ctx, &p, 128<<20)
}

// DiskStore measures the disk of the scratch.
func (h *Bench) DiskStore(ctx context.Context) (Store, error) {
	p := Store{Dir: h.Disk.Dir, Cold: true, Fact: StoreFact{Name: StoreDisk}}
	return p, h.calibrate(ctx, &p, 128<<20)
}

func (h *Bench) calibrate(ctx context.Context, p *Store, bytes int64) error {
	h.Say(0, "measuring the storage %s", p.Fact.Name)
	var err error
	p.Fact.Write, p.Fact.Read, err = h.Measure(ctx, p.Dir, p.Group, bytes)
	return err
}

// Stores makes the stores of the given bandwidths and, if asked for, memory.
// What cannot be had is noted as skipped.
func (h *Bench) Stores(ctx context.Context, bandwidths []int64, bytes int64, inMemory bool, what string) ([]Store, error) {
	if h.Memory == nil {
		h.Skip(what+": throttled and in-memory storage", "there is no tmpfs at "+SharedMemory)
		return nil, nil
	}
	var out []Store
	for _, b := range bandwidths {
		p, err := h.throttledPlace(ctx, b, bytes)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			h.Skip(fmt.Sprintf("%s: storage of %s", what, StoreName(b)), err.Error())
			continue
		}
		out = append(out, p)
	}
	if inMemory {
		p, err := h.memoryPlace(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// StoreFacts returns what was measured of stores.
func StoreFacts(places []Store) []StoreFact {
	var out []StoreFact
	for _, p := range places {
		out = append(out, p.Fact)
	}
	return out
}

// StoreFact is a checkpoint store as it was measured before the experiment.
type StoreFact struct {
	Name string `json:"name"`
	// Nominal is the bandwidth that it was throttled to; 0: not throttled.
	Nominal float64 `json:"nominal,omitempty"`
	Write   float64 `json:"write"`
	Read    float64 `json:"read"`
}
