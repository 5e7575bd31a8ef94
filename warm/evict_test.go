package warm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"headrace/internal/linux"
	"headrace/pagecache"
)

func TestEvict(t *testing.T) {
	user, other := linux.Credentials{UID: 5}, linux.Credentials{UID: 6}
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f, g, h := w.file("d1/f", blocks(3)), w.file("d1/g", blocks(2)), w.file("d1/h", blocks(1))
		hold := func(id string, by linux.Credentials, files ...File) {
			w.add(Request{ID: RequestID(id), Hold: true, Owner: by, Files: files})
		}
		hold("w1", user, f, g)
		hold("w2", other, g)
		hold("w3", user, f)
		w.add(w.job("j", File{Path: f.Path, Size: blocks(1)}))
		w.load(h.Path, blockPart(0))
		w.wantPinned(5)

		// Of f, the job keeps its block; w3 has nothing left.
		did, err := w.e.Evict(t.Context(), user, false, []string{f.Path})
		if err != nil || did.Bytes != blocks(2) || did.Files != 1 || did.Kept != blocks(1) || len(did.Ended) != 1 || did.Ended[0].ID != "w3" || !did.Ended[0].Ended || !slices.Equal(did.Lost, []RequestID{"w1"}) {
			t.Errorf("f: %+v, %v", did, err)
		}
		w.wantPinned(3)
		if s := w.status("w1"); s.Evicted != f.Size || s.Pinned != g.Size || !s.Done {
			t.Errorf("w1: %+v", s)
		}
		// What another user holds stays, and is not told among what was given up.
		did, err = w.e.Evict(t.Context(), user, false, []string{g.Path, h.Path, "/nowhere"})
		if err != nil || did.Bytes != blocks(1) || did.Files != 1 || did.Kept != g.Size || len(did.Ended) != 1 || did.FailedFiles != 1 || did.Failures[0] != (Failure{"/nowhere", "no such file or directory"}) {
			t.Errorf("g and h: %+v, %v", did, err)
		}
		w.wantPinned(3)
		// Root lets everybody's go.
		did, err = w.e.Evict(t.Context(), linux.Credentials{}, true, []string{g.Path, f.Path})
		if err != nil || did.Bytes != g.Size || did.Kept != blocks(1) || len(did.Ended) != 1 || did.Ended[0].ID != "w2" {
			t.Errorf("root: %+v, %v", did, err)
		}
		w.wantPinned(1)
		if n := w.residentBytes(f.Path); n != blocks(1) {
			t.Errorf("%d bytes of f are in memory", n)
		}
		w.pass(10 * w.e.cfg.FollowUp)
		w.wantReads("f@0", "f@1", "f@2", "g@0", "g@1")
	})
}

// What waits in a request, is being read or never fitted is let go too.
func TestEvictWhatIsNotThere(t *testing.T) {
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(4)}}, func(t *testing.T, w *world) {
		w.shut()
		f := w.file("d1/f", blocks(9))
		w.add(Request{ID: "w1", Hold: true, Files: []File{f}, Budget: blocks(2)})
		w.let()
		did, err := w.e.Evict(t.Context(), linux.Credentials{}, true, []string{f.Path})
		if err != nil || len(did.Ended) != 1 || did.Ended[0].Evicted != f.Size {
			t.Errorf("%+v, %v", did, err)
		}
		w.openGate()
		w.settle()
		w.wantPinned(0)
		w.wantReads("f@0", "f@1")
	})
}

// A block that one user lets go while another waits for it is not read twice.
func TestEvictWithHeir(t *testing.T) {
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(2)}}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(1))
		w.add(Request{ID: "w1", Hold: true, Files: []File{f}})
		w.add(w.job("full", w.file("d1/full", blocks(1))))
		w.add(w.job("waits", w.file("d1/large", blocks(3)), f))
		did, err := w.e.Evict(t.Context(), linux.Credentials{}, true, []string{f.Path})
		if err != nil || did.Bytes != 0 || did.Kept != blocks(1) {
			t.Errorf("%+v, %v", did, err)
		}
		w.wantPinned(2)
		w.wantReads("f@0", "full@0")
		if s := w.status("r-waits"); s.Pinned != blocks(1) {
			t.Errorf("%+v", s)
		}
	})
}

// What a job will read stays in memory also where it is not locked.
func TestEvictKeepsResident(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(3))
		w.load(f.Path, pagecache.Range{Len: f.Size})
		w.add(w.job("a", File{Path: f.Path, Size: blocks(2)}))
		did, err := w.e.Evict(t.Context(), linux.Credentials{}, true, []string{f.Path})
		if err != nil || did.Bytes != blocks(1) || did.Kept != blocks(2) {
			t.Errorf("%+v, %v", did, err)
		}
	})
}

func TestEvictStops(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(1))
		w.add(Request{ID: "w1", Hold: true, Files: []File{f}})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.e.Evict(ctx, linux.Credentials{}, true, []string{f.Path}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		w.wantPinned(1)
		if _, err := w.e.Remove("w1"); err != nil {
			t.Error(err)
		}
		w.wantPinned(0)
	})
	inWorld(t, worldConfig{fail: func(m string, _ int) error {
		if m == "Evict" {
			return fmt.Errorf("no")
		}
		return nil
	}}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(1))
		did, err := w.e.Evict(t.Context(), linux.Credentials{}, true, []string{f.Path})
		if err != nil || did.FailedFiles != 1 || did.Failures[0].Reason != "no" {
			t.Errorf("%+v, %v", did, err)
		}
	})
}

// A sparse file may be as large as there are numbers; that costs nothing. Only what requests want counts.
func TestUnwantedOfHugeFile(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(5))
		w.add(w.job("a", File{Path: f.Path, Size: blocks(1)}, File{Path: f.Path, Off: blocks(3), Size: blocks(2)}))
		w.add(w.job("b", File{Path: f.Path, Size: blocks(2)}))
		drop, keep := evicter{Engine: w.e}.unwanted(f.Path, math.MaxInt64)
		want := func(what string, parts []pagecache.Range, bounds ...int64) {
			t.Helper()
			var got []int64
			for _, p := range parts {
				got = append(got, p.Off, p.Off+p.Len)
			}
			if !slices.Equal(got, bounds) {
				t.Errorf("%s: %v, want %v", what, got, bounds)
			}
		}
		want("dropped", drop, blocks(2), blocks(3), blocks(5), math.MaxInt64)
		want("kept", keep, 0, blocks(1), blocks(1), blocks(2), blocks(3), blocks(5))
		drop, keep = evicter{Engine: w.e}.unwanted(f.Path, blocks(3)+1)
		want("dropped of a shorter file", drop, blocks(2), blocks(3))
		want("kept of a shorter file", keep, 0, blocks(1), blocks(1), blocks(2), blocks(3), blocks(3)+1)
	})
}
