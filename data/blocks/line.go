package blocks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"headrace/hdfs/ipc"
	"headrace/hdfs/replica"
	"headrace/pagecache"
	"headrace/wire"
)

// line is a connection to the node of a file system, which is kept. The node asks the kernel whose it is.
type line struct {
	mu     sync.Mutex
	client *ipc.Client
}

// lineTime is how long an answer may take.
const lineTime = 2 * time.Second

// ask asks where a finished copy of a block lies.
func (l *line) ask(ctx context.Context, address, pool string, block uint64) (extent, error) {
	a := &wire.ExtentResponse{}
	if err := l.call(ctx, address, &wire.ExtentRequest{Pool: pool, Block: block}, a); err != nil {
		return extent{}, fmt.Errorf("%w: ask the node at %s: %w", replica.ErrVolume, address, err)
	}
	switch a.GetCopy().GetState() {
	case wire.BlockCopy_NONE:
		return extent{}, replica.ErrAbsent
	case wire.BlockCopy_FINAL:
		return extent{a.Path, pagecache.Range{Off: a.Offset, Len: a.Size}, a.Copy.Stamp, a.Copy.Length}, nil
	}
	return extent{}, replica.ErrNotFinalized
}

func (l *line) call(ctx context.Context, address string, q *wire.ExtentRequest, a *wire.ExtentResponse) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lineTime)
	defer cancel()
	protocol := string(wire.File_dfsblocks_proto.Services().ByName("LocalBlocks").FullName())
	for fresh := false; ; {
		if l.client == nil {
			c, err := ipc.Dial(ctx, address, ipc.Options{Protocol: protocol, User: ipc.User{Name: "headrace"}})
			if err != nil {
				return err
			}
			l.client, fresh = c, true
		}
		err := l.client.Call(ctx, "Extent", q, a)
		if _, said := errors.AsType[*ipc.Exception](err); err == nil || said {
			return err
		}
		l.client.Close()
		if l.client = nil; fresh { // else the node may have ended the connection, or be another one by now
			return err
		}
	}
}
