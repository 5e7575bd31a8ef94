package blocks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/hdfs/replica"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/warm"
)

// Near is the node on this machine of a file system of ours (headrace dfs), which keeps several blocks in one file, and tells where.
type Near struct {
	// Address is that of its RPC, HOST:PORT.
	Address string

	line line
	// disks are the ways to those of the node, by its directories. It is asked by one goroutine at a time.
	disks map[string]*replica.Line
	opens func(*extent) (*os.File, error) // nil but in tests
}

// Find implements Replicas.
func (n *Near) Find(ctx context.Context, b headrace.Block) (*Copy, error) {
	c, e, err := n.extent(ctx, b.ID)
	if err == nil && (int64(e.stamp) != b.Generation || e.bytes != b.Bytes) {
		c.Data.Close()
		err = fmt.Errorf("%s: %w: it has generation %d and %d bytes", b.ID, replica.ErrChanged, e.stamp, e.bytes)
	}
	if err != nil {
		return nil, err
	}
	c.Files = []warm.File{{Path: e.path, Off: e.part.Off, Size: e.part.Len}}
	return c, nil
}

// Any implements Replicas.
func (n *Near) Any(ctx context.Context, id headrace.BlockID) (*Copy, error) {
	c, _, err := n.extent(ctx, id)
	return c, err
}

// extent is where a finished copy lies, as a process of owner has said.
type extent struct {
	owner uint32
	path  string
	part  pagecache.Range
	stamp uint64
	bytes int64
}

func (n *Near) extent(ctx context.Context, id headrace.BlockID) (*Copy, extent, error) {
	e, err := n.line.ask(ctx, n.Address, id.Pool, uint64(id.Number))
	if err != nil {
		return nil, e, err
	}
	f, err := n.open(ctx, e)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, e, ctx.Err()
	case errors.Is(err, os.ErrNotExist):
		return nil, e, replica.ErrAbsent
	case errors.Is(err, os.ErrPermission):
		return nil, e, fmt.Errorf("%w: %w", replica.ErrRights, err)
	case err != nil:
		return nil, e, fmt.Errorf("%w: %w", replica.ErrVolume, err)
	}
	return &Copy{Data: f, Part: e.part, Bytes: e.bytes}, e, nil
}

// mostDisks is how many are remembered; further ones share a way.
const mostDisks = 64

// open opens a file, unless its disk does not answer: who waits has the disks beside it to tell of.
func (n *Near) open(ctx context.Context, e extent) (*os.File, error) {
	at := filepath.Dir(filepath.Dir(filepath.Dir(e.path))) // see block.Store
	if n.disks[at] == nil && len(n.disks) >= mostDisks {
		at = ""
	}
	disk := n.disks[at]
	if disk == nil {
		if n.disks == nil {
			n.disks = map[string]*replica.Line{}
		}
		disk = replica.NewLine()
		n.disks[at] = disk
	}
	open := n.opens
	if open == nil {
		open = (*extent).open
	}
	return replica.Ask(ctx, disk, func() (*os.File, error) { return open(&e) }, func(late *os.File) { late.Close() })
}

// open opens what is a file, and nothing else, of whoever has named it: anybody may be at the port while the node is not, and is
// not to have root open more than they could themselves.
func (e *extent) open() (*os.File, error) {
	f, err := linux.OpenRegular(e.path, os.O_RDONLY)
	if err != nil || e.owner == 0 || e.owner == uint32(os.Geteuid()) {
		return f, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil && st.Uid != e.owner {
		err = fmt.Errorf("%w: user %d has named %s, which is user %d's", os.ErrPermission, e.owner, e.path, st.Uid)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
