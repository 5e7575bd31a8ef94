package pagecache_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"headrace/pagecache"
)

// cpuTime returns what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWatch10000 refreshes 10,000 files. The metric is the share of one
// processor that this takes when it is done once a second, in percent. To compare
// the counters with the kernel takes 0.1 more, whatever the files.
func BenchmarkWatch10000(b *testing.B) {
	const files, size = 10_000, 32 << 10
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < files+100 {
		b.Skipf("%d descriptors are allowed (%v), %d are needed", limit.Cur, err, files+100)
	}
	dir := diskDir(b)
	for i := range files {
		if err := os.WriteFile(name(dir, i), make([]byte, size), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	unix.Sync()
	for _, method := range []pagecache.Method{pagecache.BPF, pagecache.Cachestat} {
		for _, state := range []string{"cold", "hot", "5 % change"} {
			b.Run(fmt.Sprintf("%s/%s", method, state), func(b *testing.B) {
				c := open(b, pagecache.Config{Method: method, Files: files})
				var open []*os.File
				for i := range files {
					f, err := os.Open(name(dir, i))
					if err != nil {
						b.Fatal(err)
					}
					if state == "cold" {
						err = c.Evict(f, pagecache.Range{Len: size})
					} else {
						_, err = io.Copy(io.Discard, f)
					}
					if err != nil {
						b.Fatal(err)
					}
					if _, err := c.Watch(f); err != nil {
						b.Fatal(err)
					}
					if state == "5 % change" && i%20 == 0 {
						open = append(open, f)
					} else {
						f.Close()
					}
				}
				defer func() {
					for _, f := range open {
						f.Close()
					}
				}()
				if err := c.Refresh(b.Context()); err != nil {
					b.Fatal(err)
				}
				runtime.GC()
				var used time.Duration
				n, buf := 0, make([]byte, size)
				for b.Loop() {
					for i, f := range open {
						// The others change too, as far as anybody can see.
						if i%2 == n%2 {
							c.Evict(f, pagecache.Range{Len: size})
						} else {
							f.ReadAt(buf, 0)
						}
					}
					before := cpuTime(b)
					if err := c.Refresh(b.Context()); err != nil {
						b.Fatal(err)
					}
					used += cpuTime(b) - before
					n++
				}
				b.ReportMetric(100*used.Seconds()/float64(n), "cpu%@1Hz")
			})
		}
	}
}

// sparse makes a file without data.
func sparse(b *testing.B, size int64) *os.File {
	b.Helper()
	f, err := os.Create(filepath.Join(diskDir(b), "sparse"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		b.Fatal(err)
	}
	return f
}

// BenchmarkEvents reads a file without data in order, so that nothing but the
// page cache is at work, and drops it again: without programs, with them while
// the file is not watched, and while it is. What they took by themselves is told
// by the kernel's own measurement, which makes the passes somewhat slower.
func BenchmarkEvents(b *testing.B) {
	const size = 256 << 20
	f := sparse(b, size)
	buf := make([]byte, 1<<20)
	pass := func(b *testing.B, c pagecache.Cache, random bool) {
		advice := unix.FADV_NORMAL
		if random {
			advice = unix.FADV_RANDOM // single pages
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, advice); err != nil {
			b.Fatal(err)
		}
		for off := int64(0); off < size; off += int64(len(buf)) {
			if _, err := f.ReadAt(buf, off); err != nil {
				b.Fatal(err)
			}
		}
		if err := c.Evict(f, pagecache.Range{Len: size}); err != nil {
			b.Fatal(err)
		}
	}
	for _, random := range []bool{false, true} {
		for _, state := range []string{"no program", "not watched", "watched"} {
			b.Run(fmt.Sprintf("%s/%s", map[bool]string{false: "large folios", true: "single pages"}[random], state), func(b *testing.B) {
				method := pagecache.BPF
				if state == "no program" {
					method = pagecache.Cachestat
				}
				c := open(b, pagecache.Config{Method: method})
				if state == "watched" {
					if _, err := c.Watch(f); err != nil {
						b.Fatal(err)
					}
				}
				b.SetBytes(size)
				stats := func() (uint64, time.Duration) { return 0, 0 }
				if method == pagecache.BPF {
					stats = startStats(b, "page_added", "page_removed")
				}
				before := cpuTime(b)
				for b.Loop() {
					pass(b, c, random)
				}
				b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N)/(size/1e9), "cpu-s/GB")
				if events, took := stats(); events > 0 {
					b.ReportMetric(float64(took)/float64(events), "ns/event")
					b.ReportMetric(float64(events)/float64(b.N), "events/op")
				}
			})
		}
	}
}

// BenchmarkReads has another process read in pieces of 4 KiB what is in memory.
func BenchmarkReads(b *testing.B) {
	const size = 256 << 20
	f := sparse(b, size)
	for _, watched := range []bool{false, true} {
		b.Run(fmt.Sprintf("watched=%t", watched), func(b *testing.B) {
			c := open(b, pagecache.Config{Method: pagecache.BPF})
			w, err := c.Watch(f)
			if err != nil {
				b.Fatal(err)
			}
			w.(pagecache.ReadWatched).TakeReads() // from now on they are seen
			if !watched {
				w.Close()
			}
			stats := startStats(b, "pages_read")
			b.SetBytes(size)
			for b.Loop() {
				if err := exec.Command("dd", "if="+f.Name(), "of=/dev/null", "bs=4k").Run(); err != nil {
					b.Fatal(err)
				}
			}
			if events, took := stats(); events > 0 {
				b.ReportMetric(float64(took)/float64(events), "ns/event")
				b.ReportMetric(float64(events)/float64(b.N), "events/op")
			}
		})
	}
}

// startStats has the kernel measure BPF programs. The function that it returns
// tells of those of these names that were loaded last, by this process.
func startStats(b *testing.B, names ...string) func() (events uint64, took time.Duration) {
	stop, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return func() (uint64, time.Duration) { return 0, 0 }
	}
	b.Cleanup(func() { stop.Close() })
	newest := map[string]*ebpf.Program{}
	for id := ebpf.ProgramID(0); ; {
		if id, err = ebpf.ProgramGetNextID(id); err != nil {
			break
		}
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue
		}
		b.Cleanup(func() { p.Close() })
		if info, err := p.Info(); err == nil {
			newest[info.Name] = p
		}
	}
	return func() (events uint64, took time.Duration) {
		for _, name := range names {
			if s, err := newest[name].Stats(); err == nil {
				events += s.RunCount
				took += s.Runtime
			}
		}
		return events, took
	}
}

func name(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("f%05d", i)) }
