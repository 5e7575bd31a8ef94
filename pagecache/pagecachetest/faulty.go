package pagecachetest

import (
	"context"
	"os"
	"sync"

	"headrace/pagecache"
)

// Faulty makes calls of a cache fail. Fail is asked before each call with the
// name of the method (Resident, Watch, Refresh, Pin, Evict, Close, Watched.Close,
// Pinned.Release) and how many calls of it there have been, this one included. An
// error of Fail is the call's, and nothing else happens; only Close and Release
// do what they do all the same, so that nothing is left over.
type Faulty struct {
	pagecache.Cache
	Fail func(method string, n int) error

	mu    sync.Mutex
	calls map[string]int
}

func (f *Faulty) fail(method string) error {
	f.mu.Lock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[method]++
	n := f.calls[method]
	f.mu.Unlock()
	if f.Fail == nil {
		return nil
	}
	return f.Fail(method, n)
}

// Calls returns how often a method was called.
func (f *Faulty) Calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// Resident implements pagecache.Cache.
func (f *Faulty) Resident(file *os.File, r pagecache.Range) (int64, error) {
	if err := f.fail("Resident"); err != nil {
		return 0, err
	}
	return f.Cache.Resident(file, r)
}

// Watch implements pagecache.Cache.
func (f *Faulty) Watch(file *os.File) (pagecache.Watched, error) {
	if err := f.fail("Watch"); err != nil {
		return nil, err
	}
	w, err := f.Cache.Watch(file)
	if err != nil {
		return nil, err
	}
	return faultyWatched{w, f}, nil
}

// Refresh implements pagecache.Cache.
func (f *Faulty) Refresh(ctx context.Context) error {
	if err := f.fail("Refresh"); err != nil {
		return err
	}
	return f.Cache.Refresh(ctx)
}

// Pin implements pagecache.Cache.
func (f *Faulty) Pin(ctx context.Context, file *os.File, r pagecache.Range, progress func(n int64)) (pagecache.Pinned, error) {
	if err := f.fail("Pin"); err != nil {
		return nil, err
	}
	p, err := f.Cache.Pin(ctx, file, r, progress)
	if err != nil {
		return nil, err
	}
	return faultyPinned{p, f}, nil
}

// Evict implements pagecache.Cache.
func (f *Faulty) Evict(file *os.File, r pagecache.Range) error {
	if err := f.fail("Evict"); err != nil {
		return err
	}
	return f.Cache.Evict(file, r)
}

// Close implements pagecache.Cache.
func (f *Faulty) Close() error { return first(f.fail("Close"), f.Cache.Close()) }

type faultyWatched struct {
	pagecache.Watched
	f *Faulty
}

func (w faultyWatched) Close() error { return first(w.f.fail("Watched.Close"), w.Watched.Close()) }

type faultyPinned struct {
	pagecache.Pinned
	f *Faulty
}

func (p faultyPinned) Release() error {
	return first(p.f.fail("Pinned.Release"), p.Pinned.Release())
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
