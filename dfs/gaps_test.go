package dfs

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"headrace/block"
	"headrace/internal/vfs"
	"headrace/wire"
)

// TestNothingBesideAGap: a node of whose disk a part cannot be read says of blocks that cannot be there that it does not have them: else each block that a writer has left before
// its first byte would keep its file open for as long as the disk is there.
func TestNothingBesideAGap(t *testing.T) {
	mem := vfs.NewMem(1<<24, 1)
	store := must[*block.Store](t)(block.Open(block.Config{Dirs: []string{"/d"}, FS: mem}))
	w := must[*block.Writer](t)(store.Create(block.Block{ID: 1, Stamp: 1}, 7, 1000, false))
	if err := errors.Join(w.Write([]byte("hidden"), 0), w.Finalize(6)); err != nil {
		t.Fatal(err)
	}
	mem.Kill()
	mem.Restart(false)
	store = must[*block.Store](t)(block.Open(block.Config{Dirs: []string{"/d"}, FS: &vfs.Faulty{FS: mem, Fail: func(op vfs.Op) error {
		if op.Kind == "read" && strings.HasPrefix(op.Name, "/d/files/") {
			return unix.EIO
		}
		return nil
	}}}))
	n := &Node{Blocks: store}
	if r := RoomFrom(n.Room().Wire()); r.Gaps != 1 || len(r.SomeGaps) != 1 || r.SomeGaps[0].Dir != "/d" || r.SomeGaps[0].File != 7 || r.SomeGaps[0].From != 0 ||
		r.SomeGaps[0].To != math.MaxInt64 || !strings.Contains(r.SomeGaps[0].Cause.Error(), "input/output error") {
		t.Errorf("others are told %+v", r)
	}
	k := newKeeper(&Node{Blocks: store, ctx: context.Background(), Config: Config{}.filled()})
	nobody := errors.New("nobody leads")
	for _, c := range []struct {
		what   string
		wanted *wire.WantedBlock
		err    error
		want   error
	}{
		{"of another file", &wire.WantedBlock{File: 8}, nil, nil},
		{"of that file", &wire.WantedBlock{File: 7}, nil, unix.EIO},
		{"that may have come from that file", &wire.WantedBlock{File: 8, Length: 5}, nil, unix.EIO},
		{"of no file", nil, nil, unix.EIO},
		{"of which nobody tells", nil, nobody, nobody},
	} {
		k.locate = func(context.Context, int64) (*wire.LocateResponse, error) {
			return &wire.LocateResponse{Wanted: c.wanted}, c.err
		}
		if said, err := k.fence(context.Background(), 2, 5, false); !errors.Is(err, c.want) || err == nil && said.State != wire.BlockCopy_NONE {
			t.Errorf("a block %s: %v, %v", c.what, said, err)
		}
	}
}

// TestNothingInADirectory: where a directory of a disk cannot be listed, a node says of blocks of other files that it does not have them.
func TestNothingInADirectory(t *testing.T) {
	mem := vfs.NewMem(1<<24, 1)
	var fail atomic.Bool
	c := block.Config{Dirs: []string{"/d"}, FS: &vfs.Faulty{FS: mem, Fail: func(op vfs.Op) error {
		if fail.Load() && op.Kind == "list" && op.Name == "/d/files/07" {
			return unix.EIO
		}
		return nil
	}}}
	store := must[*block.Store](t)(block.Open(c))
	for id, file := range map[int64]uint64{1: 7, 3: 9} {
		w := must[*block.Writer](t)(store.Create(block.Block{ID: id, Stamp: 1}, file, 1000, false))
		if err := errors.Join(w.Write([]byte("hidden"), 0), w.Finalize(6)); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	fail.Store(true)
	store = must[*block.Store](t)(block.Open(c))
	n := &Node{Blocks: store}
	if r := RoomFrom(n.Room().Wire()); r.Gaps != 1 || len(r.Failed) != 0 || !r.SomeGaps[0].Directory() || r.SomeGaps[0].String() != "blocks of all files in files/07" {
		t.Errorf("others are told %+v", r)
	}
	k := newKeeper(&Node{Blocks: store, ctx: context.Background(), Config: Config{}.filled()})
	for file, want := range map[uint64]error{8: nil, 7: unix.EIO, 256 + 7: unix.EIO} {
		k.locate = func(context.Context, int64) (*wire.LocateResponse, error) {
			return &wire.LocateResponse{Wanted: &wire.WantedBlock{File: file}}, nil
		}
		if said, err := k.fence(context.Background(), 2, 5, false); !errors.Is(err, want) || err == nil && said.State != wire.BlockCopy_NONE {
			t.Errorf("a block of file %d: %v, %v", file, said, err)
		}
	}
	for _, c := range []struct {
		file uint64
		want error
	}{{7, unix.EIO}, {9, nil}} {
		k.locate = func(context.Context, int64) (*wire.LocateResponse, error) {
			return &wire.LocateResponse{Wanted: &wire.WantedBlock{File: c.file, Stamp: 1, Length: 6}}, nil
		}
		if said, err := k.fence(context.Background(), 3, 5, false); !errors.Is(err, c.want) || err == nil && said.Length != 6 {
			t.Errorf("a copy that is there, of file %d now: %v, %v", c.file, said, err)
		}
	}
}

// TestOlderBesideADiskThatIsAway: a node that has an older generation of a block than is recorded, and a disk that is not mounted, does not say that this is all: what was made in the place of
// the older one may be on that disk, and nowhere else.
func TestOlderBesideADiskThatIsAway(t *testing.T) {
	mem := vfs.NewMem(1<<24, 1)
	store := must[*block.Store](t)(block.Open(block.Config{Dirs: []string{"/d", "/e"}, Known: []string{"/e"}, FS: mem}))
	w := must[*block.Writer](t)(store.Create(block.Block{ID: 1, Stamp: 1}, 7, 1000, false))
	if err := errors.Join(w.Write([]byte("older"), 0), w.Finalize(5)); err != nil {
		t.Fatal(err)
	}
	k := newKeeper(&Node{Blocks: store, ctx: context.Background(), Config: Config{}.filled()})
	nobody := errors.New("nobody leads")
	for _, c := range []struct {
		wanted *wire.WantedBlock
		closed bool
		err    error
		want   error
	}{{&wire.WantedBlock{Stamp: 2}, false, nil, block.ErrNotMounted}, {nil, false, nobody, nobody}, {&wire.WantedBlock{Stamp: 1, Length: 5}, false, nil, block.ErrNotMounted},
		{&wire.WantedBlock{Stamp: 1, Length: 6}, true, nil, block.ErrNotMounted}, {&wire.WantedBlock{Stamp: 2, Length: 5}, true, nil, block.ErrNotMounted}, {&wire.WantedBlock{Stamp: 1, Length: 5}, true, nil, nil},
		{&wire.WantedBlock{Stamp: 1}, false, nil, nil}, {&wire.WantedBlock{Stamp: 1, Length: 4}, false, nil, nil}, {nil, false, nil, nil}} {
		k.locate = func(context.Context, int64) (*wire.LocateResponse, error) {
			return &wire.LocateResponse{Wanted: c.wanted}, c.err
		}
		if said, err := k.fence(context.Background(), 1, 5, c.closed); !errors.Is(err, c.want) || err == nil && said.Length != 5 {
			t.Errorf("%v is recorded, closed %v: %v, %v", c.wanted, c.closed, said, err)
		}
	}
}

// TestLessBesideADiskThatIsAway: of what is recorded a node has a copy that has lost its end with the power, or is damaged, and a disk that is not mounted. It does not say that this is all: a
// good one may have been made in its place.
func TestLessBesideADiskThatIsAway(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		mem := vfs.NewMem(1<<24, 1)
		c := block.Config{Dirs: []string{"/d", "/e"}, Known: []string{"/e"}, FS: mem}
		store := must[*block.Store](t)(block.Open(c))
		w := must[*block.Writer](t)(store.Create(block.Block{ID: 1, Stamp: 1}, 7, 1000, false))
		err := errors.Join(w.Write([]byte("less"), 0), w.Sync())
		if damaged {
			err = errors.Join(err, w.Finalize(4))
			mem.Flip("/d/files/07/0000000000000007.blocks", 4096+64<<10, 0)
			store.Scrub(t.Context(), 1<<40)
		} else {
			mem.Kill()
			mem.Restart(true)
			store = must[*block.Store](t)(block.Open(c))
		}
		if i := must[block.Info](t)(store.Stat(1)); err != nil || i.Damaged != damaged || (i.State == block.Waiting) == damaged || i.Length != 4 {
			t.Fatalf("%+v, %v", i, err)
		}
		k := newKeeper(&Node{Blocks: store, ctx: t.Context(), Config: Config{}.filled()})
		for length, hides := range map[int64]bool{4: damaged, 5: true} {
			k.locate = func(context.Context, int64) (*wire.LocateResponse, error) {
				return &wire.LocateResponse{Wanted: &wire.WantedBlock{Stamp: 1, Length: length}}, nil
			}
			if said, err := k.fence(t.Context(), 1, 5, true); errors.Is(err, block.ErrNotMounted) != hides || !hides && err != nil {
				t.Errorf("damaged %v, and %d bytes are recorded: %v, %v", damaged, length, said, err)
			}
		}
	}
}

// TestMoreOnADiskThatHasFailed: a block is appended to under the generation that it has, and synced; then its disk fails, and a copy that was ordered before comes, or is begun. The node does not
// say that this is all, nor that there is nothing; of what the disk has not it says what there is.
func TestMoreOnADiskThatHasFailed(t *testing.T) {
	var fail atomic.Bool
	mem := vfs.NewMem(1<<24, 1)
	store := must[*block.Store](t)(block.Open(block.Config{Dirs: []string{"/d", "/e"}, FS: &vfs.Faulty{FS: mem, Fail: func(op vfs.Op) error {
		if fail.Load() && op.Kind == "sync" && strings.HasPrefix(op.Name, "/d/") {
			return unix.EIO
		}
		return nil
	}}}))
	write := func(id int64, stamp uint64, temporary bool, text string) *block.Writer {
		w := must[*block.Writer](t)(store.Create(block.Block{ID: id, Stamp: stamp}, 7, 1000, temporary))
		if err := w.Write([]byte(text), 0); err != nil {
			t.Fatal(err)
		}
		return w
	}
	finish := func(w *block.Writer) {
		t.Helper()
		if err := errors.Join(w.Finalize(w.Length()), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []int64{0, 1, 2, 4} {
		finish(write(id, 1, false, "begin"))
	}
	w := must[*block.Writer](t)(store.Append(block.Block{ID: 1, Stamp: 1}, 1, 5))
	if err := errors.Join(w.Write([]byte(" and more"), 5), w.Sync()); err != nil {
		t.Fatal(err)
	}
	fail.Store(true)
	if err := w.Sync(); !errors.Is(err, block.ErrOut) {
		t.Fatal(err)
	}
	k := newKeeper(&Node{Blocks: store, ctx: t.Context(), Config: Config{}.filled()})
	k.locate = func(context.Context, int64) (*wire.LocateResponse, error) {
		return &wire.LocateResponse{Wanted: &wire.WantedBlock{Stamp: 1, Length: 5}}, nil
	}
	finish(write(4, 1, true, "begin"))
	mem.Flip("/e/files/07/0000000000000007.blocks", 4096+64<<10, 0)
	store.Scrub(t.Context(), 1<<40)
	if said, err := k.fence(t.Context(), 4, 5, true); !errors.Is(err, block.ErrOut) {
		t.Errorf("what has come in its place is damaged: %v, %v", said, err)
	}
	for id := range int64(2) {
		finish(write(id, 1, true, "begin"))
		said, err := k.fence(t.Context(), id, 5, false)
		if more := id == 1; errors.Is(err, block.ErrOut) != more || !more && (err != nil || said.Length != 5) {
			t.Errorf("block %d: %v, %v", id, said, err)
		}
	}
	begun := write(2, 1, true, "be")
	for range 2 {
		if said, err := k.fence(t.Context(), 2, 5, false); !errors.Is(err, block.ErrOut) {
			t.Errorf("with a copy that was begun, and was given up: %v, %v", said, err)
		}
		if err := begun.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := k.fence(t.Context(), 3, 5, false); err != nil || said.State != wire.BlockCopy_NONE {
		t.Errorf("a block that was never there: %v, %v", said, err)
	}
}

// TestManyGaps: others are told how many there are, and of some of them, whatever they are called.
func TestManyGaps(t *testing.T) {
	r := Room{Capacity: 1, Used: 2, Remaining: 3, Blocks: 4, Gaps: 1000}
	for i := range 2 * mostGaps {
		r.SomeGaps = append(r.SomeGaps, Gap{"/d\xff", block.Gap{File: uint64(i), From: 4096, To: 8192, Cause: errors.New("why \xff")}})
	}
	b, err := proto.Marshal(r.Wire())
	if err != nil {
		t.Fatal(err)
	}
	w := &wire.RingRoom{}
	if err := proto.Unmarshal(b, w); err != nil {
		t.Fatal(err)
	}
	got := RoomFrom(w)
	if len(got.SomeGaps) != mostGaps || got.SomeGaps[3].String() != "blocks of file 3 from byte 4096 to 8192" || got.SomeGaps[3].Dir != "/d?" {
		t.Errorf("%+v", got)
	}
	if got.SomeGaps = nil; got.Capacity != 1 || got.Used != 2 || got.Remaining != 3 || got.Blocks != 4 || got.Gaps != 1000 {
		t.Errorf("%+v", got)
	}
}

// TestFailedDisks: others are told which disks a node does not use, and that it has no room for blocks.
func TestFailedDisks(t *testing.T) {
	mem := vfs.NewMem(1<<24, 1)
	store := must[*block.Store](t)(block.Open(block.Config{Dirs: []string{"/a", "/b\xff"}, FS: &vfs.Faulty{FS: mem, Fail: func(op vfs.Op) error {
		if op.Kind == "sync" && strings.HasPrefix(op.Name, "/b") {
			return unix.EIO
		}
		return nil
	}}}))
	n := &Node{Blocks: store}
	n.Keeper = newKeeper(n)
	n.Keeper.homeless.Store(7)
	b, err := proto.Marshal(n.Room().Wire())
	if err != nil {
		t.Fatal(err)
	}
	w := &wire.RingRoom{}
	if err := proto.Unmarshal(b, w); err != nil {
		t.Fatal(err)
	}
	both := RoomFrom(w).Plus(Room{Failed: []FailedDisk{{"/c", "why"}}, Homeless: 1})
	if len(both.Failed) != 2 || both.Failed[0].Dir != "/b?" || !strings.Contains(both.Failed[0].Cause, "input/output error") || both.Homeless != 8 || both.Capacity != 1<<24 {
		t.Errorf("%+v", both)
	}
}
