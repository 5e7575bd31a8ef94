package gateway

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/block"
	"headrace/internal/testkit"
	"headrace/internal/vfs"
)

// disks are those of a node, below one directory.
type disks struct {
	vfs.FS
	mu   sync.Mutex
	full bool            // there is no room on any
	bad  map[string]bool // those that cannot be written
}

func newDisks() *disks {
	d := &disks{bad: map[string]bool{}}
	d.FS = &vfs.Faulty{FS: vfs.OS{}, Fail: d.fail}
	return d
}

func (d *disks) fail(op vfs.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for dir := range d.bad {
		if strings.HasPrefix(op.Name, dir) && (op.Kind == "write" || op.Kind == "sync" || op.Kind == "syncdir") {
			return unix.EIO
		}
	}
	return nil
}

func (d *disks) set(full bool, bad ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
	clear(d.bad)
	for _, dir := range bad {
		d.bad[dir] = true
	}
}

// Space is that of a disk of 64 GB, which is full to its twentieth or empty.
func (d *disks) Space(string) (free, total int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		return 2 << 30, 64 << 30, nil
	}
	return 60 << 30, 64 << 30, nil
}

// TestOneOfTwoDisksFails: each node has two disks. Of one the first fails while clients write, and the second has no room; it says so, and nothing is lost. It is started again, with
// the first still failing, then with room, and then with the first as good as new: each time all else goes on, and at the end all copies are there once.
func TestOneOfTwoDisksFails(t *testing.T) {
	all := map[int]*disks{}
	c := startCluster(t, 3, func(c *cluster) {
		c.begin = func(p *peerNode) {
			dir := t.TempDir()
			all[p.i] = newDisks()
			p.disks, p.fs = []string{filepath.Join(dir, "1"), filepath.Join(dir, "2")}, all[p.i]
		}
	})
	const n = 60_000
	c.write("/before", 3, 4096, n)
	c.replicated("/before", 3)
	p := c.nodes[2]
	bad, own := p.disks[0], all[p.i]
	if v := p.node.Blocks.Volumes()[0]; v.Replicas == 0 {
		t.Fatal("the first disk has no block")
	}
	w := c.create("/during", 3, 4096)
	c.put(w, 0, n/2)
	own.set(true, bad)
	c.put(w, n/2, n)
	c.close(w)
	testkit.Await(t, "the disk to be out of use", func() bool { return errors.Is(p.node.Blocks.Volumes()[0].Cause, block.ErrOut) })
	testkit.Await(t, "the node to say that it has no room for what it has lost", func() bool {
		r := p.node.Room()
		return r.Homeless > 0 && len(r.Failed) == 1 && r.Failed[0].Dir == bad
	})
	whole := func() {
		t.Helper()
		c.wantFile("/before", n)
		c.wantFile("/during", n)
	}
	whole()
	again := func() {
		t.Helper()
		p.kill()
		p.start()
		c.back(p)
	}
	again()
	whole()
	if v := p.node.Blocks.Volumes(); v[1].Cause != nil {
		t.Fatalf("the other disk is out of use: %v", v[1].Cause)
	}
	own.set(false, bad)
	again()
	c.settled()
	c.replicated("/before", 3)
	c.replicated("/during", 3)
	whole()
	own.set(false)
	again()
	c.settled()
	c.replicated("/before", 3)
	c.replicated("/during", 3)
	whole()
	volumes := p.node.Blocks.Volumes()
	if volumes[0].Cause != nil || volumes[1].Cause != nil || volumes[0].Replicas+volumes[1].Replicas != int64(p.node.Blocks.Number()) || p.node.Room().Homeless != 0 {
		t.Errorf("%+v, %d blocks, %+v", volumes, p.node.Blocks.Number(), p.node.Room())
	}
}
