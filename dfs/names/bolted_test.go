package names

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"headrace/internal/crash"
	"headrace/internal/testkit"
	"headrace/meta"
	"headrace/quorum"
)

// database makes or opens the database of a node that is alone.
func database(t testing.TB, dir string) bolted {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, "meta.db"), 0o600, &bolt.Options{InitialMmapSize: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	err = db.Update(func(tx *bolt.Tx) error {
		if tx.Bucket(nodeBucket) != nil {
			return nil
		}
		_, err := tx.CreateBucket(nodeBucket)
		if err != nil {
			return err
		}
		b, err := State(tx)
		if err != nil {
			return err
		}
		for k, v := range firstKeys().Scan(nil, end) {
			if err := b.Put(k, v); err != nil {
				return err
			}
		}
		return Found(tx, Member{Name: "one"}, 8, 3)
	})
	if err != nil {
		t.Fatal(err)
	}
	return bolted{db}
}

func open(t testing.TB, dir string) *machine {
	t.Helper()
	m, err := newMachine(database(t, dir), newest, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// makes is an entry that makes a directory of its number.
func makes(i uint64) quorum.Entry {
	return quorum.Entry{Index: i, Data: newestMeta(meta.Command{Time: int64(i), Caller: person, Op: &meta.Mkdirs{Path: fmt.Sprintf("%s/%06d", simDir, i), Mode: 0o755}})}
}

func apply(t testing.TB, m *machine, entries ...quorum.Entry) {
	t.Helper()
	answers, err := m.Apply(entries)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if b, err := decodeAnswer(a); err != nil {
			t.Fatalf("entry %d: %v", entries[i].Index, err)
		} else if _, err := meta.DecodeAnswer(b); err != nil {
			t.Fatalf("entry %d: %v", entries[i].Index, err)
		}
	}
}

// upTo checks that a state has just the directories up to one.
func upTo(r meta.Reader, last uint64) error {
	for i := uint64(1); i <= last+1; i++ {
		q := meta.Query{Reader: r, Caller: person}
		s, err := q.Stat(fmt.Sprintf("%s/%06d", simDir, i), false)
		if err != nil || (s != nil) != (i <= last) {
			return fmt.Errorf("in the state of %d, directory %d: %v, %v", last, i, s, err)
		}
	}
	return nil
}

// TestNewerCommand: a node that does not know a command applies nothing of it or after it, nor is anything of its batch
// kept; a node that does is given all of it by the log.
func TestNewerCommand(t *testing.T) {
	member, err := encodeMember(Member{Name: "two"})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"a kind":         {kindRaise + 1, 'x'},
		"an event":       append([]byte{kindRing}, "Split:{}"...),
		"an event's key": append([]byte{kindRing}, `Down:{"Node":"one","Why":"slow"}`...),
		"a member's key": append(bytes.TrimSuffix(member, []byte("}")), `,"Zone":"z1"}`...),
		"a raise's key":  append([]byte{kindRaise}, `{"Version":2,"Nodes":["one"],"Why":"new"}`...),
		"a rule":         append([]byte{kindMeta, 200}, makes(3).Data[2:]...),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := open(t, dir)
			apply(t, m, makes(1))
			if err := m.flush(); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Apply([]quorum.Entry{makes(2), {Index: 3, Data: data}, makes(4)}); !errors.Is(err, errNewer) || !strings.Contains(err.Error(), "entry 3") {
				t.Fatalf("it is applied: %v", err)
			}
			if _, err := m.Apply([]quorum.Entry{makes(5)}); !errors.Is(err, errNewer) {
				t.Errorf("it goes on: %v", err)
			}
			if err := m.flush(); err != nil || m.Durable() != 1 {
				t.Errorf("%d is durable (%v), want 1", m.Durable(), err)
			}
			if proposable(data) == nil && data[0] <= kindRaise {
				t.Error("it may be proposed")
			}
		})
	}
}

// TestReadersSeeOneState: whoever reads sees the state of one entry, while others are applied and flushed.
func TestReadersSeeOneState(t *testing.T) {
	m := open(t, t.TempDir())
	const last = 400
	var ended atomic.Bool
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for seen := uint64(0); !ended.Load(); {
				r, index, done, err := m.read()
				if err != nil {
					t.Error(err)
					return
				}
				if err := upTo(r, index); err != nil || index < seen {
					t.Errorf("%v, after %d", err, seen)
					done()
					return
				}
				seen = index
				done()
			}
		})
	}
	all.Go(func() {
		for !ended.Load() {
			if err := m.flush(); err != nil {
				t.Error(err)
			}
		}
	})
	for i := uint64(1); i <= last; i += 2 {
		apply(t, m, makes(i), makes(i+1))
	}
	ended.Store(true)
	all.Wait()
	if r, index, done, err := m.read(); err != nil || index != last || upTo(r, last) != nil {
		t.Errorf("%d, %v", index, err)
	} else {
		done()
	}
}

// TestSnapshot: a snapshot is the state of when it was taken, whatever comes later; who restores it has that state, also
// after a start; and bytes that were cut or changed are refused and leave all as it was.
func TestSnapshot(t *testing.T) {
	from := open(t, t.TempDir())
	apply(t, from, makes(1), makes(2))
	if err := from.flush(); err != nil {
		t.Fatal(err)
	}
	apply(t, from, makes(3))
	s, err := from.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	apply(t, from, makes(4))
	if err := from.flush(); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(s)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	to := open(t, dir)
	apply(t, to, makes(1))
	for i := 0; i < len(b); i += max(1, len(b)/200) {
		wrong := bytes.Clone(b)
		wrong[i] ^= 0x20
		for _, bad := range [][]byte{b[:i], wrong} {
			if err := to.Restore(9, bytes.NewReader(bad)); !errors.Is(err, errSnapshot) {
				t.Fatalf("byte %d: %v", i, err)
			}
			to.err = nil // quorum stops the node; here it goes on
			if err := to.load(); err != nil || to.Durable() != 0 {
				t.Fatalf("%d, %v", to.Durable(), err)
			}
		}
	}
	if err := to.Restore(9, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r, index, done, err := to.read()
		if err != nil || index != 9 || to.Durable() != 9 {
			t.Fatalf("%d, durable %d, %v", index, to.Durable(), err)
		}
		if err := upTo(r, 3); err != nil {
			t.Error(err)
		}
		done()
		to.store.(bolted).db.Close()
		to = open(t, dir)
	}
	apply(t, to, quorum.Entry{Index: 12, Data: makes(4).Data})
}

const childDir = "HEADRACE_TEST_NAMES"

// TestKilledAtFlush: after a kill at any point of a flush, or while another state is received, the state is that of the index
// that it says, and all entries behind that make it what it was to be.
func TestKilledAtFlush(t *testing.T) {
	for _, point := range []string{"names.flush.before:3", "names.flush.after:3", "names.replace.piece:1", "names.replace.piece:2"} {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
		cmd.Env = append(os.Environ(), childDir+"="+dir, crash.Env+"="+point, "GORACE=atexit_sleep_ms=0")
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() >= 0 {
			t.Fatalf("%s: did not die: %v\n%s", point, err, out)
		}
		m := open(t, dir)
		at := m.Durable()
		want := map[string]uint64{"names.flush.before:3": 20, "names.flush.after:3": 30, "names.replace.piece:1": 30, "names.replace.piece:2": 30}[point]
		if at != want {
			t.Errorf("%s: durable up to %d", point, at)
		}
		for i := at + 1; i <= 40; i++ {
			apply(t, m, makes(i))
		}
		r, _, done, err := m.read()
		if err != nil {
			t.Fatal(err)
		}
		if err := upTo(r, 40); err != nil {
			t.Errorf("%s: %v", point, err)
		}
		done()
		if strings.HasPrefix(point, "names.replace") { // what was left there is no trouble
			s, err := m.Snapshot()
			if err == nil {
				err = m.Restore(50, s)
			}
			if err := errors.Join(err, s.Close()); err != nil || m.Durable() != 50 {
				t.Errorf("%s: %v", point, err)
			}
		}
	}
}

// TestChild is not a test: see TestKilledAtFlush.
func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("this is a part of another test")
	}
	m := open(t, dir)
	for i := uint64(1); i <= 30; i++ {
		apply(t, m, makes(i))
		if i%10 == 0 {
			if err := m.flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := m.store.replace(func(put func(k, v []byte) error) error {
		return errors.Join(put([]byte("a"), make([]byte, pieceBytes)), put([]byte("b"), make([]byte, pieceBytes)))
	})
	t.Fatal("alive", err)
}

// TestFlushFails: what cannot be written to the disk ends all applying.
func TestFlushFails(t *testing.T) {
	m := open(t, t.TempDir())
	apply(t, m, makes(1))
	m.store.(bolted).db.Close()
	if err := m.flush(); err == nil {
		t.Error("written to a database that is closed")
	}
	if _, err := m.Apply([]quorum.Entry{makes(2)}); err == nil {
		t.Error("applied after that")
	}
	if m.Durable() != 0 {
		t.Errorf("durable up to %d", m.Durable())
	}
}

// TestWaits: applying waits for the disk when too much is in memory alone.
func TestWaits(t *testing.T) {
	m := open(t, t.TempDir())
	urged := false
	m.urge = func() { urged = true }
	apply(t, m, makes(1))
	if !m.freeze() || urged {
		t.Fatal("nothing to write, or too much")
	}
	m.bytes = mostBytes
	applied := make(chan struct{})
	go func() {
		defer close(applied)
		apply(t, m, makes(2))
	}()
	testkit.Await(t, "the entry to be applied in memory", func() bool { return m.now.Load().index == 2 })
	select {
	case <-applied:
		t.Error("it was not waited for")
	default:
	}
	if err := m.commit(); err != nil {
		t.Fatal(err)
	}
	<-applied
	if !urged || m.Durable() != 1 {
		t.Errorf("urged: %v, durable up to %d", urged, m.Durable())
	}
}

// TestWrongClock: a clock that was wrong for a moment is not followed for good; one that is a little behind is not followed at all.
func TestWrongClock(t *testing.T) {
	m := open(t, t.TempDir())
	const minute = 60_000
	for i, step := range []struct{ says, want int64 }{
		{10 * minute, 10 * minute}, {10*minute - 5, 10 * minute}, {10*minute + 3, 10*minute + 3}, {9*minute + 3, 10*minute + 3},
		{1e12, 1e12}, {11 * minute, 11 * minute}, {12 * minute, 12 * minute},
	} {
		e := makes(uint64(i + 1))
		e.Data = newestMeta(meta.Command{Time: step.says, Caller: person, Op: &meta.Mkdirs{Path: fmt.Sprintf("%s/%06d", simDir, i+1), Mode: 0o755}})
		apply(t, m, e)
		if m.time != step.want {
			t.Errorf("step %d: it is %d, want %d", i, m.time, step.want)
		}
	}
}

// misreading is a store whose next reading meets what a test says.
type misreading struct {
	store
	next func(meta.Reader) meta.Reader
}

func (s *misreading) read() (meta.Reader, func(), error) {
	r, done, err := s.store.read()
	if next := s.next; err == nil && next != nil {
		s.next, r = nil, next(r)
	}
	return r, done, err
}

// faulting is a reader of which one page cannot be read once.
type faulting struct {
	meta.Reader
	page []byte
}

func (f *faulting) Get(k []byte) []byte {
	if page := f.page; page != nil {
		f.page = nil
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		return page[:page[0]]
	}
	return f.Reader.Get(k)
}

// TestMisreadWhileApplying: a command for which the state could not be read once is not left out: the node ends, and applies it at its next start.
func TestMisreadWhileApplying(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "empty"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page, err := syscall.Mmap(int(f.Fd()), 0, os.Getpagesize(), syscall.PROT_READ, syscall.MAP_SHARED) // there is nothing behind it
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(page)
	closed := func(m *machine) meta.Reader { // what bbolt does not know how to read
		r, done, err := m.store.(*misreading).store.read()
		if err != nil {
			t.Fatal(err)
		}
		done()
		return r
	}
	for what, next := range map[string]func(m *machine) func(meta.Reader) meta.Reader{
		"the disk": func(*machine) func(meta.Reader) meta.Reader {
			return func(r meta.Reader) meta.Reader { return &faulting{r, page} }
		},
		"a page": func(m *machine) func(meta.Reader) meta.Reader {
			bad := closed(m)
			return func(r meta.Reader) meta.Reader { return &firstBy{r, bad} }
		},
	} {
		dir := t.TempDir()
		m := open(t, dir)
		apply(t, m, makes(1))
		if err := m.flush(); err != nil {
			t.Fatal(err)
		}
		s := &misreading{store: m.store}
		m.store = s
		s.next = next(m)
		if _, err := m.Apply([]quorum.Entry{makes(2)}); err == nil || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "entry 2") {
			t.Errorf("%s: %v", what, err)
		}
		if err := m.flush(); err != nil || m.Durable() != 1 {
			t.Errorf("%s: %d is durable, %v", what, m.Durable(), err)
		}
		s.store.(bolted).db.Close()
		m = open(t, dir)
		apply(t, m, makes(2))
		r, _, done, err := m.read()
		if err != nil {
			t.Fatal(err)
		}
		if err := upTo(r, 2); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		done()
	}
}

// firstBy is a reader that reads with another one first.
type firstBy struct {
	meta.Reader
	first meta.Reader
}

func (o *firstBy) Get(k []byte) []byte {
	if r := o.first; r != nil {
		o.first = nil
		for range r.Scan(k, end) { // which says that it is closed
			return nil
		}
	}
	return o.Reader.Get(k)
}
