package blocks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"headrace/hdfs/ipc"
	"headrace/hdfs/replica"
	"headrace/internal/linux"
	"headrace/pagecache"
	"headrace/wire"
)

// line is a connection to the node of a file system, which is kept. Both ends ask the kernel whose the other is.
type line struct {
	mu     sync.Mutex
	client *ipc.Client
	owner  uint32 // of the process at the other end
	// The last call that has failed, without an answer.
	failed time.Time
	err    error
	within time.Duration // lineTime, but for tests
}

// lineTime is how long an answer may take.
const lineTime = 2 * time.Second

// ask asks where a finished copy of a block lies.
func (l *line) ask(ctx context.Context, address, pool string, block uint64) (extent, error) {
	a := &wire.ExtentResponse{}
	owner, err := l.call(ctx, address, &wire.ExtentRequest{Pool: pool, Block: block}, a)
	if err != nil {
		return extent{}, fmt.Errorf("%w: ask the node at %s: %w", replica.ErrVolume, address, err)
	}
	switch a.GetCopy().GetState() {
	case wire.BlockCopy_NONE:
		return extent{}, replica.ErrAbsent
	case wire.BlockCopy_FINAL:
		return extent{owner, a.Path, pagecache.Range{Off: a.Offset, Len: a.Size}, a.Copy.Stamp, a.Copy.Length}, nil
	}
	return extent{}, replica.ErrNotFinalized
}

// call returns whose process has answered. After a call without an answer the next ones of the round fail at once: there may be
// thousands.
func (l *line) call(ctx context.Context, address string, q *wire.ExtentRequest, a *wire.ExtentResponse) (owner uint32, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	within := cmp.Or(l.within, lineTime)
	if time.Since(l.failed) < within {
		return 0, l.err
	}
	in, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	protocol := string(wire.File_dfsblocks_proto.Services().ByName("LocalBlocks").FullName())
	for fresh := false; ; {
		if l.client == nil {
			if l.client, err = ipc.Dial(in, address, ipc.Options{Protocol: protocol, User: ipc.User{Name: "headrace"}}); err != nil {
				l.client = nil
				break
			}
			fresh = true
		}
		err = l.client.Call(in, "Extent", q, a)
		if _, said := errors.AsType[*ipc.Exception](err); said {
			return 0, err
		}
		if err == nil && fresh { // now that it has taken the connection it has an owner
			here, there := l.client.Ends()
			l.owner, err = linux.TCPOwner(there, here)
		}
		if err == nil {
			return l.owner, nil
		}
		l.client.Close()
		if l.client = nil; fresh { // else the node may have ended the connection, or be another one by now
			break
		}
	}
	if ctx.Err() == nil {
		l.failed, l.err = time.Now(), err
	}
	return 0, err
}
