package warm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestUpcomingAgainstOracle: what comes next is the smallest positions of the
// share's files that are still to be done.
func TestUpcomingAgainstOracle(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		q := Request{ID: "x", Job: "j"}
		for i := range 12 {
			q.Files = append(q.Files, File{Path: fmt.Sprint("/", i), Size: r.Int64N(5) * testBlock})
		}
		req, err := newRequest(q, testBlock)
		if err != nil {
			t.Fatal(err)
		}
		e := &Engine{}
		s, other := &portion{r: req, lane: &lane{e: e, running: true}}, &portion{r: req, lane: &lane{e: e, running: true}}
		mine := map[int32]bool{}
		next := int32(0)
		for step := range 60 {
			pos := uint32(r.IntN(len(req.state)))
			file := int32(req.fileOf(pos))
			switch r.IntN(6) {
			case 0:
				for ; next < int32(len(q.Files)) && r.IntN(3) > 0; next++ {
					s.add([]int32{next})
					mine[next] = true
				}
			case 1, 2, 3:
				if mine[file] && req.state[pos] == remaining {
					req.move(pos, resident)
				}
			case 4:
				if mine[file] && req.state[pos] == resident {
					req.move(pos, remaining)
					s.ask(pos)
				}
			case 5: // it turns out to be elsewhere, or here
				if r.IntN(4) == 0 {
					moveShare(req, file, mine, s, other)
				}
			}
			n := 1 + r.IntN(4)
			if got, want := s.upcoming(nil, n), dumbUpcoming(req, mine, n); !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d: %v comes next, want %v", seed, step, got, want)
			}
		}
	}
}

func moveShare(r *request, file int32, mine map[int32]bool, s, other *portion) {
	if r.moved == nil {
		r.moved = map[int32]*portion{}
	}
	// Only files of which nothing is done are moved.
	for pos := r.start[file]; pos < r.start[file+1]; pos++ {
		if r.state[pos] != remaining {
			return
		}
	}
	switch {
	case mine[file]:
		delete(mine, file)
		r.moved[file] = other
	case r.moved[file] == other:
		mine[file] = true
		r.moved[file] = s
		s.take(file)
	}
}

func dumbUpcoming(r *request, mine map[int32]bool, n int) (all []uint32) {
	for pos := range uint32(len(r.state)) {
		if r.state[pos] == remaining && mine[int32(r.fileOf(pos))] && len(all) < n {
			all = append(all, pos)
		}
	}
	return all
}

func TestFind(t *testing.T) {
	var q Request
	q.ID, q.Job = "x", "j"
	r := rand.New(rand.NewPCG(1, 1))
	for _, i := range r.Perm(500) {
		q.Files = append(q.Files, File{Path: fmt.Sprint("/", i%400), Size: 1})
	}
	req, err := newRequest(q, testBlock)
	if err != nil {
		t.Fatal(err)
	}
	if len(req.Files) != 400 || req.size != 400 {
		t.Fatalf("%d files of %d bytes are left of 400", len(req.Files), req.size)
	}
	for i := range 400 {
		path := fmt.Sprint("/", i)
		want := slices.IndexFunc(q.Files, func(f File) bool { return f.Path == path })
		file, ok := req.find(File{Path: path})
		if !ok || req.Files[file].Path != path {
			t.Fatalf("%s is file %d, %v", path, file, ok)
		}
		// Its place among the others is that of its first mention.
		if file > 0 && slices.IndexFunc(q.Files, func(f File) bool { return f.Path == req.Files[file-1].Path }) > want {
			t.Fatalf("%s has lost its place", path)
		}
	}
	for _, path := range []string{"", "/", "/400", "/x"} {
		if _, ok := req.find(File{Path: path}); ok {
			t.Errorf("%q is found", path)
		}
	}
}

// A request of a million files takes what the package's comment says.
func TestMillionFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const n = 1_000_000
	q := Request{ID: "x", Job: "j", Implicit: true, Files: make([]File, n)}
	for i := range q.Files {
		q.Files[i] = File{Path: fmt.Sprintf("/data/%03d/%07d", i/1000, i), Size: 4096}
	}
	r, err := newRequest(q, testBlock)
	if err != nil {
		t.Fatal(err)
	}
	if c := 4*cap(r.start) + 4*cap(r.byPath) + cap(r.state); c > 14*n {
		t.Errorf("%d bytes for %d files", c, n)
	}
	s := &portion{r: r, lane: &lane{e: &Engine{}, running: true}}
	for i := range int32(n) {
		s.files = append(s.files, i)
	}
	done := 0
	for pos := s.upcoming(nil, 1); len(pos) > 0; pos = s.upcoming(pos[:0], 1) {
		if pos[0]%100 == 0 {
			if _, ok := r.find(r.Files[r.fileOf(pos[0])]); !ok {
				t.Fatal("lost")
			}
		}
		r.move(pos[0], read)
		done++
	}
	if done != n || !(r.blocks[read] == n && r.bytes[remaining] == 0) {
		t.Errorf("%d of %d were done", done, n)
	}
}
