package warm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/pagecache"
)

func TestFilesThatFail(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		fifo, socket := filepath.Join(w.dir, "d1/fifo"), filepath.Join(w.dir, "d1/dangling")
		if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.Symlink("nowhere", socket)); err != nil {
			t.Fatal(err)
		}
		shrunk, secret := w.file("d1/shrunk", blocks(1)), w.file("d1/secret", 10)
		w.denied["0 "+secret.Path] = true
		shrunk.Size += 10
		files := []File{
			{Path: filepath.Join(w.dir, "d1/missing"), Size: 10},
			{Path: filepath.Join(w.dir, "nodir/missing"), Size: 10},
			{Path: fifo, Size: 0},
			{Path: socket, Size: 10},
			{Path: filepath.Join(w.dir, "d1"), Size: 4096},
			{Path: "/dev/zero", Size: 0},
			shrunk,
			secret,
			{Path: "relative", Size: 10},
			{Path: filepath.Join(w.dir, "negative"), Size: -5},
			{Path: filepath.Join(w.dir, "endless"), Size: 1 << 62},
			w.file("d1/fine", 100),
			w.file("d1/empty", 0),
			w.file("d2/fine too", blocks(1)),
		}
		w.add(w.job("a", files...))
		w.add(w.job("b", w.file("d1/other", 100)))
		s := w.status("r-a")
		var got []string
		for _, f := range s.Failures {
			got = append(got, strings.TrimPrefix(f.Path, w.dir+"/")+": "+f.Reason)
		}
		want := []string{
			"relative: its path is relative; give an absolute one",
			"negative: its size is given as -5",
			"endless: its size of 4611686018427387904 bytes is more than can be warmed (4398046511104)",
			"nodir/missing: no such file or directory",
			"d1/missing: no such file or directory",
			"d1/fifo: it is no regular file",
			"d1/dangling: no such file or directory",
			"d1: it is no regular file",
			"/dev/zero: it is no regular file",
			"d1/shrunk: it shrank from 1048586 to 1048576 bytes",
			"d1/secret: permission denied",
		}
		if s.FailedFiles != len(want) || len(got) != len(want) {
			t.Errorf("%d files failed, want %d: %q", s.FailedFiles, len(want), got)
		}
		for _, f := range want {
			if !strings.Contains("\n"+strings.Join(got, "\n")+"\n", "\n"+f+"\n") {
				t.Errorf("%q is missing in %q", f, got)
			}
		}
		if !s.Done || s.Pinned != 100+blocks(1) || s.Failed != 10+10+10+4096+shrunk.Size+10+10 {
			t.Errorf("%+v", s)
		}
		if s := w.status("r-b"); !s.Done || s.Pinned != 100 || s.FailedFiles != 0 {
			t.Errorf("another job: %+v", s)
		}
		if c := w.e.Counters(); c.FailedFiles != int64(len(want)) {
			t.Errorf("%+v", c)
		}
	})
}

// Only the first failures are kept, all are counted.
func TestManyFailures(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		var files []File
		for i := range 3000 {
			files = append(files, File{Path: filepath.Join(w.dir, "d1", fmt.Sprint(i)), Size: 1})
		}
		w.add(w.job("a", files...))
		if s := w.status("r-a"); !s.Done || s.FailedFiles != 3000 || len(s.Failures) != keptFailures || s.Failed != 3000 {
			t.Errorf("%+v", s)
		}
	})
}

func TestFilesThatChange(t *testing.T) {
	cases := []struct {
		name string
		// change is done to a file of 4 blocks while its second one is being read.
		change func(path string) error
		reads  string
		reason string
		pinned int64
	}{
		{"removed", os.Remove, "f@0 f@1", "no such file or directory", blocks(2)},
		{"replaced", func(path string) error {
			other := path + ".new"
			return errors.Join(os.WriteFile(other, nil, 0o600), os.Truncate(other, blocks(4)), os.Rename(other, path))
		}, "f@0 f@1", "it was replaced by another file while it was warmed", blocks(2)},
		{"shorter, behind", func(path string) error { return os.Truncate(path, blocks(3)) },
			"f@0 f@1", "it shrank from 4194304 to 3145728 bytes", blocks(2)},
		{"shorter, before", func(path string) error { return os.Truncate(path, 10) },
			"f@0 f@1", "it shrank from 4194304 to 10 bytes", blocks(1)},
		{"longer", func(path string) error { return os.Truncate(path, blocks(9)) }, "f@0 f@1 f@2 f@3", "", blocks(4)},
		{"written to", func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("new"), blocks(3))
			return errors.Join(err, f.Close())
		}, "f@0 f@1 f@2 f@3", "", blocks(4)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
				w.shut()
				f := w.file("d1/f", blocks(4))
				w.add(w.job("a", f))
				w.add(w.job("b", w.file("d1/b", blocks(5))))
				w.let()
				if err := c.change(f.Path); err != nil {
					t.Fatal(err)
				}
				w.openGate()
				w.settle()
				w.wantReads(append(strings.Fields(c.reads), "b@0", "b@1", "b@2", "b@3", "b@4")...)
				s := w.status("r-a")
				if !s.Done || s.Pinned != c.pinned || (len(s.Failures) > 0) != (c.reason != "") {
					t.Fatalf("%+v", s)
				}
				if c.reason != "" && s.Failures[0].Reason != c.reason {
					t.Errorf("it failed because %q, want %q", s.Failures[0].Reason, c.reason)
				}
			})
		})
	}
}

// What is kept of a file is let go when its path leads to something else, or to
// less; others are not harmed, and one that has become longer stays.
func TestKeptFilesChange(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		names := []string{"removed", "replaced", "shorter", "longer", "same"}
		files := map[string]File{}
		var all []File
		for _, n := range names {
			files[n] = w.file("d1/"+n, blocks(2))
			all = append(all, files[n])
		}
		w.add(w.job("a", all...))
		w.add(w.job("b", files["removed"], files["same"]))
		w.wantPinned(10)
		other := files["replaced"].Path + ".new"
		if err := errors.Join(os.Remove(files["removed"].Path),
			os.WriteFile(other, nil, 0o600), os.Truncate(other, blocks(2)), os.Rename(other, files["replaced"].Path),
			os.Truncate(files["shorter"].Path, blocks(1)), os.Truncate(files["longer"].Path, blocks(5))); err != nil {
			t.Fatal(err)
		}
		w.pass(3 * w.e.cfg.FollowUp)
		w.wantPinned(4)
		s := w.status("r-a")
		if !s.Done || s.Pinned != blocks(4) || s.Failed != blocks(6) || s.FailedFiles != 3 {
			t.Errorf("%+v", s)
		}
		var why []string
		for _, f := range s.Failures {
			why = append(why, filepath.Base(f.Path)+": "+f.Reason)
		}
		slices.Sort(why)
		if want := []string{"removed: no such file or directory", "replaced: it was replaced by another file while it was kept",
			"shorter: it shrank from 2097152 to 1048576 bytes"}; !slices.Equal(why, want) {
			t.Errorf("%q", why)
		}
		if s := w.status("r-b"); s.Pinned != blocks(2) || s.Failed != blocks(2) {
			t.Errorf("%+v", s)
		}
		w.pass(3 * w.e.cfg.FollowUp)
		if s := w.status("r-a"); s.FailedFiles != 3 || len(s.Failures) != 3 {
			t.Errorf("later: %+v", s)
		}
	})
}

// What is locked of a file that was deleted is let go, whichever of its blocks that is.
func TestKeptPartsOfDeletedFiles(t *testing.T) {
	for name, keep := range map[string]func(w *world, f File){
		"all but the first, which was in memory": func(w *world, f File) {
			w.load(f.Path, blockPart(0))
			w.add(w.job("a", f))
			w.wantPinned(3)
		},
		"all but those that were read": func(w *world, f File) {
			q := w.job("a", f)
			q.Implicit = true
			w.add(q)
			w.e.Read("a", f.Path, pagecache.Range{Len: blocks(2)})
			w.wantPinned(2)
		},
		"what another job has left": func(w *world, f File) {
			w.add(w.job("a", f))
			w.add(w.job("hold", w.file("d1/hold", blocks(16))))
			w.add(w.job("b", w.file("d1/b", blocks(30)), f)) // there is no room for it
			w.e.Release("a")
			if s := w.status("r-b"); s.Pinned != f.Size {
				w.Errorf("%+v", s)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(20)}}, func(t *testing.T, w *world) {
				f := w.file("d1/f", blocks(4))
				keep(w, f)
				w.pass(3 * w.e.cfg.FollowUp)
				o, err := w.e.open(&request{}, f.Path)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(o.f.Close(), os.Remove(f.Path)); err != nil {
					t.Fatal(err)
				}
				w.pass(4 * w.e.cfg.FollowUp)
				w.e.mu.Lock()
				defer w.e.mu.Unlock()
				for at := range w.e.blocks.all {
					if at.ino == o.ino {
						t.Errorf("it is kept from %d on", at.Off)
					}
				}
			})
		})
	}
}

// A small file that becomes shorter while it is read has failed.
func TestSmallFileShrinks(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		w.shut()
		f := w.file("d1/f", blocks(1))
		w.add(w.job("a", f))
		if err := os.Truncate(f.Path, 5000); err != nil {
			t.Fatal(err)
		}
		w.openGate()
		w.settle()
		w.wantPinned(0)
		if s := w.status("r-a"); !s.Done || s.Failed != f.Size || s.FailedFiles != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A file that was in memory and has vanished is noticed when it is looked at.
func TestFollowedFileVanishes(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		f, g := w.file("d1/f", blocks(2)), w.file("d1/g", blocks(2))
		w.load(f.Path, pagecache.Range{Len: f.Size})
		w.load(g.Path, pagecache.Range{Len: g.Size})
		w.add(w.job("a", f, g))
		if err := errors.Join(os.Remove(f.Path), os.Truncate(g.Path, 5)); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * w.e.cfg.FollowUp)
		if s := w.status("r-a"); !s.Done || s.FailedFiles != 2 || s.Failed != s.Bytes {
			t.Errorf("%+v", s)
		}
	})
}

func TestCacheRefuses(t *testing.T) {
	on := func(method string, from, to int, err error) func(string, int) error {
		return func(m string, n int) error {
			if m == method && n >= from && n <= to {
				return err
			}
			return nil
		}
	}
	cases := []struct {
		name   string
		fail   func(string, int) error
		waits  string // at first
		failed int
		reason string
		pinned int64 // in the end
	}{
		{"no room although there should be", on("Pin", 2, 4, pagecache.ErrBudget), "waits for room: the budget for locked memory is used up", 0, "", blocks(4)},
		{"no room in the kernel", on("Pin", 2, 3, pagecache.ErrLockLimit), "waits for room: the kernel's limit of locked memory is reached", 0, "", blocks(4)},
		{"nothing may be locked", on("Pin", 1, 1000, pagecache.ErrLockLimit), "", 2, "the kernel's limit of locked memory is reached", 0},
		{"an unreadable block", on("Pin", 2, 2, unix.EIO), "", 1, "input/output error", blocks(3)},
		{"residency unknown", on("Resident", 1, 1000, pagecache.ErrClosed), "", 0, "", blocks(4)},
		{"release fails", on("Pinned.Release", 1, 1000, unix.EIO), "", 0, "", blocks(4)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, worldConfig{fail: c.fail}, func(t *testing.T, w *world) {
				w.add(w.job("a", w.file("d1/f", blocks(2)), w.file("d1/g", blocks(2))))
				if s := w.status("r-a"); s.Waits != c.waits || s.Full != (c.waits != "") {
					t.Errorf("at first: %+v", s)
				}
				calls := w.cfg.Cache.(interface{ Calls(string) int }).Calls("Pin")
				if calls > 4 {
					t.Errorf("it was tried %d times at once", calls)
				}
				w.pass(10 * w.e.cfg.FollowUp)
				s := w.status("r-a")
				if !s.Done || s.Pinned != c.pinned || s.FailedFiles != c.failed {
					t.Errorf("in the end: %+v", s)
				}
				if c.failed > 0 && s.Failures[0].Reason != c.reason {
					t.Errorf("it failed because %q, want %q", s.Failures[0].Reason, c.reason)
				}
				w.e.Release("a")
				w.wantPinned(0)
			})
		})
	}
}

// What was refused is tried again at once when something is released.
func TestRefusedUntilARelease(t *testing.T) {
	inWorld(t, worldConfig{fail: func(m string, n int) error {
		if m == "Pin" && n == 2 {
			return pagecache.ErrBudget
		}
		return nil
	}}, func(t *testing.T, w *world) {
		w.add(w.job("a", w.file("d1/a", blocks(1))))
		w.add(w.job("b", w.file("d1/b", blocks(1))))
		w.wantPinned(1)
		w.e.Release("a")
		w.settle()
		if s := w.status("r-b"); !s.Done || s.Pinned != blocks(1) {
			t.Errorf("%+v", s)
		}
	})
}

// Without any way to tell what is in memory everything is read and locked.
func TestResidencyUnknown(t *testing.T) {
	inWorld(t, worldConfig{Config: pagecache.Config{Method: pagecache.None}}, func(t *testing.T, w *world) {
		f := w.file("d1/f", blocks(2))
		w.load(f.Path, blockPart(1))
		w.add(w.job("a", f))
		w.wantReads("f@0", "f@1")
		if did, err := w.e.Evict(t.Context(), w.job("x").Owner, true, []string{f.Path}); err != nil || did.Bytes != 0 || did.FailedFiles != 0 {
			t.Errorf("%+v, %v", did, err)
		}
		w.wantPinned(2)
	})
}

// A file that somebody has a lease on waits until the lease is over, and keeps nothing else waiting.
func TestLeasedFiles(t *testing.T) {
	inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
		first, last, other := w.file("d1/first", blocks(3)), w.file("d1/last", blocks(2)), w.file("d1/other", blocks(4))
		lease := func(yes bool, files ...File) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, f := range files {
				w.leased[f.Path] = yes
			}
		}
		lease(true, first, last)
		w.add(w.job("a", first, other, last))
		w.wantPinned(4)
		w.pass(40 * time.Second)
		if s := w.status("r-a"); s.Done || s.Full || s.FailedFiles != 0 || s.Remaining != blocks(5) || !strings.Contains(s.Waits, "lease") {
			t.Errorf("%+v", s)
		}
		lease(false, first)
		w.pass(2 * w.e.cfg.FollowUp)
		w.wantPinned(7)
		w.pass(2 * leaseTime)
		s := w.status("r-a")
		if !s.Done || s.FailedFiles != 1 || len(s.Failures) != 1 || s.Failures[0] != (Failure{last.Path, fileset.ErrLeased.Error()}) {
			t.Errorf("after %v: %+v", 2*leaseTime, s)
		}
		w.wantReads("other@0", "other@1", "other@2", "other@3", "first@0", "first@1", "first@2")
		// What is in memory is followed all the same.
		lease(false, last)
		w.load(last.Path, pagecache.Range{Len: last.Size})
		w.add(w.job("c", last))
		lease(true, last)
		w.pass(2 * leaseTime)
		if s := w.status("r-c"); s.Resident != last.Size || s.FailedFiles != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// However many files are locked, it does not take long until it is seen that one was deleted.
func TestManyLockedFilesAreLookedAt(t *testing.T) {
	const files = 200 * checkBatch
	r := &request{block: testBlock, held: map[uint32]*block{}, Request: Request{Files: make([]File, files)}}
	s := &portion{r: r}
	for i := range uint32(files) {
		r.start, r.held[i], s.checking = append(r.start, i), &block{}, append(s.checking, i)
	}
	r.start = append(r.start, files)
	l := &lane{e: &Engine{cfg: Config{FollowUp: time.Minute}}, shares: []*portion{s}}
	looks := 0
	for seen := map[uint32]bool{}; len(seen) < files; looks++ {
		l.followAt = time.Time{}
		_, due := l.due()
		for _, a := range due {
			seen[a.pos] = true
			s.checking = append(s.checking, a.pos) // as check does
		}
	}
	if looks > checkRound+1 {
		t.Errorf("all %d files were looked at in %d times, want %d", files, looks, checkRound)
	}
}

// TestSilentFile: a path comes to lead to a file server that does not answer. Who has given it is passed over until it
// answers, and all others are served.
func TestSilentFile(t *testing.T) {
	for name, c := range map[string]struct {
		uid    uint32
		locked bool // the file, before it is silent; else it is in memory
	}{
		"an ordinary user's, locked": {uid: 7, locked: true}, "an ordinary user's, in memory": {uid: 7}, "root's": {locked: true},
	} {
		inWorld(t, worldConfig{}, func(t *testing.T, w *world) {
			by := func(uid uint32, q Request) Request {
				q.Owner.UID = uid
				return q
			}
			first := w.file("d1/first", blocks(1))
			if !c.locked {
				w.load(first.Path, blockPart(0))
			}
			w.add(by(c.uid, w.job("a", first)))
			answer := make(chan struct{})
			w.mu.Lock()
			w.silent, w.reads = map[string]chan struct{}{first.Path: answer}, nil
			w.mu.Unlock()
			w.pass(10 * time.Second)
			w.add(by(c.uid, w.job("b", w.file("d1/second", blocks(1)))))
			w.add(by(8, w.job("c", w.file("d1/third", blocks(1)))))
			w.pass(10 * time.Second)
			if c.uid == 0 {
				w.wantReads("second@0", "third@0")
			} else {
				w.wantReads("third@0")
				if s := w.status("r-b"); s.Done || s.Full || !strings.HasPrefix(s.Waits, first.Path+" is not opened") {
					t.Errorf("%s: another request of that user: %+v", name, s)
				}
			}
			w.mu.Lock()
			clear(w.silent)
			w.mu.Unlock()
			close(answer)
			w.pass(10 * time.Second)
			for _, id := range []RequestID{"r-a", "r-b", "r-c"} {
				if s := w.status(id); !s.Done || s.Pinned+s.Resident != s.Bytes {
					t.Errorf("%s: in the end %+v", name, s)
				}
			}
			if len(w.e.silent) > 0 {
				t.Errorf("%s: %d are taken to be silent", name, len(w.e.silent))
			}
		})
	}
}

// TestSilentFileServerOfManyRequests: where nothing answers that looks for the devices of a user's files, few threads wait, however many
// requests there are, and nobody else does.
func TestSilentFileServerOfManyRequests(t *testing.T) {
	answer, asking := make(chan struct{}), atomic.Int64{}
	change := func(c *Config) {
		c.as = func(who linux.Credentials, do func() error) error {
			if who.UID == 7 {
				asking.Add(1)
				<-answer
			}
			return do()
		}
	}
	inWorld(t, worldConfig{change: change}, func(t *testing.T, w *world) {
		answer = make(chan struct{})
		ids := []RequestID{}
		for i := range 5 * maxAssigning {
			q := w.job(fmt.Sprint(i), w.file(fmt.Sprint("d1/", i), 10))
			q.Owner.UID = 7
			ids = append(ids, w.add(q))
		}
		other := w.job("other", w.file("d1/other", 10))
		other.Owner.UID = 8
		w.add(other)
		w.wantReads("other@0")
		if n := asking.Load(); n != maxAssigning {
			t.Errorf("%d wait for an answer, want %d", n, maxAssigning)
		}
		close(answer)
		for _, id := range ids {
			if s := w.status(id); !s.Done || s.Pinned != 10 {
				t.Errorf("in the end: %+v", s)
			}
		}
	})
}
