package dfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"headrace/block"
	"headrace/disk"
	"headrace/internal/vfs"
	"headrace/meta"
)

var (
	// ErrClosed is the error of a node that was closed.
	ErrClosed = errors.New("the node is closed")
	// ErrInUse: another process has the directory.
	ErrInUse = errors.New("another node has it open")
)

// A Node is one of the file system. Its methods may be called from any goroutine.
type Node struct {
	Config   Config
	Identity Identity
	Blocks   *block.Store

	lock io.Closer
	db   *bolt.DB

	proposals chan *proposal
	now       int64 // ms, of the last command; the committer's
	wake      chan struct{}
	failed    chan struct{}
	failure   error // set before failed is closed

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	known
	strays map[int64]bool // copies that no file knew in the last pass; upkeep's
}

// Open opens the node in a directory, and makes one where there is nothing.
func Open(c Config) (*Node, error) {
	c = c.filled()
	if err := mine(c.Dir); err != nil {
		return nil, err
	}
	lock, err := (vfs.OS{}).Lock(filepath.Join(c.Dir, "LOCK"))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", c.Dir, ErrInUse)
	}
	if err != nil {
		return nil, err
	}
	n := &Node{Config: c, lock: lock, proposals: make(chan *proposal, 1024), wake: make(chan struct{}, 1), failed: make(chan struct{})}
	n.ctx, n.stop = context.WithCancel(context.Background())
	if n.db, n.Identity, err = openState(c); err == nil {
		err = errors.Join(n.begin(c.itself(n.Identity)), n.openBlocks())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", c.Dir, err), n.close())
	}
	n.running.Go(n.commit)
	n.running.Go(n.upkeep)
	if c.ScrubRate > 0 {
		n.running.Go(n.scrub)
	}
	return n, nil
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
	s, err := block.Open(block.Config{
		Dirs: n.Config.Disks, Turns: &disk.Scheduler{}, Devices: &disk.Devices{}, SyncOnClose: n.Config.SyncOnClose, Log: n.Config.Log,
		Damaged: func(i block.Info, cause error) {
			n.Config.Log.Error("a block is damaged", "block", i.ID, "dir", i.Dir, "err", cause)
		},
		Out: func(dir string, cause error) {
			n.Config.Log.Error("a disk is out of use until the next start", "dir", dir, "err", cause)
		},
	})
	n.Blocks = s
	for _, dir := range n.Config.Disks { // it may be new
		if err == nil {
			err = (vfs.OS{}).SyncDir(filepath.Dir(filepath.Clean(dir)))
		}
	}
	return err
}

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
	if n.db != nil {
		errs = append(errs, n.db.Close())
	}
	return errors.Join(append(errs, n.lock.Close())...)
}

// Failed is closed when a commit has failed: the node answers nothing any more, and is to be
// closed. Failure then returns why.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Failure returns why the node has failed, or nil.
func (n *Node) Failure() error {
	select {
	case <-n.failed:
		return n.failure
	default:
		return nil
	}
}

// Query has f ask the state, as everything that was answered has left it. What f was given is
// good until it returns. f must not propose.
func (n *Node) Query(by meta.Caller, f func(meta.Query) error) error {
	if err := cmp.Or(n.Failure(), n.leads()); err != nil {
		return err
	}
	err := n.db.View(func(tx *bolt.Tx) error {
		return f(meta.Query{Reader: reader{tx.Bucket(stateBucket)}, Caller: by, Time: n.Config.Now().UnixMilli()})
	})
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}

// root may do all.
func (n *Node) root() meta.Caller { return meta.Caller{User: n.Identity.Owner, Super: true} }
