package dfs

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"

	"headrace/block"
	"headrace/dfs/names"
	"headrace/disk"
	"headrace/internal/linux"
	"headrace/internal/vfs"
	"headrace/meta"
	"headrace/pagecache"
)

// ErrInUse: another process has the directory.
var ErrInUse = errors.New("another node has it open")

// A Node is one of the file system. Its methods may be called from any goroutine.
type Node struct {
	// Group is the node's part in the names: all that they say and are told is by its methods.
	*names.Group
	Config   Config
	Identity Identity
	Blocks   *block.Store
	Keeper   *Keeper

	lock       io.Closer
	db         *bolt.DB
	news       news
	unwritable unwritable
	// unclosed and left have upkeep look for blocks to be recovered, and for what was deleted.
	unclosed, left chan struct{}

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
}

// Open opens the node in a directory, and makes one where there is nothing.
func Open(c Config) (*Node, error) {
	c = c.filled()
	lock, err := own(c.Dir)
	if err != nil {
		return nil, err
	}
	n := &Node{Config: c, lock: lock, unclosed: make(chan struct{}, 1), left: make(chan struct{}, 1)}
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.Keeper = newKeeper(n)
	if n.db, n.Identity, err = openState(c); err == nil {
		err = n.openBlocks()
	}
	if err == nil {
		n.Group, err = names.Open(names.Config{DB: n.db, Dir: filepath.Join(c.Dir, "log"), Self: n.Identity.Node, Send: c.Send, Now: c.Now, Log: c.Log, Tick: c.Tick, AcceptDamage: c.AcceptDamage, Aside: filepath.Join(c.Dir, aside)})
	}
	var cache pagecache.Cache
	if err == nil {
		cache, err = openCache(c)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", c.Dir, err), n.close())
	}
	close(n.Keeper.ready)
	n.running.Go(n.upkeep)
	n.running.Go(n.clear)
	n.running.Go(n.recoverBlocks)
	n.running.Go(n.keepIndex)
	n.running.Go(n.attachDisks)
	n.running.Go(func() { n.rounds(attachInterval, nil, func() { lookAtDirectories(n) }) })
	n.running.Go(n.Keeper.keep)
	n.running.Go(n.Keeper.verifyCopies)
	n.running.Go(n.tellMemory)
	n.running.Go(n.planCache)
	if cache != nil {
		n.running.Go(func() { n.keepInMemory(cache) })
	}
	if c.ScrubRate > 0 {
		for _, dir := range c.Disks {
			n.running.Go(func() { n.scrub(dir) })
		}
	}
	return n, nil
}

// own makes the directory, and takes it for this process.
func own(dir string) (io.Closer, error) {
	if err := mine(dir); err != nil {
		return nil, err
	}
	lock, err := (vfs.OS{}).Lock(filepath.Join(dir, "LOCK"))
	if errors.Is(err, vfs.ErrLocked) {
		err = fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	return lock, err
}

// mine makes the directory, and refuses one that has something else in it.
func mine(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := (vfs.OS{}).SyncDir(filepath.Dir(filepath.Clean(dir))); err != nil {
		return err
	}
	names, err := (vfs.OS{}).List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == "meta.db" {
			return nil
		}
	}
	for _, name := range names {
		if name != "LOCK" && name != "blocks" {
			return fmt.Errorf("%s has %s in it and is no directory of a file system's node: name an empty one", dir, name)
		}
	}
	return nil
}

func (n *Node) openBlocks() error {
	boot, err := linux.BootID()
	if err != nil {
		return err
	}
	had, err := n.hadDisks()
	if err != nil {
		return err
	}
	fresh, err := renews(n.db, n.Config.NewDisks, n.Config.Log)
	if err == nil {
		err = named(n.Config.Disks, had, fresh)
	}
	if err == nil && len(fresh) > 0 {
		err = forgetFaults(n.db, fresh)
	}
	if err != nil {
		return err
	}
	known := slices.DeleteFunc(slices.Clone(had), func(dir string) bool { return slices.Contains(fresh, dir) })
	if had == nil { // a version has made this node that did not note its disks
		had = n.Config.Disks
	}
	s, err := block.Open(block.Config{
		Dirs: n.Config.Disks, FS: n.Config.FS, Known: known, Pool: n.Identity.Pool, Unnamed: had, Since: func(dir string) uint64 { return diskSince(n, boot, dir) }, Failures: func(dir string) uint64 { return failuresOf(n.db, dir) }, Turns: &disk.Scheduler{Log: n.Config.Log}, Devices: &disk.Devices{}, SyncOnClose: n.Config.SyncOnClose, Log: n.Config.Log,
		Damaged: func(i block.Info, cause error) {
			n.Config.Log.Error("a block is damaged", "block", i.ID, "dir", i.Dir, "err", cause)
			n.Keeper.damaged(i)
		},
		Out: func(dir string, cause error) {
			said := "a disk is out of use until it was unmounted and is mounted again, or the next start"
			if errors.Is(cause, block.ErrNotMounted) {
				said = "a disk is out of use until it is mounted; if it is lost, start once with --new-disk and this directory"
			}
			n.Config.Log.Error(said, "dir", dir, "err", cause)
			noted, err := noteRunning(n, dir), noteFailure(n.db, dir, !errors.Is(cause, block.ErrNotMounted))
			if err != nil && noted != nil {
				n.Config.Log.Error("that could not be noted: restart the machine before this node", "dir", dir, "err", errors.Join(err, noted))
			}
			n.Keeper.lookSoon() // what it had is missing
		},
	})
	n.Blocks = s
	if err == nil {
		err = n.noteDisks(known, len(fresh) > 0)
	}
	switch {
	case errors.Is(err, block.ErrNotMounted):
		err = fmt.Errorf("%w: mount it, or, if it is lost, start once with --new-disk and its directory", err)
	case errors.Is(err, block.ErrForeign):
		err = fmt.Errorf("%w: name an empty directory, or start with the --dir and the --disk to which it belongs", err)
	}
	return err
}

// diskSince names the time in which nothing of a disk that the kernel had has been lost: the machine has not ended, nor was the disk unmounted, nor was it taken out, as after
// a write that failed, of which the kernel keeps nothing. 0: it is not known.
func diskSince(n *Node, boot, dir string) uint64 {
	d, err := os.Open(dir)
	if err != nil {
		return 0
	}
	defer d.Close()
	mounted := linux.Mounted(int(d.Fd()))
	var failed map[string]uint64
	err = n.db.View(func(tx *bolt.Tx) error { failed, err = failures(tx); return err })
	if mounted == "" || err != nil {
		return 0
	}
	var running int64
	switch i, err := os.Stat(runningNote(n, dir)); {
	case err == nil:
		running = i.Size()
	case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission): // who may not look there has noted nothing
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\n%s\n%d", boot, mounted, failed[dir])
	if running > 0 {
		fmt.Fprintf(h, "\n%d", running)
	}
	return max(1, h.Sum64())
}

// runningNote is the file that has a byte for each time that a disk was taken out since the machine runs.
func runningNote(n *Node, dir string) string {
	h := fnv.New64a()
	h.Write([]byte(dir))
	return filepath.Join(n.Config.Run, fmt.Sprintf("%s-%016x", n.Identity.Node, h.Sum64()))
}

// noteRunning notes that a disk was taken out where the note lives as long as what the kernel has of the disk: the database may be on the same device.
func noteRunning(n *Node, dir string) error {
	if err := os.MkdirAll(n.Config.Run, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(runningNote(n, dir), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(".")
	return errors.Join(err, f.Close())
}

// Go has f done beside everything else. Close waits for it; f does not go on once queries fail.
func (n *Node) Go(f func()) { n.running.Go(f) }

// Close ends the node. Nobody may use its blocks any more.
func (n *Node) Close() error {
	n.stop()
	n.running.Wait()
	return n.close()
}

func (n *Node) close() error {
	var errs []error
	if n.Blocks != nil {
		errs = append(errs, n.Blocks.Close())
	}
	if n.Group != nil {
		errs = append(errs, n.Group.Close())
	}
	if n.db != nil {
		errs = append(errs, n.db.Close())
	}
	return errors.Join(append(errs, n.lock.Close())...)
}

// root may do all.
func (n *Node) root() meta.Caller { return meta.Caller{User: n.Identity.Owner, Super: true} }
