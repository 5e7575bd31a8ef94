package blocks

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/hdfs/replica"
	"headrace/pagecache"
	"headrace/warm"
)

// Copy is a finished copy of a block on this machine.
type Copy struct {
	// Data is a file, open, in which its bytes lie: all of it, or Part if that is not empty. Whoever gets a Copy closes it.
	Data *os.File
	Part pagecache.Range
	// Bytes is how long the block is.
	Bytes int64
	// Files are what is to be in memory for whoever reads the block: its bytes and their checksums. Nil where that was not asked for.
	Files []warm.File
}

// Volumes are the directories of a DataNode of HDFS, which has a file for each block.
type Volumes struct{ *replica.Volumes }

// Find implements Replicas.
func (v Volumes) Find(ctx context.Context, b headrace.Block) (*Copy, error) {
	r, err := v.Volumes.Find(ctx, b)
	if err != nil {
		return nil, err
	}
	defer r.Meta.Close()
	_, meta, err := inodeOf(r.Meta)
	if err != nil {
		r.Data.Close()
		return nil, err
	}
	data, sums := r.Paths()
	return &Copy{Data: r.Data, Bytes: r.Bytes, Files: []warm.File{{Path: data, Size: r.Bytes}, {Path: sums, Size: meta}}}, nil
}

// Any implements Replicas.
func (v Volumes) Any(ctx context.Context, id headrace.BlockID) (*Copy, error) {
	f, err := v.Volumes.Data(ctx, id)
	if err != nil {
		return nil, err
	}
	_, size, err := inodeOf(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Copy{Data: f, Bytes: size}, nil
}

// shared is a file with several blocks in it, which is followed once for all of them. Blocks.mu guards it.
type shared struct {
	file  pagecache.Watched
	data  *os.File
	users int
	parts []int64 // of BlockSize, as of the last report
}

// share follows a file, or joins those who follow it. b.mu is held.
func (b *Blocks) share(at inode, f *os.File) (*shared, error) {
	s := b.shared[at]
	if s == nil {
		file, err := b.cfg.Cache.Watch(f)
		if err != nil {
			return nil, err
		}
		var data *os.File // of its own, without another look at the disk
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			data = os.NewFile(uintptr(fd), f.Name())
		}
		if err != nil {
			file.Close()
			return nil, os.NewSyscallError("fcntl", err)
		}
		s = &shared{file: file, data: data}
		b.shared[at] = s
	}
	s.users++
	return s, nil
}

// leave ends the following of one block. b.mu is held.
func (b *Blocks) leave(at inode) {
	s := b.shared[at]
	if s.users--; s.users == 0 {
		s.file.Close()
		s.data.Close()
		delete(b.shared, at)
	}
}

// in returns how many bytes of a part are in memory. The kernel is asked only when something has changed around it: state is for that.
func (s *shared) in(c pagecache.Cache, part pagecache.Range, state *partState) int64 {
	first, last := part.Off/pagecache.BlockSize, (part.Off+part.Len-1)/pagecache.BlockSize
	around := uint64(1)
	for i := first; i <= last && i < int64(len(s.parts)); i++ {
		around = around*0x100000001b3 + uint64(s.parts[i])
	}
	if around != state.around {
		n, err := c.Resident(s.data, part)
		if err != nil {
			return state.in // it stays as it was
		}
		state.around, state.in = around, n
	}
	return state.in
}

// partState is what was found, and when around the part there was so much in memory.
type partState struct {
	around uint64
	in     int64
}
