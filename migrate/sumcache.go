package migrate

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// maxSums bounds what is remembered.
const maxSums = 10_000

// A sumCache remembers hashes of files. A file whose inode, size and times are as
// they were has not changed.
type sumCache struct {
	mu   sync.Mutex
	sums map[fileState]string
}

type fileState struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64
}

func stateOf(f *os.File) (fileState, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fileState{}, err
	}
	return fileState{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}, nil
}

// sum returns the hash of an open file.
func (c *sumCache) sum(ctx context.Context, f *os.File) (string, error) {
	before, err := stateOf(f)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	sum, ok := c.sums[before]
	c.mu.Unlock()
	if ok {
		return sum, nil
	}
	if sum, err = hashFile(ctx, f); err != nil {
		return "", err
	}
	if after, err := stateOf(f); err != nil || after != before {
		return sum, err // it is being changed: not to be remembered
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sums == nil || len(c.sums) >= maxSums {
		c.sums = make(map[fileState]string)
	}
	c.sums[before] = sum
	return sum, nil
}

// resolved follows symbolic links, as those of libraries.
func resolved(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}
