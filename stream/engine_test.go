package stream

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"headrace/disk"
	"headrace/internal/budget"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/pagecache"
	"headrace/stream/deal"
	"headrace/stream/protocol"
)

var byLine = deal.Rule{Split: deal.Lines, Delimiter: []byte("\n")}

// TestAbsentConsumer: a consumer was checkpointed, was restored and ran on, and the power fails. The others are
// dealt the rest before it is restored once more, and it goes on with what it had.
func TestAbsentConsumer(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	data := lines(rng, 6<<20, 100)
	p := newPlace(t).start()
	info := p.open(Spec{Paths: []string{p.write("f", data)}, Rule: byLine, Consumers: 2})
	one := p.client(info.ID, 0, 1)
	take := func(n int) {
		t.Helper()
		for range n {
			if err := one.next(nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := one.connect(); err != nil {
		t.Fatal(err)
	}
	take(3)
	one.disconnect()
	saved := p.client(info.ID, 0, 1)
	saved.hello.Units, saved.got = slices.Clone(one.hello.Units), slices.Clone(one.got)
	saved.path, saved.open = slices.Clone(one.path), slices.Clone(one.open)
	if err := one.connect(); err != nil {
		t.Fatal(err)
	}
	take(2)
	durable := filepath.Join(t.TempDir(), "streams")
	if err := os.CopyFS(durable, os.DirFS(p.cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	one.disconnect()
	p.stop()
	p.cfg.Dir = durable
	p.start()
	if err := p.e.Absent(info.ID, 0, 1); err != nil {
		t.Fatal(err)
	}
	other := p.client(info.ID, 1, 1)
	ended := make(chan error, 1)
	go func() { ended <- other.drain(0) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("the other consumer is dealt nothing")
	}
	if err := saved.drain(0); err != nil {
		t.Fatal(err)
	}
	if got := joined([]*client{other, saved}); !bytes.Equal(got, data) {
		t.Errorf("got %d bytes, want %d", len(got), len(data))
	}
}

func TestOneFileManyConsumers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for name, c := range map[string]struct {
		size     int
		seekless bool
	}{
		"tiny": {size: 10}, "small": {size: 200 << 10}, "middle": {size: 3 << 20}, "large": {size: 40 << 20},
		"seekless, middle": {size: 3 << 20, seekless: true},
		"seekless, large":  {size: 40 << 20, seekless: true},
	} {
		size := c.size
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.seekless = c.seekless
			p.start()
			data := lines(rng, size, 300)
			data = data[:len(data)-1] // no final newline
			info := p.open(Spec{Paths: []string{p.write("f", data)}, Rule: byLine, Consumers: 4})
			clients := p.all(info)
			if got := joined(clients); !bytes.Equal(got, data) {
				t.Fatalf("got %d bytes, want %d; the first difference is at %d", len(got), len(data), firstDifference(got, data))
			}
			// Without seekless a file may turn out to be read that fast.
			if n := p.referred.Load(); c.seekless && n == 0 {
				t.Errorf("%d pieces were read from the file", n)
			}
			open := 0
			for _, c := range clients {
				for i, u := range c.got {
					if c.open[i] {
						open++
					} else if len(u) > 0 && u[len(u)-1] != '\n' {
						t.Error("a unit ends inside a record")
					}
				}
			}
			if open != 1 {
				t.Errorf("%d units are unterminated, want the last alone", open)
			}
			after, err := p.e.Info(info.ID)
			if err != nil || after.Committed == 0 || p.undealt(info.ID) != 0 || after.DealtBytes != int64(len(data)) {
				t.Errorf("%+v %v", after, err)
			}
		})
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func TestRules(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	data := lines(rng, 5<<20, 5000)
	for _, rule := range []deal.Rule{
		{Split: deal.Raw}, {Split: deal.Fixed, Size: 1000}, {Split: deal.Fixed, Size: 300000}, byLine,
		{Split: deal.Lines, Delimiter: []byte("ab")}, {Split: deal.Lines, Delimiter: []byte("never there")},
	} {
		for _, seekless := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, seekless %v", rule, seekless), func(t *testing.T) {
				p := newPlace(t)
				p.seekless = seekless
				p.start()
				if rule.Split == deal.Fixed {
					data = data[:len(data)/int(rule.Size)*int(rule.Size)]
				}
				clients := p.all(p.open(Spec{Paths: []string{p.write("f", data)}, Rule: rule, Consumers: 3}))
				if got := joined(clients); !bytes.Equal(got, data) {
					t.Fatalf("got %d bytes, want %d", len(got), len(data))
				}
				for _, c := range clients {
					for i, u := range c.got {
						switch {
						case rule.Split == deal.Fixed && int64(len(u))%rule.Size != 0:
							t.Errorf("a unit of %d bytes is not made of records of %d", len(u), rule.Size)
						case rule.Split == deal.Lines && !c.open[i] && !bytes.HasSuffix(u, rule.Delimiter):
							t.Error("a unit ends inside a record")
						}
					}
				}
			})
		}
	}
}

// TestManyFiles streams files of all sizes and kinds together.
func TestManyFiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	p := newPlace(t).start()
	var want []string
	for i := range 700 {
		n := []int{0, 1, 100, 3000, 60 << 10}[rng.IntN(5)]
		if i%100 == 0 {
			n = 1 << 20
		}
		data := lines(rng, n, 200)
		if n == 0 {
			data = nil
		}
		want = append(want, strings.SplitAfter(string(data), "\n")...)
		if rng.IntN(3) == 0 && len(data) > 0 {
			data = data[:len(data)-1]
		}
		p.write("in/"+strings.Repeat("d/", i%3)+"f"+string(rune('a'+i%26))+strings.Repeat("x", i/26), data)
	}
	plain := lines(rng, 3<<20, 200)
	want = append(want, strings.SplitAfter(string(plain), "\n")...)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(plain)
	w.Close()
	p.write("in/z.gz", z.Bytes())

	info := p.open(Spec{Paths: []string{filepath.Dir(p.socket) + "/in"}, Rule: byLine, Consumers: 5})
	var got []string
	for _, c := range p.all(info) {
		for i, u := range c.got {
			if strings.HasSuffix(c.path[i], ".gz") {
				r, err := gzip.NewReader(bytes.NewReader(u))
				if err != nil {
					t.Fatal(err)
				}
				if u, err = io.ReadAll(r); err != nil {
					t.Fatal(err)
				}
			}
			if c.open[i] {
				u = append(u, '\n')
			}
			got = append(got, strings.SplitAfter(string(u), "\n")...)
		}
	}
	clean := func(list []string) []string {
		list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
		slices.Sort(list)
		return list
	}
	if got, want := clean(got), clean(want); !slices.Equal(got, want) {
		t.Fatalf("got %d records, want %d", len(got), len(want))
	}
}

// TestSplitFiles deals names, those in memory first.
func TestSplitFiles(t *testing.T) {
	p := newPlace(t)
	p.local.Cache = &fakeCache{resident: func(f *os.File, r pagecache.Range) int64 {
		if strings.HasSuffix(f.Name(), "7") {
			return r.Len
		}
		return 0
	}}
	p.start()
	var paths []string
	for _, n := range []string{"f1", "f2", "f7", "f3", "g7"} {
		paths = append(paths, p.write(n, []byte("something")))
	}
	info := p.open(Spec{Paths: paths, Rule: deal.Rule{Split: deal.Files}, Consumers: 1})
	c := p.all(info)[0]
	var names []string
	for _, path := range c.path {
		names = append(names, filepath.Base(path))
	}
	if got := strings.Join(names, " "); got != "g7 f7 f1 f2 f3" {
		t.Errorf("dealt in the order %s", got)
	}
}

// TestResidentBlocksFirst has the end of a file in memory.
func TestResidentBlocksFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	data := lines(rng, 8<<20, 100)
	half := int64(len(data) / 2)
	p := newPlace(t)
	p.local.Cache = &fakeCache{resident: func(_ *os.File, r pagecache.Range) int64 {
		return max(0, r.Off+r.Len-max(half, r.Off))
	}}
	p.start()
	path := p.write("f", data)
	info := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1})
	// Somebody else has the disk meanwhile.
	turn := p.occupy(path)
	c := p.client(info.ID, 0, 1)
	if err := c.connect(); err != nil {
		t.Fatal(err)
	}
	defer c.disconnect()
	for range info.Units/2 - 1 {
		if err := c.next(nil); err != nil {
			t.Fatal(err)
		}
	}
	if first := slices.Min(c.hello.Units); first < uint32(info.Units/2) {
		t.Errorf("unit %d of %d came without a turn at the disk", first, info.Units)
	}
	turn.End(0)
	for {
		if err := c.next(nil); err == errEnd {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if got := joined([]*client{c}); !bytes.Equal(got, data) {
		t.Error("the bytes are wrong")
	}
}

// TestResidentFilesFirst has half of the files in memory, and a part of one: the
// last of those that are all there come first, and the others in their order.
func TestResidentFilesFirst(t *testing.T) {
	p := newPlace(t)
	const size = 64 << 10
	var paths []string
	for i := range 6 {
		paths = append(paths, p.write(fmt.Sprintf("f%d", i), bytes.Repeat([]byte{byte('0' + i)}, size)))
	}
	here := map[string]int64{paths[2]: size / 2, paths[3]: size, paths[4]: size, paths[5]: size}
	p.local.Cache = &fakeCache{resident: func(f *os.File, r pagecache.Range) int64 { return min(r.Len, here[f.Name()]) }}
	p.start()
	info := p.open(Spec{Paths: paths, Rule: deal.Rule{Split: deal.Files}, Consumers: 1})
	c := p.client(info.ID, 0, 1)
	if err := c.connect(); err != nil {
		t.Fatal(err)
	}
	defer c.disconnect()
	for range paths {
		if err := c.next(nil); err != nil {
			t.Fatal(err)
		}
	}
	if want := []uint32{5, 4, 3, 2, 0, 1}; !slices.Equal(c.hello.Units, want) {
		t.Errorf("dealt %v, want %v", c.hello.Units, want)
	}
}

// occupy takes the turn at the disk of a file.
func (p *place) occupy(path string) *disk.Turn {
	p.t.Helper()
	turn, err := p.reader(path).Begin(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return turn
}

// TestSharedScan has two streams on one file, with other rules: it is read about
// once.
func TestSharedScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	data := lines(rng, 64<<20, 400)[:64<<20]
	p := newPlace(t).start()
	path := p.write("f", data)
	a := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 2})
	b := p.open(Spec{Paths: []string{path}, Rule: deal.Rule{Split: deal.Fixed, Size: 4096}, Consumers: 2})
	done := make(chan []*client)
	go func() { done <- p.all(b) }()
	got := joined(p.all(a))
	if !bytes.Equal(got, data) {
		t.Error("the first job's bytes are wrong")
	}
	if !bytes.Equal(joined(<-done), data) {
		t.Error("the second job's bytes are wrong")
	}
	p.e.mu.Lock()
	left := p.e.scans.Scans()
	p.e.mu.Unlock()
	if left > 0 && !p.settled() {
		t.Errorf("%d scans are left", left)
	}
}

// settled waits until no scan is left.
func (p *place) settled() bool {
	p.e.Close()
	return p.e.scans.Scans() == 0
}

// TestFailedAttempt returns what it had, also when it had ended with code 0.
func TestFailedAttempt(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	data := lines(rng, 6<<20, 100)
	p := newPlace(t).start()
	info := p.open(Spec{Paths: []string{p.write("f", data)}, Rule: byLine, Consumers: 2})
	first := p.client(info.ID, 0, 1)
	if err := first.connect(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := first.next(nil); err != nil {
			t.Fatal(err)
		}
	}
	first.disconnect()
	if err := p.e.Fail(info.ID, 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := first.connect(); err == nil {
		t.Error("an attempt that was given up came back")
	}
	other := p.client(info.ID, 1, 1)
	if err := other.drain(0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(joined([]*client{other}), data) {
		t.Error("the other consumer did not get what the failed one had")
	}
	if err := p.e.Done(info.ID, 1, 1); err != nil || p.undealt(info.ID) > 0 {
		t.Errorf("what an attempt had that is done is to be dealt again: %v", err)
	}
	if err := p.e.Fail(info.ID, 1, 1); err != nil {
		t.Fatal(err)
	}
	p.stop()
	p.start()
	again := p.client(info.ID, 1, 2)
	if err := again.drain(0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(joined([]*client{again}), data) {
		t.Error("the next attempt of one that had ended for nothing did not get all")
	}
}

// TestRestoredAfterItsEnd: a consumer that has ended is restored from a checkpoint of before, and the daemon starts again:
// it gets the rest, once.
func TestRestoredAfterItsEnd(t *testing.T) {
	for _, code := range []int32{0, 143} {
		data := lines(rand.New(rand.NewPCG(21, 22)), 6<<20, 100)
		p := newPlace(t).start()
		info := p.open(Spec{Paths: []string{p.write("f", data)}, Rule: byLine, Consumers: 1})
		c := p.client(info.ID, 0, 1)
		if err := c.connect(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.next(nil); err != nil {
				t.Fatal(err)
			}
		}
		c.disconnect()
		saved := p.client(info.ID, 0, 1)
		saved.hello.Units, saved.hello.Whole, saved.got = slices.Clone(c.hello.Units), true, slices.Clone(c.got)
		saved.open = slices.Clone(c.open)
		if err := c.drain(code); err != nil {
			t.Fatal(err)
		}
		p.stop()
		p.start()
		if err := saved.drain(0); err != nil {
			t.Fatalf("code %d: %v", code, err)
		}
		if !bytes.Equal(joined([]*client{saved}), data) {
			t.Errorf("code %d: it did not get all records once", code)
		}
	}
}

// TestFullDiskWhileAnAttemptFails: what an attempt had whose end cannot be written down yet
// goes to the others when it can.
func TestFullDiskWhileAnAttemptFails(t *testing.T) {
	data := lines(rand.New(rand.NewPCG(19, 20)), 6<<20, 100)
	p := newPlace(t).start()
	info := p.open(Spec{Paths: []string{p.write("f", data)}, Rule: byLine, Consumers: 2})
	fails, other := p.client(info.ID, 0, 1), p.client(info.ID, 1, 1)
	for _, c := range []*client{fails, other} {
		if err := c.connect(); err != nil {
			t.Fatal(err)
		}
		defer c.disconnect()
		if err := c.next(nil); err != nil {
			t.Fatal(err)
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	p.e.mu.Lock()
	s := p.e.streams[info.ID]
	p.e.mu.Unlock()
	swap := func(f *os.File) (was *os.File) {
		s.journalMu.Lock()
		defer s.journalMu.Unlock()
		was, s.journal.f = s.journal.f, f
		return was
	}
	whole := swap(full)
	if err := p.e.Fail(info.ID, 0, 1); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is full: %v", err)
	}
	if err := fails.connect(); !errors.Is(err, errRefused) {
		t.Errorf("an attempt came back that is to be given up: %v", err)
	}
	ended := make(chan error, 1)
	go func() {
		err := error(nil)
		for err == nil {
			err = other.next(nil)
		}
		ended <- err
	}()
	testkit.Await(t, "all else to be dealt", func() bool { return p.undealt(info.ID) == 0 })
	swap(whole)
	if err := <-ended; err != errEnd {
		t.Fatal(err)
	}
	if got := joined([]*client{other}); !bytes.Equal(got, data) {
		t.Errorf("the other got %d bytes of %d", len(got), len(data))
	}
}

func TestRefusals(t *testing.T) {
	p := newPlace(t).start()
	path := p.write("f", []byte("x\n"))
	for name, spec := range map[string]Spec{
		"nothing there":    {Paths: []string{path + "x"}, Rule: byLine, Consumers: 1},
		"special file":     {Paths: []string{"/dev/null"}, Rule: byLine, Consumers: 1},
		"relative":         {Paths: []string{"f"}, Rule: byLine, Consumers: 1},
		"no consumers":     {Paths: []string{path}, Rule: byLine},
		"too many":         {Paths: []string{path}, Rule: byLine, Consumers: MaxConsumers + 1},
		"small buffer":     {Paths: []string{path}, Rule: byLine, Consumers: 1, Buffer: 100},
		"name with slash":  {ID: "../x", Paths: []string{path}, Rule: byLine, Consumers: 1},
		"no files":         {Rule: byLine, Consumers: 1},
		"part of a record": {Paths: []string{path, p.write("g", []byte("12345"))}, Rule: deal.Rule{Split: deal.Fixed, Size: 2}, Consumers: 1},
	} {
		if _, err := p.e.Open(t.Context(), spec); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if d, err := os.ReadDir(p.cfg.Dir); err != nil || len(d) != 0 {
		t.Errorf("refused streams left %v, %v", d, err)
	}
}

// TestBrokenStream: a stream whose plan is damaged keeps neither the engine nor other
// streams from starting again.
func TestBrokenStream(t *testing.T) {
	p := newPlace(t).start()
	path := p.write("f", []byte("fine\n"))
	bad := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1})
	good := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1})
	p.stop()
	dir := filepath.Join(p.cfg.Dir, bad.ID)
	if err := os.WriteFile(filepath.Join(dir, planName), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	if string(joined(p.all(good))) != "fine\n" {
		t.Error("another stream was harmed")
	}
	info, err := p.e.Info(bad.ID)
	if err != nil || !strings.Contains(info.Error, "could not be taken up") || len(p.e.List()) != 2 {
		t.Errorf("%+v, %v; %+v", info, err, p.e.List())
	}
	if err := p.client(bad.ID, 0, 1).connect(); !errors.Is(err, errRefused) {
		t.Errorf("its consumer: %v", err)
	}
	if err := p.e.Remove(bad.ID); err != nil || len(p.e.List()) != 1 {
		t.Errorf("%v; %+v", err, p.e.List())
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestPlanOfNewerVersion: readers of a stream that a newer version has written wait, and go on with a daemon that knows it; what is
// said of them meanwhile is to be said to that. For one that reads an older plan nobody waits.
func TestPlanOfNewerVersion(t *testing.T) {
	p := newPlace(t).start()
	s := p.open(Spec{Paths: []string{p.write("f", []byte("fine\n"))}, Rule: byLine, Consumers: 1})
	p.stop()
	plan := filepath.Join(p.cfg.Dir, s.ID, planName)
	ours, err := os.ReadFile(plan)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plan, z.EncodeAll([]byte(`{"version": 0}`), nil), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	if err := p.client(s.ID, 0, 1).connect(); !errors.Is(err, errRefused) || p.e.AwaitsNewer(s.ID) {
		t.Errorf("the consumer of an older plan: %v", err)
	}
	p.stop()
	theirs := z.EncodeAll([]byte(`{"version": 2, "what": "nobody knows"}`), nil)
	if err := os.WriteFile(plan, theirs, 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	for name, err := range map[string]error{"done": p.e.Done(s.ID, 0, 1), "failed": p.e.Fail(s.ID, 0, 1), "absent": p.e.Absent(s.ID, 0, 1)} {
		if err == nil || errors.Is(err, ErrUnknown) || !p.e.AwaitsNewer(s.ID) {
			t.Errorf("that its consumer is %s is taken in, or lost: %v", name, err)
		}
	}
	if err := p.client(s.ID, 0, 1).connect(); err == nil || errors.Is(err, errRefused) {
		t.Errorf("its consumer is told: %v", err)
	}
	if info, err := p.e.Info(s.ID); err != nil || !strings.Contains(info.Error, "it waits for the version") {
		t.Errorf("%+v, %v", info, err)
	}
	p.stop()
	if now, err := os.ReadFile(plan); err != nil || !bytes.Equal(now, theirs) {
		t.Errorf("its plan was changed: %v", err)
	}
	if err := os.WriteFile(plan, ours, 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	if got := string(joined(p.all(s))); got != "fine\n" {
		t.Errorf("it deals %q", got)
	}
}

// TestFilesOfOneUser: files take memory though they have no bytes, and it is given back with their stream, also when
// the daemon was started again.
func TestFilesOfOneUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root opens streams of others")
	}
	const stranger, files = 54321, 20
	p := newPlace(t).start()
	dir := testkit.OpenDir(t)
	for i := range files {
		testkit.File(t, dir, fmt.Sprint(i), 0, 0o644)
	}
	spec := Spec{Paths: []string{dir}, Rule: byLine, Consumers: 1, Owner: linux.Credentials{UID: stranger, GID: stranger}}
	one := int64(files * (fileCost + len(dir) + 3))
	p.e.lists = budget.New("bytes", one*3/2, 1<<30)
	open := func() Info {
		t.Helper()
		info, err := p.e.Open(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := open()
	var over *budget.Refusal
	if _, err := p.e.Open(t.Context(), spec); !errors.As(err, &over) {
		t.Errorf("more files than their owner may have: %v", err)
	}
	if err := p.e.Remove(first.ID); err != nil || p.e.lists.Users() != 0 {
		t.Errorf("%v, %d users have files without streams", err, p.e.lists.Users())
	}
	open()
	p.stop()
	p.start()
	if p.e.lists.Users() != 1 {
		t.Errorf("%d users have files after a restart", p.e.lists.Users())
	}
}

// TestNewerReader: a reader of a newer version is not told that its stream has failed, but comes again. Whoever runs the daemon is
// told once, of one that has such a stream, and of nothing that it has made up.
func TestNewerReader(t *testing.T) {
	p := newPlace(t)
	var said bytes.Buffer
	p.cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
	p.start()
	s := p.open(Spec{Paths: []string{p.write("f", []byte("fine\n"))}, Rule: byLine, Consumers: 1})
	for _, name := range []string{strings.Repeat("s", 1000), s.ID, s.ID, s.ID} {
		c := p.client(name, 0, 0)
		c.hello.Version++
		if err := c.connect(); err == nil || errors.Is(err, errRefused) {
			t.Errorf("it was told: %v", err)
		}
	}
	p.stop()
	if n := strings.Count(said.String(), "newer version"); n != 1 || !strings.Contains(said.String(), fmt.Sprintf("user=%d version=2", os.Getuid())) || said.Len() > 500 {
		t.Errorf("whoever runs the daemon is told %d times: %s", n, &said)
	}
}

// TestSilentReader: a consumer that is stopped before it has said who it is, or in the middle of that, is not told that its attempt is
// over, and comes again.
func TestSilentReader(t *testing.T) {
	usual := helloTimeout
	defer func() { helloTimeout = usual }()
	helloTimeout = 100 * time.Millisecond
	p := newPlace(t).start()
	defer p.stop()
	path := p.write("f", []byte("fine\n"))
	info := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1})
	c := p.client(info.ID, 0, 1)
	hello, err := protocol.Append(nil, &c.hello)
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []int{0, 1, len(hello) - 1} {
		sock, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.socket, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer sock.Close()
		if _, err := sock.Write(hello[:said]); err != nil {
			t.Fatal(err)
		}
		if m, err := protocol.NewConn(sock).Receive(); err == nil {
			t.Errorf("after %d bytes of %d it is told %+v", said, len(hello), m)
		}
	}
	p.stop()
	helloTimeout = usual
	p.start()
	if err := c.drain(0); err != nil {
		t.Error(err)
	}
}

// TestUnitsOfOneUser: a sparse file costs nobody but the daemon something.
func TestUnitsOfOneUser(t *testing.T) {
	p := newPlace(t).start()
	const stranger = 54321
	if err := p.e.room(stranger, maxUserUnits); err != nil {
		t.Error(err)
	}
	if err := p.e.room(stranger, maxUserUnits+1); err == nil {
		t.Error("a stream with too many units was accepted")
	}
	p.e.mu.Lock()
	p.e.streams["x"] = &stream{spec: Spec{Owner: linux.Credentials{UID: stranger}}, plan: &deal.Plan{Units: 10}}
	p.e.mu.Unlock()
	if err := p.e.room(stranger, maxUserUnits-9); err == nil {
		t.Error("two streams with too many units were accepted")
	}
	if err := p.e.room(stranger+1, maxUserUnits-9); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	p.e.mu.Lock()
	delete(p.e.streams, "x")
	p.e.mu.Unlock()
}

// TestRecordTooLong fails the stream with the long record, not the other one on
// the same file.
func TestRecordTooLong(t *testing.T) {
	t.Run("on a disk", func(t *testing.T) { testRecordTooLong(t, false) })
	t.Run("seekless", func(t *testing.T) { testRecordTooLong(t, true) })
}

func testRecordTooLong(t *testing.T, seekless bool) {
	data := bytes.Repeat([]byte("x"), 48<<20)
	p := newPlace(t)
	p.seekless = seekless
	p.start()
	path := p.write("f", data)
	a := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1, Buffer: MinBuffer})
	b := p.open(Spec{Paths: []string{path}, Rule: deal.Rule{Split: deal.Raw}, Consumers: 1, Buffer: MinBuffer})
	errs := make(chan error)
	c := p.client(a.ID, 0, 1)
	go func() { errs <- c.drain(0) }()
	if got := joined(p.all(b)); !bytes.Equal(got, data) {
		t.Errorf("the raw stream got %d bytes", len(got))
	}
	if err := <-errs; err == nil || !strings.Contains(err.Error(), "longer than the buffer") {
		t.Error(err)
	}
}

// TestFileChanges streams files that change under way.
func TestFileChanges(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"shrunk":   func(path string) error { return os.Truncate(path, 10) },
		"replaced": func(path string) error { os.Remove(path); return os.WriteFile(path, []byte("new"), 0o644) },
		"removed":  os.Remove,
		"rewritten": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("y"), 0)
			return err
		},
	} {
		for _, seekless := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, seekless %v", name, seekless), func(t *testing.T) {
				p := newPlace(t)
				p.seekless = seekless
				p.start()
				good := p.write("good", []byte("fine\n"))
				path := p.write("f", lines(rand.New(rand.NewPCG(1, 1)), 3<<20, 100))
				info := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1})
				other := p.open(Spec{Paths: []string{good}, Rule: byLine, Consumers: 1})
				if err := change(path); err != nil {
					t.Fatal(err)
				}
				err := p.client(info.ID, 0, 1).drain(0)
				if err == nil || !strings.Contains(err.Error(), path) {
					t.Errorf("got %v", err)
				}
				if string(joined(p.all(other))) != "fine\n" {
					t.Error("another stream was harmed")
				}
			})
		}
	}
}

// TestWrittenAnew: a file that was written anew, and is longer now, has not grown.
func TestWrittenAnew(t *testing.T) {
	for _, seekless := range []bool{false, true} {
		p := newPlace(t)
		p.seekless = seekless
		p.start()
		rng := rand.New(rand.NewPCG(3, 3))
		path := p.write("f", lines(rng, 3<<20, 100))
		waits := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1})
		reads := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1, Buffer: MinBuffer})
		p.e.mu.Lock()
		known := p.e.streams[waits.ID].plan.Files[0].End != 0
		p.e.mu.Unlock()
		if !known {
			t.Skip("this file system does not tell what it has in memory")
		}
		c := p.client(reads.ID, 0, 1)
		if err := c.connect(); err != nil {
			t.Fatal(err)
		}
		if err := c.next(nil); err != nil {
			t.Fatal(err)
		}
		c.disconnect()
		testkit.Await(t, "nothing to be read ahead any more", func() bool {
			p.e.mu.Lock()
			defer p.e.mu.Unlock()
			return p.e.streams[reads.ID].deal.Present() == 0 && p.e.scans.Scans() == 0
		})
		p.write("f", lines(rng, 4<<20, 100))
		for _, c := range []*client{p.client(waits.ID, 0, 1), c} {
			if err := c.drain(0); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "written anew") {
				t.Errorf("seekless %v: %v", seekless, err)
			}
		}
	}
}

// TestWrittenAnewWhileNobodyReads: the end of a file that was cold when the stream was opened is known since it was
// read first, so that what is appended while the consumer is away is told from what is written anew.
func TestWrittenAnewWhileNobodyReads(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 13))
	packed := func(n int) []byte {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.NoCompression)
		if err == nil {
			_, err = z.Write(lines(rng, n, 100))
		}
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	plain := func(n int) []byte { return lines(rng, n, 100) }
	for name, c := range map[string]struct {
		file       string
		size       int
		data       func(n int) []byte
		seekless   bool
		early, add bool // it changes before it is read at all; something is appended
		restart    bool
		warm       bool // it is in memory by now
		want       string
	}{
		"blocks":        {file: "f", size: 3 << 20, data: plain, want: "was written anew"},
		"in place":      {file: "f", size: 3 << 20, data: plain, seekless: true, want: "was written anew"},
		"a batch":       {file: "f", size: 200 << 10, data: plain, want: "was written anew"},
		"packed":        {file: "f.gz", size: 3 << 20, data: packed, want: "was written anew"},
		"not read yet":  {file: "f", size: 3 << 20, data: plain, early: true, want: "appended to or written anew"},
		"blocks, grown": {file: "f", size: 3 << 20, data: plain, add: true},
		"in memory":     {file: "f", size: 3 << 20, data: plain, warm: true, want: "was written anew"},
		"in memory, grown, and the engine is another": {file: "f", size: 3 << 20, data: plain, warm: true, add: true, restart: true},
		"a batch, grown": {file: "f", size: 200 << 10, data: plain, add: true},
		"packed, grown":  {file: "f.gz", size: 3 << 20, data: packed, add: true},
		"blocks, grown, and the engine is another": {file: "f", size: 3 << 20, data: plain, add: true, restart: true},
		"a batch, anew, and the engine is another": {file: "f", size: 200 << 10, data: plain, restart: true, want: "was written anew"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.seekless = c.seekless
			if c.warm {
				p.local.Cache = &fakeCache{resident: func(_ *os.File, r pagecache.Range) int64 { return r.Len }}
			}
			p.start()
			data := c.data(c.size)
			path := p.write(c.file, data)
			info := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1, Buffer: MinBuffer})
			p.e.mu.Lock()
			s := p.e.streams[info.ID]
			s.plan.Files[0].End = 0 // as if it had been cold
			err := writePlan(s.dir, &s.spec, s.plan)
			p.e.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			one := p.client(info.ID, 0, 1)
			if !c.early {
				if err := one.connect(); err != nil {
					t.Fatal(err)
				}
				if err := one.next(func() bool { return true }); err != errStopped {
					t.Fatal(err)
				}
				awaitState := func(what string, is func(s *stream) bool) {
					testkit.Await(t, what, func() bool {
						p.e.mu.Lock()
						defer p.e.mu.Unlock()
						return is(p.e.streams[info.ID])
					})
				}
				awaitState("its end is known", func(s *stream) bool { return s.plan.Files[0].End != 0 })
				one.disconnect()
				awaitState("nobody reads", func(s *stream) bool { return s.deal.Present() == 0 && p.e.scans.Scans() == 0 })
			}
			next := c.data(c.size + 1<<20)
			if c.add {
				next = append(bytes.Clone(data), "more\n"...)
			}
			p.write(c.file, next)
			if c.restart {
				p.stop()
				p.start()
			}
			err = one.drain(0)
			if c.want != "" && (!errors.Is(err, errRefused) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v", err)
			}
			if c.want == "" && (err != nil || !bytes.Equal(joined([]*client{one}), data)) {
				t.Errorf("got %d bytes, want %d; %v", len(joined([]*client{one})), len(data), err)
			}
		})
	}
}

// TestEndIsKeptWhileSomebodyReads: what is known of the end of a file outlasts a daemon that is killed while its consumers
// are connected.
func TestEndIsKeptWhileSomebodyReads(t *testing.T) {
	defer func(d time.Duration) { endsEvery = d }(endsEvery)
	endsEvery = time.Millisecond
	p := newPlace(t).start()
	defer p.stop()
	path := p.write("f", lines(rand.New(rand.NewPCG(5, 5)), 3<<20, 100))
	info := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1, Buffer: MinBuffer})
	p.e.mu.Lock()
	s := p.e.streams[info.ID]
	s.plan.Files[0].End = 0 // as if it had been cold
	err := writePlan(s.dir, &s.spec, s.plan)
	p.e.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	c := p.client(info.ID, 0, 1)
	if err := c.connect(); err != nil {
		t.Fatal(err)
	}
	defer c.disconnect()
	if err := c.next(nil); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "a plan with the end", func() bool {
		_, p, err := readPlan(s.dir)
		return err == nil && p.Files[0].End != 0
	})
}

// TestGrown reads what was there when the stream was opened.
func TestGrown(t *testing.T) {
	p := newPlace(t).start()
	data := lines(rand.New(rand.NewPCG(2, 2)), 3<<20, 100)
	path := p.write("f", data)
	info := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1})
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("more\n")
	f.Close()
	if !bytes.Equal(joined(p.all(info)), data) {
		t.Error("the bytes are wrong")
	}
}

// TestLease: a file on which another program has a lease for a while is waited for.
func TestLease(t *testing.T) {
	for name, size := range map[string]int{"in a batch": 1000, "in blocks": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t).start()
			data := lines(rand.New(rand.NewPCG(4, 4)), size, 100)
			path := p.write("f", data)
			info := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1})
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			broken := make(chan os.Signal, 1)
			signal.Notify(broken, unix.SIGIO)
			defer signal.Stop(broken)
			testkit.Await(t, "a lease", func() bool { // none is given as long as the engine has the file open
				_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
				return err != unix.EAGAIN
			})
			if err != nil {
				t.Skipf("no leases here: %v", err)
			}
			var owner sync.WaitGroup
			owner.Go(func() {
				<-broken // somebody wants to read it
				unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
			})
			defer owner.Wait()
			if got := joined(p.all(info)); !bytes.Equal(got, data) {
				t.Errorf("got %d bytes, want %d", len(got), len(data))
			}
		})
	}
}

// TestAnotherBoot: after a boot the devices have other numbers, and a file system is
// mounted late. What another file has replaced is still noticed.
func TestAnotherBoot(t *testing.T) {
	for name, size := range map[string]int{"in a batch": 1000, "in blocks": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t).start()
			data := lines(rand.New(rand.NewPCG(6, 6)), size, 100)
			path := p.write("mnt/f", data)
			info := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1})
			replaced := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1})
			p.stop()
			for _, id := range []string{info.ID, replaced.ID} {
				dir := filepath.Join(p.cfg.Dir, id)
				spec, plan, err := readPlan(dir)
				if err != nil {
					t.Fatal(err)
				}
				plan.Boot = "another"
				plan.Files[0].Dev++
				if err := writePlan(dir, spec, plan); err != nil {
					t.Fatal(err)
				}
			}
			mnt := filepath.Dir(path)
			if err := os.Rename(mnt, mnt+".later"); err != nil {
				t.Fatal(err)
			}
			p.cfg.Log = slog.New(slog.NewTextHandler(onWrite(func() { os.Rename(mnt+".later", mnt) }), nil)) // says that it is not there
			p.start()
			if got := joined(p.all(info)); !bytes.Equal(got, data) {
				t.Errorf("got %d bytes, want %d", len(got), len(data))
			}
			if err := os.Rename(p.write("other", data), path); err != nil {
				t.Fatal(err)
			}
			if err := p.client(replaced.ID, 0, 1).drain(0); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "replaced") {
				t.Errorf("another file: %v", err)
			}
		})
	}
}

// onWrite is a writer that does something.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}
