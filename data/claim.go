package data

import (
	"fmt"
	"sync"

	"headrace/internal/budget"
	"headrace/pagecache"
	"headrace/serve"
)

// What the daemon remembers of files that are to be kept in memory, in bytes: their names, their blocks, and the
// paths by which they were asked for. A sparse file of 64 TiB costs its owner nothing, and a link to it less. Half a
// GiB is about four million files with names of usual length.
const (
	maxWarmMemory       = 512 << 20
	maxWarmMemoryOthers = 4 * maxWarmMemory
	nameCost            = 64 // what a name takes beside its own bytes
	// blockCost is more than the byte that a block takes: they are gone through one by one, too.
	blockCost = 16
	// mostBlocks is how many a file can have; of larger ones nothing is kept.
	mostBlocks = 64 << 40 / pagecache.BlockSize
)

// newNamesMemory makes the budget of that, and of what searches keep of names meanwhile.
func newNamesMemory() *budget.Budget {
	return budget.New("bytes of names of files that are searched or to be kept in memory, and of their parts", maxWarmMemory, maxWarmMemoryOthers)
}

// fileCost returns what it takes to remember a file.
func fileCost(path string, size int64) int64 {
	return int64(len(path)) + nameCost + blockCost*min(size/pagecache.BlockSize, mostBlocks)
}

// pathsCost returns what it takes to remember paths.
func pathsCost(paths []string) (n int64) {
	for _, p := range paths {
		n += fileCost(p, 0)
	}
	return n
}

// claim is what one request, or input, has taken of its owner's part of a budget.
type claim struct {
	of  *budget.Budget
	uid uint32

	mu    sync.Mutex
	taken int64
	ended bool
}

// take takes n more. It fails with serve.ErrBusy where the owner has no more, and when the claim has ended.
func (c *claim) take(n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return fmt.Errorf("%w: the request has ended", serve.ErrNotFound)
	}
	if err := c.of.Take(c.uid, n); err != nil {
		return fmt.Errorf("%w: %w", serve.ErrBusy, err)
	}
	c.taken += n
	return nil
}

// give gives n back, or what there is.
func (c *claim) give(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, c.taken)
	c.of.Give(c.uid, n)
	c.taken -= n
}

// over tells whether it has ended.
func (c *claim) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// end gives all back, and lets nothing be taken any more.
func (c *claim) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of.Give(c.uid, c.taken)
	c.taken, c.ended = 0, true
}
