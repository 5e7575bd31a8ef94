package blocks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"headrace"
	device "headrace/disk"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/warm"
	"headrace/wire"
	"headrace/wire/convert"
)

// BenchmarkManyBlocks is what a job of many small blocks costs on a node: how long all of them take to come into memory, the longest
// report meanwhile, and how long an answer holds the next report up that has them let go.
func BenchmarkManyBlocks(b *testing.B) {
	for _, n := range []int64{2000, 8000, 33_000} {
		b.Run(fmt.Sprint("blocks=", n), func(b *testing.B) { benchmarkBlocks(b, n) })
	}
}

func benchmarkBlocks(b *testing.B, blocks int64) {
	at := files(b.TempDir())
	for n := range blocks {
		data, sums := at.paths(n)
		if n%1000 == 0 {
			if err := os.MkdirAll(filepath.Dir(data), 0o755); err != nil {
				b.Fatal(err)
			}
		}
		for _, p := range []string{data, sums} {
			if err := os.WriteFile(p, []byte("hello"), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	list := &wire.BlocksToKeep{}
	for n := range blocks {
		convert.AddToKeep(list, headrace.Block{ID: id(n), Generation: 1, Bytes: 5}, uint32(n))
	}
	of := []*wire.JobBlocks{{Job: &wire.JobFacts{Job: &wire.JobRef{User: "u", Job: "j"}, Input: 5 * blocks}, Blocks: []*wire.BlocksToKeep{list}}}
	for b.Loop() {
		var disks device.Scheduler
		engine, err := warm.New(warm.Config{Cache: allOfIt{}, Disks: &disks, Devices: oneDisk{}, MaxBlocks: 3 * int(blocks)})
		if err != nil {
			b.Fatal(err)
		}
		l := New(Config{Replicas: at, Cache: allOfIt{}, Engine: engine, Owner: linux.Self()})
		began := time.Now()
		l.Answered(&wire.ExchangeResponse{Read: &wire.BlocksToRead{Number: 1, Keep: of}})
		var longest time.Duration
		for kept := int64(0); kept < blocks; {
			before := time.Now()
			q := l.Report(b.Context(), false)
			longest = max(longest, time.Since(before))
			for _, k := range q.Kept {
				if k.State == wire.KeptState_KEPT_STATE_PINNED {
					kept += int64(len(k.Blocks.Blocks.Numbers))
				}
			}
			l.Answered(&wire.ExchangeResponse{})
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/read")
		b.ReportMetric(longest.Seconds(), "s/longest-report")
		before := time.Now()
		l.Answered(&wire.ExchangeResponse{Read: &wire.BlocksToRead{Number: 2, LetGo: of}})
		b.ReportMetric(time.Since(before).Seconds(), "s/let-go")
		if err := engine.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(before).Seconds(), "s/all-let-go")
		l.Close()
	}
}

// files are blocks in a directory, as files of 5 bytes.
type files string

func (d files) paths(n int64) (data, sums string) {
	data = filepath.Join(string(d), fmt.Sprint(n/1000), fmt.Sprint("blk_", n))
	return data, data + "_1.meta"
}

func (d files) Find(_ context.Context, b headrace.Block) (*Copy, error) {
	data, sums := d.paths(b.ID.Number)
	f, err := os.Open(data)
	if err != nil {
		return nil, err
	}
	return &Copy{Data: f, Bytes: 5, Files: []warm.File{{Path: data, Size: 5}, {Path: sums, Size: 5}}}, nil
}

func (d files) Any(ctx context.Context, id headrace.BlockID) (*Copy, error) {
	return d.Find(ctx, headrace.Block{ID: id})
}

// allOfIt locks anything at once.
type allOfIt struct{ pagecache.Cache }

type pin int64

func (allOfIt) Pin(_ context.Context, _ *os.File, r pagecache.Range, _ func(int64)) (pagecache.Pinned, error) {
	return pin(r.Len), nil
}
func (allOfIt) Refresh(context.Context) error                     { return nil }
func (allOfIt) Resident(*os.File, pagecache.Range) (int64, error) { return 0, nil }
func (allOfIt) Pinned() int64                                     { return 0 }
func (allOfIt) Budget() int64                                     { return 1 << 50 }
func (p pin) Bytes() int64                                        { return int64(p) }
func (pin) Release() error                                        { return nil }

type oneDisk struct{}

func (oneDisk) Of(*os.File) (device.Device, error) { return device.Device{ID: 1, Name: "d"}, nil }
