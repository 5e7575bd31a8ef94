package names

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"headrace/internal/testkit"
	"headrace/quorum"
)

// trio is three Groups in one process, which hear of each other's views as by beats.
type trio struct {
	mu  sync.Mutex
	all map[uint32]*Group // by their numbers
}

func (o *trio) send(m quorum.Message) {
	o.mu.Lock()
	to := o.all[m.To.Node()]
	o.mu.Unlock()
	if to != nil {
		to.Deliver(m)
	}
}

func (o *trio) groups() (all []*Group) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, g := range o.all {
		all = append(all, g)
	}
	return all
}

// threeOf starts so many nodes, one after the other, and waits until all vote.
func threeOf(t *testing.T, nodes int) []*Group {
	t.Helper()
	o := &trio{all: map[uint32]*Group{}}
	var all []*Group
	admit := func(name string) (v *View, number uint32) {
		testkit.Await(t, name+" to be admitted", func() bool {
			for _, g := range all {
				var err error
				if v, number, err = g.Admit(t.Context(), Member{Name: name}); err == nil {
					return true
				}
			}
			return false
		})
		return v, number
	}
	for i, name := range []string{"one", "two", "three"}[:nodes] {
		dir := t.TempDir()
		s := database(t, dir)
		number := uint32(1)
		if i > 0 {
			v, n := admit(name)
			number = n
			if err := s.db.Update(func(tx *bolt.Tx) error {
				if err := errors.Join(tx.DeleteBucket(nodeBucket), tx.DeleteBucket([]byte(stateBuckets[0]))); err != nil {
					return err
				}
				_, err := tx.CreateBucket(nodeBucket)
				_, serr := State(tx)
				return errors.Join(err, serr, Follow(tx, v))
			}); err != nil {
				t.Fatal(err)
			}
		}
		g, err := Open(Config{DB: s.db, Dir: filepath.Join(dir, "log"), Self: name, Send: o.send, Now: time.Now, Log: testLog(t), Tick: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
		o.mu.Lock()
		o.all[number] = g
		o.mu.Unlock()
	}
	ctx, stop := context.WithCancel(context.Background())
	var told sync.WaitGroup
	told.Go(func() {
		beat := time.NewTicker(5 * time.Millisecond)
		defer beat.Stop()
		for ctx.Err() == nil {
			<-beat.C
			for _, a := range o.groups() {
				for _, b := range o.groups() {
					a.Learn(b.View())
				}
			}
		}
	})
	t.Cleanup(func() {
		stop()
		told.Wait()
		o.mu.Lock()
		o.all = nil
		o.mu.Unlock()
		for _, g := range all {
			g.Close()
		}
	})
	testkit.Await(t, "all to vote", func() bool {
		for _, g := range all {
			if s, err := g.Raft(); err != nil || len(s.Voters) != nodes || s.Joint || g.machine.agreed() == nil {
				return false
			}
		}
		return true
	})
	return all
}

// stray has a state become another one than it should, with the right sum: no reading of it finds that.
func (g *Group) stray() {
	m := g.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	key, value := []byte("\x00stray"), []byte("planted")
	m.sum += sumOf(key, value)
	m.active.Set(string(key), value)
	m.active.Set(string(indexKey), ofNumber(m.index))
	m.active.Set(string(digestKey), encodeDigest(m.index, m.sum))
	m.publish()
}

// TestStrayIsFound: of three nodes one comes to another state, where nobody looks. It ends, says why, and does not start with it again; the others go on.
func TestStrayIsFound(t *testing.T) {
	all := threeOf(t, 3)
	mkdir := func(name string) error {
		for {
			for _, g := range all {
				err := g.mkdir(name)
				if _, other := errors.AsType[*NotLeader](err); !other && !errors.Is(err, ErrStrays) && !errors.Is(err, ErrUncertain) {
					return err
				}
			}
			time.Sleep(time.Millisecond)
		}
	}
	for i := range 50 {
		if err := mkdir(fmt.Sprint("a", i)); err != nil {
			t.Fatal(err)
		}
	}
	lost := all[2]
	if _, err := lost.machine.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost.stray()
	if _, err := lost.machine.check(t.Context()); err != nil {
		t.Fatalf("reading it finds it: %v", err)
	}
	<-lost.Failed()
	if err := lost.Failure(); !errors.Is(err, ErrStrays) {
		t.Error(err)
	}
	for _, g := range all[:2] {
		if err := g.Failure(); err != nil {
			t.Error(err)
		}
	}
	if err := lost.Close(); err != nil {
		t.Error(err)
	}
	if err := mkdir("after"); err != nil {
		t.Error(err)
	}
	if g, err := Open(lost.config); err == nil {
		g.Close()
		t.Error("it starts with what it has")
	} else if !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if others, replica, err := Ill(lost.config.DB, lost.config.Dir, false, testLog(t)); err != nil || others == nil || len(others.Seats) != 3 || replica != others.Seats[lost.self] {
		t.Errorf("it is to be healed: %v, %x, %v", others, replica, err)
	}
}

// TestTwoDiffer: of two nodes nobody knows which is right. Both say so, and go on.
func TestTwoDiffer(t *testing.T) {
	all := threeOf(t, 2)
	all[1].stray()
	for i, g := range all {
		other := all[1-i].self
		testkit.Await(t, "the difference to be known", func() bool { d := g.Differing(); return len(d) == 1 && d[0] == other })
		if err := g.Failure(); err != nil {
			t.Error(err)
		}
	}
}
