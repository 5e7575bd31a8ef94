package solo

import (
	"errors"
	"fmt"
	"log/slog"

	"headrace/disk"
	"headrace/pagecache"
	"headrace/stream"
)

// reading is what the daemon reads files with, for tasks and ahead of them.
type reading struct {
	cache   pagecache.Cache
	devices *disk.Devices
	disks   *disk.Scheduler
	meter   lazyMeter
	// searches for files, whatever they are for.
	searches searches
}

// openCache is how the page cache is opened; tests have another.
type openCache func(pagecache.Config) (pagecache.Cache, error)

// openReading prepares to read. The caller closes it, after all that reads.
func openReading(cfg *Config, cache openCache, meter openMeter) (*reading, error) {
	pages, err := cache(pagecache.Config{Budget: cfg.WarmBudget, LockResident: !cfg.EnforceMemory, Log: cfg.Log})
	if errors.Is(err, pagecache.ErrUnsafeBudget) {
		return nil, fmt.Errorf("budget for warming: %w; choose a smaller one with --warm-budget", err)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare to read: %w", err)
	}
	method, why := pages.Method()
	if method != pagecache.BPF {
		cfg.Log.Info("what is in memory is found out by "+string(method), "reason", why)
	}
	return &reading{cache: pages, devices: &disk.Devices{}, disks: &disk.Scheduler{}, meter: lazyMeter{open: meter}}, nil
}

// openStreams takes up the streams that there are. What they have read is told to
// w.
func (r *reading) openStreams(cfg *Config, w *warming) (*stream.Engine, error) {
	e, err := stream.New(stream.Config{
		Dir: cfg.streamDir(), Cache: r.cache, Disks: r.disks, Devices: r.devices,
		NoResidentFirst: cfg.Policy.NoResidencyOrder, Read: w.streamRead, Log: cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("take up the streams: %w", err)
	}
	return e, nil
}

func (r *reading) close(log *slog.Logger) {
	if err := r.meter.close(); err != nil {
		log.Warn("the disks are still measured", "err", err)
	}
	if err := r.cache.Close(); err != nil {
		log.Warn("not everything that was kept in memory could be given back", "err", err)
	}
}
