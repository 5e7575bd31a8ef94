package stream

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/pagecache"
	"headrace/stream/deal"
	"headrace/stream/source"
)

// follower notes which files are followed.
type follower struct {
	mu    sync.Mutex
	files map[string]int64
}

type followedFile struct{ pagecache.Watched }

func (followedFile) Resident() int64 { return 0 }
func (followedFile) Close() error    { return nil }

func (w *follower) watch(f *os.File) (pagecache.Watched, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files[filepath.Base(f.Name())] = st.Size()
	return followedFile{}, nil
}

func (w *follower) follows(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, is := w.files[name]
	return is
}

// TestFollowedFilesOfOneUser: sparse files cost nothing, and what is known of them does.
func TestFollowedFilesOfOneUser(t *testing.T) {
	p, w := newPlace(t), &follower{files: map[string]int64{}}
	p.local.Cache = &fakeCache{watch: w.watch}
	p.start()
	paths := []string{p.write("first", nil)}
	for i := range 7 {
		path := p.write(fmt.Sprint("large", i), nil)
		size := int64(1 << 40)
		if i == 6 {
			size *= 2
		}
		if err := os.Truncate(path, size); err != nil {
			t.Skip(err)
		}
		paths = append(paths, path)
	}
	paths = append(paths, p.write("last", []byte("x")))
	info := p.open(Spec{Paths: paths, Rule: deal.Rule{Split: deal.Files}, Consumers: 1})
	c := p.client(info.ID, 0, 1)
	if err := c.connect(); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "the last file is followed", func() bool { return w.follows("last") })
	w.mu.Lock()
	defer w.mu.Unlock()
	sum := int64(0)
	for _, size := range w.files {
		sum += size
	}
	if sum < 2<<40 || sum > 4<<40 || w.files["large6"] > 0 {
		t.Errorf("%d bytes are followed: %v", sum, w.files)
	}
}

// notAnswering is a source of which a file is on a server that does not answer.
type notAnswering struct {
	source.Source
	path   string
	answer chan struct{}
}

func (s *notAnswering) Open(path string, was fileset.Was, owner linux.Credentials) (source.File, error) {
	if path == s.path {
		<-s.answer
	}
	return s.Source.Open(path, was, owner)
}

// TestFollowWithoutAnswer: a file that cannot be opened for as long as its server is away holds up neither the files of
// other users nor the end.
func TestFollowWithoutAnswer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root opens streams of others")
	}
	p, w := newPlace(t), &follower{files: map[string]int64{}}
	p.local.Cache = &fakeCache{watch: w.watch}
	dir := testkit.OpenDir(t)
	var paths []string
	for i := range 4 {
		paths = append(paths, testkit.File(t, dir, fmt.Sprint("f", i), 10, 0o644))
	}
	s := &notAnswering{p.local, paths[2], make(chan struct{})}
	p.cfg.Source = s
	p.start()
	defer close(s.answer)
	for uid, with := range map[uint32][]string{0: paths[:3], 54321: {paths[0], paths[1], paths[3]}} {
		info, err := p.e.Open(t.Context(), Spec{
			Paths: with, Rule: deal.Rule{Split: deal.Files}, Consumers: 1, Owner: linux.Credentials{UID: uid, GID: uid},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.client(info.ID, 0, 1).connect(); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Await(t, "the other user's file is followed", func() bool { return w.follows("f3") })
	begun := time.Now()
	p.stop()
	if took := time.Since(begun); took > patience {
		t.Errorf("the end took %v", took)
	}
}
