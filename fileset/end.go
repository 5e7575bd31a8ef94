package fileset

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// endSize is how many bytes of the end of a file a sum is made of.
const endSize = 4 << 10

// Was is what a file was when somebody relied on it.
type Was struct {
	Identity
	// End is a sum of its last bytes: one that has grown still has them, one that was
	// written anew has others. 0: it is not known.
	End uint64
}

// WasNow returns what an open file is. It reads nothing from the disk: the end of a file
// that is not in memory is not known. Where the file system does not tell whether it is, it is read.
func WasNow(f *os.File) (Was, error) {
	id, err := Identify(f)
	if err != nil {
		return Was{}, err
	}
	was := Was{Identity: id}
	if id.Size > 0 {
		sum, err := endSum(f, id.Size, unix.RWF_NOWAIT)
		if now, ierr := Identify(f); err == nil && ierr == nil && now == id {
			was.End = sum
		}
	}
	return was, nil
}

// endSum returns a sum of the bytes before size, which is not 0.
func endSum(f *os.File, size int64, flags int) (uint64, error) {
	b := make([]byte, min(endSize, size))
	n, err := unix.Preadv2(int(f.Fd()), [][]byte{b}, size-int64(len(b)), flags)
	if err == unix.EOPNOTSUPP { // flags ask for what is in memory
		n, err = unix.Pread(int(f.Fd()), b, size-int64(len(b)))
	}
	if err == nil && n < len(b) {
		err = unix.EAGAIN
	}
	if err != nil {
		return 0, err
	}
	sum := fnv.New64a()
	sum.Write(b)
	return max(1, sum.Sum64()), nil
}

// Check tells whether an open file is still what it was. It is safe for concurrent use.
type Check struct {
	Was
	// learned is End where that was not known at first.
	learned atomic.Uint64
	// grown is the time of modification at which the end was still the same.
	grown atomic.Int64
}

// Known returns what the file was, with its end if that has been learned since.
func (c *Check) Known() Was {
	was := c.Was
	was.End = cmp.Or(was.End, c.learned.Load())
	return was
}

// Learn reads the end of the file from the disk, if it is not known; it counts if the file is still what it was. It fails
// as reading does.
func (c *Check) Learn(f *os.File) error {
	if c.Size == 0 || c.Known().End != 0 {
		return nil
	}
	sum, err := endSum(f, c.Size, 0)
	if err != nil {
		return err
	}
	now, err := Identify(f)
	if err == nil && now == c.Identity {
		c.learned.Store(sum)
	}
	return err
}

// Changed says how the file differs from what it was, empty if not in a way that matters. To
// grow does not, as soon as the end is known by which that is told from being written anew.
func (c *Check) Changed(f *os.File) (why string, err error) {
	now, err := Identify(f)
	if err != nil {
		return "", err
	}
	why = c.Identity.Changed(now)
	if why != "" || now.Size == c.Size || c.Size == 0 || c.grown.Load() == now.Mtime {
		return why, nil
	}
	end := c.Known().End
	if end == 0 {
		return fmt.Sprintf("grew, being appended to or written anew, from %d to %d bytes", c.Size, now.Size), nil
	}
	sum, err := endSum(f, c.Size, 0)
	if err != nil {
		return "", err
	}
	if sum != end {
		return "was written anew", nil
	}
	c.grown.Store(now.Mtime)
	return "", nil
}
