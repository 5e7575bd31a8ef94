package dfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/block"
	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
	"headrace/meta"
	"headrace/wire"
)

const (
	dialTime = 10 * time.Second
	dataTime = time.Minute
	// mostFetches is how many blocks are fetched at the same time, whoever wants them, and fetchPace after how many bytes the disk is waited for:
	// so much together is before clients there, which a disk with a head writes in less than a tenth of a second.
	mostFetches = 4
	fetchPace   = 2 << 20
)

// dataConn is a connection to a node's data transfer.
type dataConn struct {
	net.Conn
	wait time.Duration // for each read and write
}

func (c dataConn) Read(p []byte) (int, error) {
	c.SetReadDeadline(time.Now().Add(c.wait))
	return c.Conn.Read(p)
}

func (c dataConn) Write(p []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(c.wait))
	return c.Conn.Write(p)
}

// dialData connects to a node, which may take so long for each read and write, until ctx ends.
func dialData(ctx context.Context, m Member, wait time.Duration) (c dataConn, stop func(), err error) {
	d := net.Dialer{Timeout: dialTime}
	nc, err := d.DialContext(ctx, "tcp", m.DataAddress())
	if err != nil {
		return c, nil, err
	}
	end := context.AfterFunc(ctx, func() { nc.Close() })
	return dataConn{nc, wait}, func() { end(); nc.Close() }, nil
}

// remote reads a part of a block at another node. Bytes that it gives are verified.
type remote struct {
	*xfer.BlockReader
	stop func()
}

func (r *remote) Close() { r.stop() }

func (k *Keeper) openAt(ctx context.Context, m Member, b meta.Block, offset, n int64) (*remote, error) {
	nc, stop, err := dialData(ctx, m, k.n.Config.DataTime)
	if err != nil {
		return nil, err
	}
	h := xfer.Header(k.block(b), "headrace", k.n.Tokens().Issue(b.ID, pb.AccessModeProto_READ, ""))
	r, err := xfer.Read(nc, h, offset, n)
	if err != nil {
		stop()
		return nil, err
	}
	return &remote{r, stop}, nil
}

// Checksum asks nodes that have a block for the MD5 of the checksums of its chunks, the nearest first.
func (k *Keeper) Checksum(ctx context.Context, b meta.LocatedBlock) ([]byte, error) {
	var failed error
	for _, m := range k.n.Places().Readers(b, k.host()) {
		nc, stop, err := dialData(ctx, m, k.n.Config.DataTime)
		if err == nil {
			h := xfer.Header(k.block(b.Block), "", k.n.Tokens().Issue(b.ID, pb.AccessModeProto_READ, "")).BaseHeader
			var a *pb.OpBlockChecksumResponseProto
			a, err = xfer.Checksum(nc, h, pb.BlockChecksumTypeProto_MD5CRC)
			stop()
			if err == nil {
				return a.GetBlockChecksum(), nil
			}
		}
		failed = errors.Join(failed, fmt.Errorf("at %s: %w", m.Name, err))
	}
	return nil, fmt.Errorf("nobody tells the checksum of block %d: %w", b.ID, failed)
}

func (k *Keeper) block(b meta.Block) xfer.Block {
	return xfer.Block{Pool: k.n.Identity.Pool, ID: b.ID, Stamp: b.Stamp, Length: b.Size}
}

// fetchTime is how long a copy of so many bytes may take.
func fetchTime(size int64) time.Duration { return dataTime + time.Duration(size>>20)*time.Second }

var errBusy = errors.New("it is being fetched already")

// fetch makes the copy of a closed block here as it is to be, from other nodes, unless it is so already.
func (k *Keeper) fetch(ctx context.Context, w *wire.WantedBlock, from []string) error {
	id := int64(w.GetBlock())
	k.mu.Lock()
	busy := k.fetching[id]
	k.fetching[id] = true
	k.mu.Unlock()
	if busy {
		return fmt.Errorf("block %d: %w", id, errBusy)
	}
	defer func() {
		k.mu.Lock()
		delete(k.fetching, id)
		k.mu.Unlock()
	}()
	b := meta.Block{ID: w.Block, Stamp: w.Stamp, Size: w.Length}
	if c := k.copyOf(id); finished(c, &b) && !c.Damaged {
		return nil
	}
	select { // in the order in which they were asked for, about
	case k.slots <- struct{}{}:
		defer func() { <-k.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if k.closeHere(b) {
		return nil
	}
	if !block.HasRoom(k.n.Blocks, id, w.Capacity) { // a block may be much shorter than all that its file lets it have
		w = proto.CloneOf(w)
		w.Capacity = w.Length
	}
	if !block.HasRoom(k.n.Blocks, id, w.Capacity) { // before another node reads what would be thrown away
		return fmt.Errorf("block %d cannot be fetched: %w", id, block.ErrFull)
	}
	// What has begun is finished, also when its turn has come late: half a copy is of no use.
	ctx, cancel := context.WithTimeout(k.n.ctx, fetchTime(b.Size))
	defer cancel()
	errs := []error{fmt.Errorf("block %d cannot be fetched", id)}
	for _, name := range from {
		if name == k.n.Identity.Node {
			continue
		}
		m, ok := k.n.View().Members[name]
		if !ok {
			continue
		}
		err := k.fetchFrom(ctx, m, b, w)
		if err == nil {
			k.n.Config.Log.Info("a copy of a block was fetched", "block", id, "length", w.Length, "from", name)
			return nil
		}
		errs = append(errs, fmt.Errorf("from %s: %w", name, err))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// closeHere closes the copy that is here of a closed block, if it has all its bytes: the power has taken the note that it was closed, and nothing else. There may be no other copy.
func (k *Keeper) closeHere(b meta.Block) bool {
	i, err := k.n.Blocks.Stat(int64(b.ID))
	if err != nil || i.State != block.Waiting || i.Stamp != b.Stamp || i.Length != b.Size || !k.readAll(i.ID, &k.rate) {
		return false
	}
	err = k.n.Blocks.Complete(i.Block, b.Stamp, b.Size)
	k.n.told("close a block again", err)
	return err == nil
}

func (k *Keeper) fetchFrom(ctx context.Context, m Member, b meta.Block, w *wire.WantedBlock) error {
	r, err := k.openAt(ctx, m, b, 0, b.Size)
	if err != nil {
		return err
	}
	defer r.Close()
	copied, err := k.CopyFor(ctx, b, w, true)
	if err != nil {
		return err
	}
	defer copied.Close()
	copied.Pace(fetchPace)
	buf := make([]byte, 64<<10)
	for at := int64(0); ; {
		n, err := io.ReadFull(r, buf)
		if rerr := k.rate.take(ctx, n); rerr != nil {
			return rerr
		}
		if werr := copied.Write(buf[:n], at); werr != nil {
			return werr
		}
		if at += int64(n); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && at == b.Size {
			return copied.Finalize(b.Size)
		} else if err != nil {
			return err
		}
	}
}

// CopyFor begins a copy of a block from another node, which takes the place of what is here when it is there: of what nobody writes, of an
// older generation; of a block that is finished elsewhere, also of the same one. If there is more of that here, as two rounds of a recovery may leave it, the names are asked whether
// the block is still closed so: who has asked for the copy may have done that before others appended to it, under the generation that it had.
func (k *Keeper) CopyFor(ctx context.Context, b meta.Block, w *wire.WantedBlock, finished bool) (*block.Writer, error) {
	c := block.Block{ID: int64(b.ID), Stamp: b.Stamp}
	if old, err := k.n.Blocks.Stat(c.ID); err == nil && !finished && old.Stamp == b.Stamp && !old.Damaged {
		return nil, fmt.Errorf("block %d: generation %d is here: %w", c.ID, c.Stamp, block.ErrExists)
	}
	copied, err := k.n.Blocks.Create(c, w.File, w.Capacity, true)
	if err != nil || !finished || copied.Beside() <= b.Size {
		return copied, err
	}
	r, err := k.locate(ctx, c.ID)
	if is := r.GetWanted(); err == nil && !(r.GetComplete() && is.GetStamp() == b.Stamp && is.GetLength() == b.Size) {
		err = block.ErrExists
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("block %d: %d bytes of generation %d are here: %w", c.ID, copied.Beside(), c.Stamp, err), copied.Close())
	}
	return copied, nil
}
