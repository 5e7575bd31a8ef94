package pagecache_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/pagecache"
	"headrace/pagecache/pagecachetest"
)

// both is the page cache and the model of it, in which the same is done.
type both struct {
	*testing.T
	*rand.Rand
	real  pagecache.Cache
	model *pagecachetest.Memory
	files []*os.File
	// What is watched and locked, in the real one and in the model.
	watched, modelWatched []pagecache.Watched
	pinned, modelPinned   []pagecache.Pinned
	log                   []string
}

// The model does what the page cache does.
func TestModelIsLikeThePageCache(t *testing.T) {
	dir := diskDir(t)
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	for seed := range rounds {
		c := pagecache.Config{Budget: 1 << 20}
		b := &both{T: t, Rand: rand.New(rand.NewPCG(uint64(seed), 5)), real: open(t, c), model: pagecachetest.NewMemory(c)}
		if m, why := b.real.Method(); m == pagecache.None {
			t.Skip(why)
		}
		for i := range 2 {
			b.add(filepath.Join(dir, fmt.Sprint(seed, i)))
		}
		for range 100 {
			b.step()
		}
		for i := range b.pinned {
			b.same("release", b.pinned[i].Release(), b.modelPinned[i].Release())
		}
		b.compare()
		for _, f := range b.files {
			f.Close()
		}
		b.model.Close()
	}
}

func (b *both) add(name string) {
	f, err := os.Create(name)
	if err == nil {
		_, err = f.Write(make([]byte, 1<<20+77))
	}
	if err == nil {
		err = errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM))
	}
	if err != nil {
		b.Fatal(err)
	}
	w, err := b.real.Watch(f)
	m, merr := b.model.Watch(f)
	if err != nil || merr != nil {
		b.Fatal(err, merr)
	}
	b.files, b.watched, b.modelWatched = append(b.files, f), append(b.watched, w), append(b.modelWatched, m)
}

// gone reports whether no more of a file is in memory than in the model.
func (b *both) gone(i int) bool {
	all := pagecache.Range{Len: 1 << 40}
	n, err := b.real.Resident(b.files[i], all)
	m, merr := b.model.Resident(b.files[i], all)
	b.same("resident", err, merr)
	return n <= m
}

// same compares the kinds of two errors.
func (b *both) same(what string, err, merr error) {
	b.Helper()
	for _, kind := range []error{pagecache.ErrBudget, pagecache.ErrResident, unix.EINVAL} {
		if errors.Is(err, kind) && errors.Is(merr, kind) {
			return
		}
	}
	if err != nil || merr != nil {
		b.Fatalf("%s: %v, in the model %v, after %q", what, err, merr, b.log)
	}
}

func (b *both) step() {
	i := b.IntN(len(b.files))
	f := b.files[i]
	r := pagecache.Range{Off: b.Int64N(1 << 20), Len: b.Int64N(1 << (b.IntN(21)))}
	if b.IntN(20) == 0 {
		r.Off = -1
	}
	op := b.IntN(6)
	b.log = b.log[max(0, len(b.log)-15):]
	b.log = append(b.log, fmt.Sprint([]string{"load", "evict", "pin", "pin", "release", "truncate"}[op], " ", i, " ", r))
	switch op {
	case 0:
		if r.Off >= 0 && r.Len > 0 {
			f.ReadAt(make([]byte, r.Len), r.Off)
			b.same("load", nil, b.model.Load(f, r))
		}
	case 1:
		merr := b.model.Evict(f, r)
		err := b.real.Evict(f, r)
		// A page that somebody holds for a moment (DAMON looks at it) stays.
		for deadline := time.Now().Add(time.Minute); err == nil && !b.gone(i) && time.Now().Before(deadline); {
			err = b.real.Evict(f, r)
		}
		b.same("evict", err, merr)
	case 2, 3:
		var told, modelTold []int64
		p, err := b.real.Pin(b.Context(), f, r, func(n int64) { told = append(told, n) })
		m, merr := b.model.Pin(b.Context(), f, r, func(n int64) { modelTold = append(modelTold, n) })
		b.same("pin", err, merr)
		if err == nil {
			if p.Bytes() != m.Bytes() {
				b.Fatalf("%d bytes are locked, in the model %d, after %q", p.Bytes(), m.Bytes(), b.log)
			}
			b.pinned, b.modelPinned = append(b.pinned, p), append(b.modelPinned, m)
		}
		if !slices.Equal(told, modelTold) {
			b.Fatalf("told of %v, in the model of %v, after %q", told, modelTold, b.log)
		}
	case 4:
		if n := len(b.pinned); n > 0 {
			k := b.IntN(n)
			b.same("release", b.pinned[k].Release(), b.modelPinned[k].Release())
			b.pinned, b.modelPinned = slices.Delete(b.pinned, k, k+1), slices.Delete(b.modelPinned, k, k+1)
		}
	case 5:
		b.truncate(f)
	}
	b.compare()
}

// truncate cuts or extends a file where it has whole pages: else the kernel reads
// the last one, to clear the rest of it.
func (b *both) truncate(f *os.File) {
	page := int64(os.Getpagesize())
	st, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	size := b.Int64N(1<<20+100*page) / page * page
	if b.IntN(4) != 0 || size > st.Size() && st.Size()%page != 0 {
		return
	}
	if err := f.Truncate(size); err != nil {
		b.Fatal(err)
	}
}

func (b *both) compare() {
	b.Helper()
	if b.real.Pinned() != b.model.Pinned() {
		b.Fatalf("%d bytes are locked, in the model %d, after %q", b.real.Pinned(), b.model.Pinned(), b.log)
	}
	for range 4 { // so that sizes are seen
		b.same("refresh", b.real.Refresh(b.Context()), b.model.Refresh(b.Context()))
	}
	for i, f := range b.files {
		if got, want := b.watched[i].Blocks(nil), b.modelWatched[i].Blocks(nil); !slices.Equal(got, want) {
			b.Fatalf("file %d: blocks %v, in the model %v, after %q", i, got, want, b.log)
		}
		r := pagecache.Range{Off: b.Int64N(1 << 20), Len: b.Int64N(1 << 20)}
		n, err := b.real.Resident(f, r)
		m, merr := b.model.Resident(f, r)
		b.same("resident", err, merr)
		if n != m {
			b.Fatalf("file %d: %d bytes of %v are resident, in the model %d, after %q", i, n, r, m, b.log)
		}
	}
}
