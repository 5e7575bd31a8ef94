package solo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headrace"
	"headrace/policy"
	"headrace/proc/checkpoint"
	"headrace/solo/store"
	"headrace/wire"
)

// shared has a daemon use a store that others use, and one of its own.
func (b *bed) shared(dir string) {
	b.cfg.Stores = []store.Config{{Name: "shared", Dir: dir}, {Name: "own", Dir: filepath.Join(b.cfg.StateDir, "own")}}
}

// TestStoreOfAnother: a daemon leaves the store of another one alone, says whose it is, and goes on with its
// others. When it takes it over no task of its own is called as one that has left something there.
func TestStoreOfAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	first := newBed(t, policy.Wait)
	first.shared(dir)
	first.start()
	first.shutdown()
	if err := os.Mkdir(filepath.Join(dir, "t40"), 0o700); err != nil {
		t.Fatal(err)
	}
	b := newBed(t, policy.Wait)
	b.shared(dir)
	b.start()
	id := b.run(headrace.Normal)
	b.awaitState(id, headrace.Running)
	q := &wire.VerbRequest{Id: string(id), Store: "shared"}
	_, err := b.tasks.Checkpoint(b.ctx(), q)
	if err == nil || !strings.Contains(err.Error(), first.cfg.StateDir) || !strings.Contains(err.Error(), "then "+filepath.Join(dir, ".owner")) {
		t.Errorf("checkpoint in the store of another daemon: %v", err)
	}
	got, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(id)})
	if err != nil || got.Checkpoint.Store != "own" {
		t.Errorf("checkpoint anywhere: %v, %v", got, err)
	}
	b.shutdown()
	if err := os.Remove(filepath.Join(dir, ".owner")); err != nil {
		t.Fatal(err)
	}
	b.start()
	if next := b.run(headrace.Normal); next != "t41" {
		t.Errorf("with a store taken over that t40 was in, the next task is %s", next)
	}
	b.shutdown()
	if err := first.tryStart(); err != nil {
		t.Fatal("a daemon whose store was taken over does not start:", err)
	}
	if away := first.storeAway("shared"); !errors.Is(away, checkpoint.ErrForeign) {
		t.Errorf("its store: %v", away)
	}
}

// storeAway returns why a store cannot be used.
func (b *bed) storeAway(name string) (away error) {
	told := make(chan struct{})
	b.loop.post(func() {
		away = b.loop.stores.Away(b.loop.stores.Named(name).Dir)
		close(told)
	})
	<-told
	return away
}

// TestStoreStaysOwn: a store is its daemon's also when the records were moved away, the whole state directory has been
// moved, or an older version has used it.
func TestStoreStaysOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	b := newBed(t, policy.Wait)
	b.shared(dir)
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"first use", func() error { return nil }},
		{"records moved away", func() error {
			db := filepath.Join(b.cfg.StateDir, "state.db")
			return os.Rename(db, db+".away")
		}},
		{"state directory moved", func() error {
			to := filepath.Join(t.TempDir(), "elsewhere")
			err := os.Rename(b.cfg.StateDir, to)
			b.cfg.StateDir, b.world.dir = to, to
			b.shared(dir)
			return err
		}},
		{"older version", func() error {
			return errors.Join(os.Remove(filepath.Join(dir, ".owner")), os.Remove(filepath.Join(b.cfg.StateDir, "identity")))
		}},
	} {
		if err := c.do(); err != nil {
			t.Fatal(c.name, err)
		}
		b.start()
		if away := b.storeAway("shared"); away != nil {
			t.Errorf("%s: %v", c.name, away)
		}
		b.shutdown()
		if _, err := os.Stat(filepath.Join(dir, ".owner")); errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: nobody owns it", c.name)
		}
	}
}
