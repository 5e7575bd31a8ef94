package quorum

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headrace/internal/vfs"
)

var syncTime = flag.Duration("synctime", 0, "how much longer an fsync takes in benchmarks, as on a slower device")

// counter counts commands, and answers how many there were.
type counter struct{ n, index atomic.Uint64 }

func (c *counter) Durable() uint64 { return c.index.Load() }

func (c *counter) Apply(entries []Entry) ([][]byte, error) {
	answers := make([][]byte, len(entries))
	for i, e := range entries {
		answers[i] = binary.BigEndian.AppendUint64(nil, c.n.Add(1))
		c.index.Store(e.Index)
	}
	return answers, nil
}

func (c *counter) Snapshot() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(binary.BigEndian.AppendUint64(nil, c.n.Load()))), nil
}

func (c *counter) Restore(index uint64, r io.Reader) error {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return err
	}
	c.n.Store(binary.BigEndian.Uint64(b[:]))
	c.index.Store(index)
	return nil
}

// cluster is nodes of one process.
type cluster struct {
	drivers  [3]*Driver
	machines [3]map[uint64]*counter
	leaders  chan [2]uint64 // group and leader, as the leader itself tells
	syncs    atomic.Int64
}

// newCluster starts three nodes with so many groups, whose logs are in dir.
func newCluster(t testing.TB, dir string, groups []uint64, tick time.Duration) *cluster {
	t.Helper()
	c := &cluster{leaders: make(chan [2]uint64, 1000)}
	members := []Replica{NewReplica(1, 1), NewReplica(2, 1), NewReplica(3, 1)}
	var nodes []*Node
	for i := range c.drivers {
		c.machines[i] = map[uint64]*counter{}
		fs := &vfs.Faulty{FS: vfs.OS{}, Fail: func(o vfs.Op) error {
			if o.Kind == "sync" {
				c.syncs.Add(1)
				time.Sleep(*syncTime)
			}
			return nil
		}}
		n, err := Open(Config{Dir: filepath.Join(dir, fmt.Sprint(i+1)), FS: fs,
			Machine: func(g uint64) (Machine, error) {
				c.machines[i][g] = &counter{}
				return c.machines[i][g], nil
			},
			Send: func(m Message) { c.drivers[m.To.Node()-1].Deliver(m) },
			Leader: func(g, _ uint64, leader Replica) {
				if leader != members[i] {
					return
				}
				select {
				case c.leaders <- [2]uint64{g, uint64(i)}:
				default: // nobody reads any more, and on a busy machine there is one after the other
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			if err := n.Create(g, members[i], members); err != nil {
				t.Fatal(err)
			}
		}
		nodes = append(nodes, n)
	}
	var ready sync.WaitGroup
	ready.Add(1)
	for i, n := range nodes {
		send := n.config.Send
		n.config.Send = func(m Message) { ready.Wait(); send(m) }
		c.drivers[i] = Drive(n, tick)
	}
	ready.Done()
	return c
}

func (c *cluster) close(t testing.TB) {
	for _, d := range c.drivers {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// lead waits until all groups have leaders.
func (c *cluster) lead(groups int) map[uint64]*Driver {
	all := map[uint64]*Driver{}
	for len(all) < groups {
		l := <-c.leaders
		all[l[0]] = c.drivers[l[1]]
	}
	return all
}

func TestDriver(t *testing.T) {
	groups := []uint64{1, 2}
	c := newCluster(t, t.TempDir(), groups, 5*time.Millisecond)
	defer c.close(t)
	c.lead(len(groups))
	ctx := t.Context()
	// A leader may change at any time; who asks follows.
	ask := func(f func(*Driver) error) {
		t.Helper()
		for i := 0; ; {
			err := f(c.drivers[i])
			var notLeader *NotLeader
			if errors.As(err, &notLeader) {
				if i = (i + 1) % 3; notLeader.Leader != 0 {
					i = int(notLeader.Leader.Node()) - 1
				}
			}
			if err == nil {
				return
			}
			if notLeader == nil && !errors.Is(err, ErrUncertain) && !errors.Is(err, ErrBusy) {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // those who are to answer have the processors
		}
	}
	for _, g := range groups {
		var before uint64
		for range 20 {
			ask(func(d *Driver) error {
				answer, err := d.Propose(ctx, g, []byte("one more"))
				if err == nil {
					if n := binary.BigEndian.Uint64(answer); n <= before {
						t.Errorf("%d after %d", n, before)
					} else {
						before = n
					}
				}
				return err
			})
		}
		ask(func(d *Driver) error {
			err := d.Read(ctx, g)
			if err == nil {
				if n := c.machines[slices.Index(c.drivers[:], d)][g].n.Load(); n < before {
					t.Errorf("reads %d after %d", n, before)
				}
			}
			return err
		})
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.drivers[0].Propose(gone, 1, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := c.drivers[0].Do(func(n *Node) error { return n.Transfer(9, 1) }); !errors.Is(err, ErrNoGroup) {
		t.Error(err)
	}
}

// BenchmarkCommits has 256 callers propose 100 bytes to 16 groups of 3 nodes, whose logs are on
// one device: with one log for all groups of a node, and with one for each.
func BenchmarkCommits(b *testing.B) {
	var groups []uint64
	for g := range uint64(16) {
		groups = append(groups, g+1)
	}
	for name, clusters := range map[string]int{"one log": 1, "a log each": len(groups)} {
		b.Run(name, func(b *testing.B) {
			lead := map[uint64]*Driver{}
			var all []*cluster
			for part := range slices.Chunk(groups, len(groups)/clusters) {
				c := newCluster(b, b.TempDir(), part, 100*time.Millisecond)
				defer c.close(b)
				all = append(all, c)
			}
			for _, c := range all {
				for g, d := range c.lead(len(groups) / clusters) {
					lead[g] = d
				}
				c.syncs.Store(0)
			}
			var left, bad atomic.Int64
			left.Store(int64(b.N))
			times := make([][]time.Duration, 256)
			data := make([]byte, 100)
			b.ResetTimer()
			var wait sync.WaitGroup
			for i := range times {
				wait.Go(func() {
					for left.Add(-1) >= 0 {
						begin := time.Now()
						g := groups[i%len(groups)]
						if _, err := lead[g].Propose(b.Context(), g, data); err != nil {
							bad.Add(1)
						}
						times[i] = append(times[i], time.Since(begin))
					}
				})
			}
			wait.Wait()
			b.StopTimer()
			sorted := slices.Concat(times...)
			slices.Sort(sorted)
			syncs := int64(0)
			for _, c := range all {
				syncs += c.syncs.Load()
			}
			seconds := b.Elapsed().Seconds()
			b.ReportMetric(float64(int64(b.N)-bad.Load())/seconds, "commits/s")
			b.ReportMetric(float64(syncs)/seconds, "fsyncs/s")
			b.ReportMetric(float64(sorted[len(sorted)/2].Microseconds())/1e3, "ms-median")
			b.ReportMetric(float64(sorted[len(sorted)*99/100].Microseconds())/1e3, "ms-99%")
			if bad.Load() > 0 {
				b.Logf("%d failed", bad.Load())
			}
		})
	}
}

// impatient is the context of somebody who goes as soon as the call is in line.
type impatient struct {
	context.Context
	asked bool
}

func (c *impatient) Err() error {
	if !c.asked {
		c.asked = true
		return nil
	}
	return context.Canceled
}

func (c *impatient) Done() <-chan struct{} {
	gone := make(chan struct{})
	close(gone)
	return gone
}

// TestGivenUp: calls of those who have gone while a round lasts long take nobody's place, and are not begun.
func TestGivenUp(t *testing.T) {
	n, err := Open(Config{Dir: t.TempDir(), FS: vfs.OS{}, Send: func(Message) {}})
	if err != nil {
		t.Fatal(err)
	}
	d := Drive(n, time.Hour)
	began, end := make(chan struct{}), make(chan struct{})
	var round sync.WaitGroup
	round.Go(func() { d.Do(func(*Node) error { close(began); <-end; return nil }) })
	<-began
	for range mostCalls + 1 {
		if _, err := d.Propose(&impatient{Context: t.Context()}, 1, nil); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUncertain) {
			t.Fatal(err)
		}
	}
	round.Go(func() {
		if err := d.Do(func(*Node) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	close(end)
	round.Wait()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
