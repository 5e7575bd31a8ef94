package lab

import (
	"context"
	"fmt"
)

// place is a checkpoint store to compare: where it lies and how fast it is.
type place struct {
	fact  StoreFact
	dir   string
	group string
	// cold stores are dropped from the page cache between a dump and a restore.
	cold bool
}

// The names of stores that are not throttled.
const (
	storeDisk   = "disk"
	storeMemory = "memory"
)

// storeName is the name of a store throttled to bytes per second.
func storeName(bandwidth int64) string { return fmt.Sprintf("%d MB/s", bandwidth/1e6) }

// throttledPlace is storage of a given bandwidth with room for bytes.
func (h *harness) throttledPlace(ctx context.Context, bandwidth, bytes int64) (place, error) {
	name := fmt.Sprintf("throttled%d", bandwidth/1e6)
	d, err := h.disk.addDevice(name, bytes, h.memory)
	if err != nil {
		return place{}, err
	}
	group, err := h.disk.throttle(d, bandwidth)
	if err != nil {
		return place{}, err
	}
	p := place{dir: d.dir, group: group, cold: true}
	p.fact = StoreFact{Name: storeName(bandwidth), Nominal: float64(bandwidth)}
	return p, h.calibrate(ctx, &p, min(max(bandwidth/2, 8<<20), 128<<20))
}

func (h *harness) memoryPlace(ctx context.Context) (place, error) {
	p := place{dir: h.memory.dir, fact: StoreFact{Name: storeMemory}}
	return p, h.calibrate(ctx, &p, 128<<20)
}

func (h *harness) diskPlace(ctx context.Context) (place, error) {
	p := place{dir: h.disk.dir, cold: true, fact: StoreFact{Name: storeDisk}}
	return p, h.calibrate(ctx, &p, 128<<20)
}

func (h *harness) calibrate(ctx context.Context, p *place, bytes int64) error {
	h.say(0, "measuring the storage %s", p.fact.Name)
	var err error
	p.fact.Write, p.fact.Read, err = h.measure(ctx, p.dir, p.group, bytes)
	return err
}

// places makes the stores of the given bandwidths and, if asked for, memory.
// What cannot be had is noted as skipped.
func (h *harness) places(ctx context.Context, bandwidths []int64, bytes int64, inMemory bool, what string) ([]place, error) {
	if h.memory == nil {
		h.skip(what+": throttled and in-memory storage", "there is no tmpfs at "+shm)
		return nil, nil
	}
	var out []place
	for _, b := range bandwidths {
		p, err := h.throttledPlace(ctx, b, bytes)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			h.skip(fmt.Sprintf("%s: storage of %s", what, storeName(b)), err.Error())
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

func facts(places []place) []StoreFact {
	var out []StoreFact
	for _, p := range places {
		out = append(out, p.fact)
	}
	return out
}
