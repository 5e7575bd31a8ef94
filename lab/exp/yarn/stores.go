package yarn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"headrace/lab/rig"
)

// The stores for checkpoints. The disk that is as slow as a hard disk is one for each
// node.
const (
	storeHDD  = "hdd"
	storeTmp  = "tmpfs"
	hddSpeed  = 100e6
	hddRoom   = 4 << 30 // it takes no more memory than what lies on it
	yarnProbe = 64 << 20
)

// yarnStores are in the order of the papers' figures.
var yarnStores = []string{storeHDD, rig.StoreDisk, storeTmp}

// yarnPlace is a store: a directory for each node.
type yarnPlace struct {
	dirs  []string
	group string // see rig.Scratch.Throttle
}

// nodeFlags returns those of each node daemon: its store.
func (b *bench) nodeFlags(ctx context.Context, nodes int, policy, store string) ([][]string, error) {
	flags := make([][]string, nodes)
	if store == "" {
		return flags, nil
	}
	p, err := b.place(ctx, store)
	if err != nil {
		return nil, err
	}
	for i := range flags {
		dir := filepath.Join(p.dirs[i], fmt.Sprintf("store-%s-%d", policy, b.runs))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		flags[i] = []string{"--store", store + "=" + dir}
		b.storeDirs = append(b.storeDirs, dir)
	}
	return flags, nil
}

// dropStores removes the checkpoints of daemons that have ended.
func (b *bench) dropStores() error {
	var errs []error
	for _, dir := range b.storeDirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	b.storeDirs = nil
	return errors.Join(errs...)
}

// coolEvery is how often stores are dropped from the page cache.
const coolEvery = 250 * time.Millisecond

// cool keeps what lies on a disk out of memory, so that a restore reads it, until the
// returned function is called.
func (b *bench) cool(store string) (stop func()) {
	if store != rig.StoreDisk && store != storeHDD {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	dirs := slices.Clone(b.storeDirs)
	go func() {
		defer close(done)
		tick := time.NewTicker(coolEvery)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			for _, dir := range dirs {
				// What could not be dropped is read faster: seen in the numbers.
				_ = dropSettled(dir, time.Now().Add(-coolEvery))
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// dropSettled drops the files from the page cache that nobody has written to since a
// moment. What is not on the disk yet stays.
func dropSettled(dir string, since time.Time) error {
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) || err == nil && !entry.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || info.ModTime().After(since) {
			return err
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}

// place returns a store, which is made and measured when it is first asked for.
func (b *bench) place(ctx context.Context, store string) (yarnPlace, error) {
	if p, ok := b.places[store]; ok {
		return p, nil
	}
	b.h.Say(0, "measuring the storage %s", store)
	p, fact, err := b.newPlace(store)
	if err != nil {
		return p, fmt.Errorf("storage %s: %w", store, err)
	}
	if fact.Write, fact.Read, err = b.h.Measure(ctx, p.dirs[0], p.group, yarnProbe); err != nil {
		return p, err
	}
	if b.places == nil {
		b.places = map[string]yarnPlace{}
	}
	b.places[store] = p
	b.res.Stores = append(b.res.Stores, fact)
	return p, nil
}

// mostNodes is how many nodes a store has directories for.
const mostNodes = 2

func (b *bench) newPlace(store string) (p yarnPlace, fact rig.StoreFact, err error) {
	fact.Name = store
	switch {
	case store == rig.StoreDisk:
		p.dirs = []string{b.h.Disk.Dir, b.h.Disk.Dir}
	case b.h.Memory == nil:
		return p, fact, fmt.Errorf("there is no tmpfs at %s", rig.SharedMemory)
	case store == storeTmp:
		p.dirs = []string{b.h.Memory.Dir, b.h.Memory.Dir}
	default:
		fact.Nominal = hddSpeed
		for i := range mostNodes {
			d, err := b.h.Disk.AddDevice(fmt.Sprintf("%s%d", store, i), hddRoom, b.h.Memory)
			if err != nil {
				return p, fact, err
			}
			if p.group, err = b.h.Disk.Throttle(d, hddSpeed); err != nil {
				return p, fact, err
			}
			if p.group != "" {
				return p, fact, fmt.Errorf("the kernel can slow a device down for chosen processes only (cgroups version 2), and not for those of YARN's containers")
			}
			p.dirs = append(p.dirs, d.Dir)
		}
	}
	// Two nodes may have the same directory: their stores are beside each other.
	for i, dir := range p.dirs {
		p.dirs[i] = filepath.Join(dir, fmt.Sprint("node", i))
		if err := os.MkdirAll(p.dirs[i], 0o700); err != nil {
			return p, fact, err
		}
	}
	return p, fact, nil
}
