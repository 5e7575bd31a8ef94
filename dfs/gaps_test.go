package dfs

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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
		if said, err := k.fence(2, 5); !errors.Is(err, c.want) || err == nil && said.State != wire.BlockCopy_NONE {
			t.Errorf("a block %s: %v, %v", c.what, said, err)
		}
	}
}
