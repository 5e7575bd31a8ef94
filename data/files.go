package data

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"headrace/data/blocks"
	"headrace/disk"
	"headrace/internal/accept"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/policy/prefetch"
	"headrace/serve"
	"headrace/stream"
	"headrace/stream/source"
	"headrace/wire"
)

// Config is what Files works with. All but the numbers and Warm must be given.
type Config struct {
	// Streams is the directory of the streams.
	Streams string
	// Budget is how many bytes of files may be kept in memory; 0: what package
	// pagecache calls usual. NoWarm keeps none.
	Budget int64
	NoWarm bool
	// Warm decides what is kept first.
	Warm prefetch.Config
	// Buffer is the memory of a stream that asks for none, in bytes; 0: the default of
	// package stream.
	Buffer int64
	// NoResidentFirst has streams dealt in the order of their files alone.
	NoResidentFirst bool
	// Disks says whose turn it is at a disk, also for what is not read through Files.
	Disks *disk.Scheduler
	// Hangs lists disks that do not answer others in this process, which are told of as well; nil: there are none.
	Hangs func() []disk.Hang
	// Cache opens the page cache, Meter what measures the disks.
	Cache func(pagecache.Config) (pagecache.Cache, error)
	Meter func() (*disk.Meter, error)
	// Requests are those of users, Jobs those that they may be for.
	Requests Table
	Jobs     Jobs
	Log      *slog.Logger

	again time.Duration // againFirst, but for tests
}

// Files reads and keeps the files of this machine.
type Files struct {
	*reading
	// warming is nil where nothing is kept in memory.
	warming *warming
	streams *stream.Engine
	buffer  int64
	log     *slog.Logger
}

// reading is what files are read with, for tasks and ahead of them.
type reading struct {
	cache   pagecache.Cache
	devices *disk.Devices
	disks   *disk.Scheduler
	others  func() []disk.Hang // Config.Hangs
	meter   lazyMeter
	// searches for files, whatever they are for.
	searches searches
}

// Open takes up the requests and the streams that there are. Start begins to work
// on the requests. The caller closes it.
func Open(c Config) (*Files, error) {
	r, err := openReading(&c)
	if err != nil {
		return nil, err
	}
	f := &Files{reading: r, buffer: c.Buffer, log: c.Log}
	if !c.NoWarm {
		if f.warming, err = openWarming(r, &c); err != nil {
			f.Close()
			return nil, err
		}
	}
	limits, err := pagecache.ReadLimits()
	if err != nil {
		f.Close()
		return nil, err
	}
	left, _ := leftForBuffers(limits)
	f.streams, err = stream.New(stream.Config{
		Memory: left / 2,
		Dir:    c.Streams, Source: &source.Local{Cache: r.cache, Disks: r.disks, Devices: r.devices, Remember: r.searches.remember},
		NoResidentFirst: c.NoResidentFirst, Read: f.warming.streamRead, Log: c.Log,
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("take up the streams: %w", err)
	}
	return f, nil
}

func openReading(c *Config) (*reading, error) {
	pages, err := c.Cache(pagecache.Config{Budget: c.Budget, Log: c.Log})
	if errors.Is(err, pagecache.ErrUnsafeBudget) {
		return nil, fmt.Errorf("budget for warming: %w; choose a smaller one with --warm-budget", err)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare to read: %w", err)
	}
	method, why := pages.Method()
	if method != pagecache.BPF {
		c.Log.Info("what is in memory is found out by "+string(method), "reason", why)
	}
	return &reading{
		cache: pages, devices: &disk.Devices{}, disks: c.Disks, others: c.Hangs, meter: lazyMeter{open: c.Meter},
		searches: newSearches(),
	}, nil
}

// Blocks looks after the blocks of a distributed file system that r finds on this machine,
// under the same budget. The caller closes it before Files. hosts are the names that the
// file system has for the machine.
func (f *Files) Blocks(r blocks.Replicas, hosts []string) *blocks.Blocks {
	c := blocks.Config{
		Replicas: r, Cache: f.cache, Hosts: hosts, Refusal: errNoWarming.Error(), Log: f.log,
		Owner: linux.Self(),
	}
	if f.warming != nil {
		c.Engine, c.Refusal = f.warming.engine, ""
	}
	return blocks.New(c)
}

// Start begins to keep what was asked for. Jobs must know all jobs by now.
func (f *Files) Start() { f.warming.start() }

// Close ends all reading. What was kept in memory is let go.
func (f *Files) Close() {
	if f.streams != nil {
		f.streams.Close()
	}
	f.warming.close()
	f.reading.close(f.log)
}

func (r *reading) close(log *slog.Logger) {
	if err := r.meter.close(); err != nil {
		log.Warn("the disks are still measured", "err", err)
	}
	if err := r.cache.Close(); err != nil {
		log.Warn("not everything that was kept in memory could be given back", "err", err)
	}
}

// ServeStreams lets the consumers of streams in, until StopStreams ends their
// connections.
func (f *Files) ServeStreams(l *accept.Listener) error { return f.streams.Serve(l) }

// StopStreams ends the connections of consumers. It may be called more than once.
func (f *Files) StopStreams() { f.streams.Close() }

// Describe fills in how the machine reads, as a viewer may know it.
func (f *Files) Describe(info *wire.NodeInfo, v serve.Viewer) {
	info.Hangs = f.hangs(v.All)
	method, why := f.cache.Method()
	info.Residency, info.ResidencyWhy = string(method), why
	info.Pinned = f.cache.Pinned()
	if f.warming != nil {
		info.WarmBudget = f.cache.Budget()
	}
	for _, st := range f.streams.List() {
		if st.Error == "" && st.Committed < st.Units {
			info.Streams++
		}
	}
}
