package dfs

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"headrace/block"
	"headrace/internal/vfs"
	"headrace/wire"
)

// TestFenceTakesLong: who asks for a copy that has lost the power, and is so large that it takes long to read, does not wait for that. It is read once, however often somebody asks.
func TestFenceTakesLong(t *testing.T) {
	mem := vfs.NewMem(64<<20, 1)
	var reads atomic.Int32
	var slow atomic.Bool
	let, came := make(chan struct{}), make(chan struct{}, 100)
	start := func() *Keeper {
		s := must[*block.Store](t)(block.Open(block.Config{Dirs: []string{"/d"}, FS: &vfs.Faulty{FS: mem, Fail: func(op vfs.Op) error {
			if op.Kind == "read" && strings.HasPrefix(op.Name, "/d/files/") && slow.Load() && op.Len > 1000 {
				reads.Add(1)
				came <- struct{}{}
				<-let
			}
			return nil
		}}}))
		return newKeeper(&Node{Blocks: s, ctx: t.Context(), Config: Config{}.filled()})
	}
	k := start()
	w := must[*block.Writer](t)(k.n.Blocks.Create(block.Block{ID: 1, Stamp: 1}, 1, 1<<16, false))
	if err := errors.Join(w.Write(bytes.Repeat([]byte("0123456789"), 1000), 0), w.Sync()); err != nil {
		t.Fatal(err)
	}
	mem.Kill()
	mem.Restart(true)
	k = start()
	slow.Store(true)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan error, 1)
		go func() {
			_, err := k.fence(ctx, 1, 5, false)
			asked <- err
		}()
		if reads.Load() == 0 {
			<-came
		}
		cancel()
		if err := <-asked; !errors.Is(err, errReading) {
			t.Errorf("%v", err)
		}
	}
	if i := must[block.Info](t)(k.n.Blocks.Stat(1)); i.State != block.Recovering {
		t.Errorf("nothing is promised: %+v", i)
	}
	close(let)
	k.n.running.Wait() // until it is read
	before := reads.Load()
	for recovery := range uint64(3) {
		c, err := k.fence(t.Context(), 1, 5+recovery, false)
		if err != nil || c.Length != 10_000 || c.State != wire.BlockCopy_WAITING {
			t.Errorf("%v, %v", c, err)
		}
	}
	if n := reads.Load(); n != before {
		t.Error("it is read again")
	}
	if err := k.n.Blocks.FinishRecovery(block.Block{ID: 1, Stamp: 1}, 7, 10_000); err != nil {
		t.Fatal(err)
	}
	if k.readings.forget(k.n.Blocks); len(k.readings.of) > 0 {
		t.Error("it is remembered for ever")
	}
}
