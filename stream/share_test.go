package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"headrace/disk"
	"headrace/fileset"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/pagecache"
	"headrace/stream/deal"
	"headrace/stream/protocol"
	"headrace/stream/source"
)

// longRecords makes n records of size bytes.
func longRecords(n, size int) []byte {
	record := append(bytes.Repeat([]byte("x"), size-1), '\n')
	return bytes.Repeat(record, n)
}

// hold asks for a unit and consumes nothing of it.
func (c *client) hold() {
	c.place.t.Helper()
	if err := c.connect(); err != nil {
		c.place.t.Fatal(err)
	}
	if err := c.conn.Send(&protocol.Next{}); err != nil {
		c.place.t.Fatal(err)
	}
	if m, err := c.receive(); err != nil {
		c.place.t.Fatal(m, err)
	}
}

// TestDiskIsFreeWhileConsumersWait: a reader that waits for consumers, in the middle of a
// long record, does not keep others from the disk.
func TestDiskIsFreeWhileConsumersWait(t *testing.T) {
	p := newPlace(t).start()
	path := p.write("f", longRecords(5, 10<<20))
	info := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1, Buffer: MinBuffer})
	c := p.client(info.ID, 0, 1)
	c.hold()
	defer c.disconnect()
	// The first record came during a turn at the disk, and the second one does not fit.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	turn, err := p.reader(path).Begin(ctx)
	if err != nil {
		t.Fatalf("nobody else may read: %v", err)
	}
	turn.End(0)
}

// TestBatchOnTwoDisks: small files of which some are on a disk that does not answer keep
// nobody from the disk of the others.
func TestBatchOnTwoDisks(t *testing.T) {
	dead, err := os.MkdirTemp("/dev/shm", "headrace-test")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dead) })
	p := newPlace(t)
	there, stuck := p.write("f", []byte("one\n")), filepath.Join(dead, "g")
	if err := os.WriteFile(stuck, []byte("two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	waits, answers := make(chan bool, 8), make(chan bool)
	p.cfg.Source = opens{p.local, func(path string, _ linux.Credentials) {
		if path == stuck {
			waits <- true
			<-answers
		}
	}}
	p.start()
	defer close(answers)
	info := p.open(Spec{Paths: []string{there, stuck}, Rule: byLine, Consumers: 1})
	c := p.client(info.ID, 0, 1)
	ended := make(chan error, 1)
	go func() { ended <- c.drain(0) }()
	<-waits
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	turn, err := p.reader(there).Begin(ctx)
	if err != nil {
		t.Fatalf("nobody may read from the disk that answers: %v", err)
	}
	turn.End(0)
	answers <- true
	for {
		select {
		case <-waits:
			answers <- true
			continue
		case err := <-ended:
			if got := joined([]*client{c}); err != nil || string(got) != "one\ntwo\n" {
				t.Errorf("got %q, %v", got, err)
			}
		}
		return
	}
}

// TestReadAheadKeepsAllMemory: a consumer that comes back in the middle of a unit gets the
// rest, though small files have been read ahead into all the memory that there is.
func TestReadAheadKeepsAllMemory(t *testing.T) {
	p := newPlace(t)
	p.cfg.Memory = DefaultBuffer
	large := p.write("large", longRecords(66, 1<<20))
	paths := []string{large}
	for i := range 72 {
		paths = append(paths, p.write(fmt.Sprint("small/", i), longRecords(1, 250<<10)))
	}
	open := make(chan bool)
	p.cfg.Source = opens{p.local, func(path string, _ linux.Credentials) {
		if path == large {
			<-open
		}
	}}
	p.start()
	info := p.open(Spec{Paths: paths, Rule: byLine, Consumers: 1})
	c := p.client(info.ID, 0, 1)
	c.hello.Units, c.hello.Whole, c.hello.Position = []uint32{0}, false, 10
	c.got, c.path, c.open = [][]byte{longRecords(1, 1<<20)[:10]}, []string{large}, []bool{false}
	ended := make(chan error, 1)
	go func() { ended <- c.drain(0) }()
	testkit.Await(t, "the small ones to have memory", func() bool {
		p.e.mu.Lock()
		defer p.e.mu.Unlock()
		return p.e.streams[info.ID].deal.Ready() > 0
	})
	close(open)
	select {
	case err := <-ended:
		if got := len(joined([]*client{c})); err != nil || int64(got) != info.Bytes {
			t.Errorf("got %d bytes, want %d: %v", got, info.Bytes, err)
		}
	case <-time.After(patience):
		t.Error("it gets nothing")
	}
}

// TestTwoLongRecords has two parts of a file read side by side, each with records for
// which both have to have the memory.
func TestTwoLongRecords(t *testing.T) {
	p := newPlace(t)
	const half = 24 << 20
	p.local.Cache = &fakeCache{resident: func(_ *os.File, r pagecache.Range) int64 {
		return max(0, r.Off+r.Len-max(half, r.Off))
	}}
	p.start()
	data := longRecords(4, 12<<20)
	info := p.open(Spec{Paths: []string{p.write("f", data)}, Rule: byLine, Consumers: 1, Buffer: MinBuffer})
	if got := joined(p.all(info)); !bytes.Equal(got, data) {
		t.Errorf("got %d bytes, want %d", len(got), len(data))
	}
}

// TestHoarder: a stream whose consumers keep all the memory of a scan does not keep it
// from another one that reads the same file.
func TestHoarder(t *testing.T) {
	p := newPlace(t).start()
	data := longRecords(48, 1<<20)
	path := p.write("f", data)
	spec := Spec{Paths: []string{path}, Rule: deal.Rule{Split: deal.Raw}, Consumers: 16, Buffer: MinBuffer}
	hoard := p.open(spec)
	for i := range spec.Consumers - 1 {
		c := p.client(hoard.ID, uint32(i), 1)
		c.hold()
		defer c.disconnect()
	}
	spec.Consumers = 1
	if got := joined(p.all(p.open(spec))); !bytes.Equal(got, data) {
		t.Errorf("got %d bytes, want %d", len(got), len(data))
	}
}

// TestMoreConsumersThanMemory: what consumers have of a file that is dealt in place takes no memory, so
// that all of them have some, however many they are.
func TestMoreConsumersThanMemory(t *testing.T) {
	for name, resident := range map[string]bool{"resident": true, "seekless": false} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.seekless = !resident
			p.local.Cache = &fakeCache{resident: func(_ *os.File, r pagecache.Range) int64 {
				if resident {
					return r.Len
				}
				return 0
			}}
			p.start()
			data := longRecords(34, 1<<20)
			info := p.open(Spec{Paths: []string{p.write("f", data)}, Rule: byLine, Consumers: 24, Buffer: MinBuffer})
			var all sync.WaitGroup
			all.Add(len(info.Consumers))
			have := make(chan bool)
			go func() {
				all.Wait()
				close(have)
			}()
			clients := make([]*client, len(info.Consumers))
			ended := make(chan error, len(clients))
			for i := range clients {
				c := p.client(info.ID, uint32(i), 1)
				clients[i] = c
				go func() {
					ended <- c.drainWith(func() bool {
						if len(c.got) == 1 && c.hello.Position == 0 {
							all.Done()
						}
						select {
						case <-have:
							return false
						case <-time.After(patience):
							return true
						}
					}, 0)
				}()
			}
			for range clients {
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
			}
			if got := joined(clients); !bytes.Equal(got, data) {
				t.Errorf("got %d bytes, want %d", len(got), len(data))
			}
			p.withoutScans()
		})
	}
}

// TestLargerBuffer: records that fit into a stream's own buffer are not held against that
// of another one that has come first.
func TestLargerBuffer(t *testing.T) {
	p := newPlace(t).start()
	data := longRecords(2, 24<<20)
	path := p.write("f", data)
	small := p.open(Spec{Paths: []string{path}, Rule: deal.Rule{Split: deal.Raw}, Consumers: 1, Buffer: MinBuffer})
	c := p.client(small.ID, 0, 1)
	c.hold()
	defer c.disconnect()
	large := p.open(Spec{Paths: []string{path}, Rule: byLine, Consumers: 1})
	if got := joined(p.all(large)); !bytes.Equal(got, data) {
		t.Errorf("got %d bytes, want %d", len(got), len(data))
	}
}

// TestOwnPath: who may not open a file any more by the path that was given does not get
// it because another stream reads it, and who may does, whatever becomes of the others.
func TestOwnPath(t *testing.T) {
	p := newPlace(t).start()
	data := longRecords(48, 1<<20)
	path := p.write("f", data)
	link := filepath.Join(filepath.Dir(path), "g")
	if err := os.Link(path, link); err != nil {
		t.Fatal(err)
	}
	spec := Spec{Paths: []string{path}, Rule: byLine, Consumers: 1}
	a := p.open(spec)
	spec.Paths = []string{link}
	b, late := p.open(spec), p.open(spec)
	reads := p.client(a.ID, 0, 1)
	reads.hold()
	defer reads.disconnect()
	if err := os.Rename(link, link+"x"); err != nil {
		t.Fatal(err)
	}
	err := p.client(b.ID, 0, 1).drain(0)
	if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), link) {
		t.Errorf("a file that is not there was read: %v", err)
	}
	// Now the first one has no path any more.
	if err := errors.Join(os.Rename(link+"x", link), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	reads.disconnect()
	if got := joined(p.all(late)); !bytes.Equal(got, data) {
		t.Errorf("got %d bytes, want %d", len(got), len(data))
	}
}

// TestNumberOfAnotherDevice: two streams have a file under the same number of device, inode, size
// and time, because the number went from the device of one to that of the other. Each gets its own.
func TestNumberOfAnotherDevice(t *testing.T) {
	p := newPlace(t)
	mine := longRecords(10, 1<<20)
	yours := slices.Concat(mine[1:], mine[:1])
	path, other := p.write("f", mine), p.write("other", yours)
	link := filepath.Join(filepath.Dir(path), "g")
	if err := os.Link(path, link); err != nil {
		t.Fatal(err)
	}
	joins := make(chan bool, 8)
	p.cfg.Source = swapped{p.local, link, other, joins}
	p.start()
	spec := Spec{Paths: []string{path}, Rule: deal.Rule{Split: deal.Raw}, Consumers: 1}
	a := p.open(spec)
	spec.Paths = []string{link}
	b := p.open(spec)
	turn := p.occupy(path) // so that both are there before anything is read
	through := make(chan bool, 2)
	drain := func(info Info, want []byte) {
		if got := joined(p.all(info)); !bytes.Equal(got, want) {
			t.Errorf("got %d bytes, not its own: the first difference is at %d", len(got), firstDifference(got, want))
		}
		through <- true
	}
	go drain(a, mine)
	testkit.Await(t, "a scan", func() bool { return p.scans() > 0 })
	go drain(b, yours)
	<-joins
	turn.End(0)
	<-through
	<-through
}

// swapped opens another file, on another device, in place of that at path.
type swapped struct {
	*source.Local
	path, other string
	opened      chan bool
}

func (s swapped) Open(path string, was fileset.Was, owner linux.Credentials) (source.File, error) {
	if path != s.path {
		return s.Local.Open(path, was, owner)
	}
	fi, err := os.Stat(s.other)
	if err != nil {
		return nil, err
	}
	own := was
	own.Ino, own.Mtime, own.End = fi.Sys().(*syscall.Stat_t).Ino, fi.ModTime().UnixNano(), 0
	f, err := s.Local.Open(s.other, own, owner)
	if err != nil {
		return nil, err
	}
	s.opened <- true
	was.Dev, was.End = was.Dev+1, 0
	return onDevice{f, was}, nil
}

// onDevice is a file that says that it is another one.
type onDevice struct {
	source.File
	was fileset.Was
}

func (f onDevice) Was() fileset.Was { return f.was }

// reader takes turns at the disk of a file.
func (p *place) reader(path string) *disk.Reader {
	p.t.Helper()
	f, err := os.Open(path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	device, err := p.local.Devices.Of(f)
	if err != nil {
		p.t.Fatal(err)
	}
	if device.Memory {
		p.t.Skip("the temporary directory is in memory: nobody waits for a turn there")
	}
	return p.local.Disks.Reader(device, disk.Demand, "test")
}

// opens tells who has a file opened.
type opens struct {
	*source.Local
	by func(path string, owner linux.Credentials)
}

func (o opens) Open(path string, was fileset.Was, owner linux.Credentials) (source.File, error) {
	o.by(path, owner)
	return o.Local.Open(path, was, owner)
}

// TestNothingOfOthersInSharedMemory: who joins another user's scan sees nothing of what
// that user has read into the memory before.
func TestNothingOfOthersInSharedMemory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: there is only one user")
	}
	other := linux.Credentials{UID: 65534, GID: 65534}
	p := newPlace(t)
	joins := make(chan bool, 1)
	p.cfg.Source = opens{p.local, func(_ string, owner linux.Credentials) {
		if owner.UID == other.UID {
			select {
			case joins <- true:
			default:
			}
		}
	}}
	p.start()
	if err := os.Chmod(filepath.Dir(filepath.Dir(p.socket)), 0o755); err != nil {
		t.Fatal(err)
	}
	secret, raw := bytes.Repeat([]byte("secret!\n"), 4<<20), deal.Rule{Split: deal.Raw}
	path := p.write("shared", longRecords(66, 1<<20))
	shared := Spec{Paths: []string{path}, Rule: raw, Consumers: 1, Buffer: MinBuffer} // too little for a disk to look fast
	private := p.open(Spec{Paths: []string{p.write("private", secret)}, Rule: raw, Consumers: 1, Buffer: MinBuffer})
	if err := os.Chmod(filepath.Join(filepath.Dir(path), "private"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := p.client(private.ID, 0, 1)
	if err := first.connect(); err != nil {
		t.Fatal(err)
	}
	defer first.disconnect()
	for err := error(nil); err != errEnd; {
		if err = first.next(nil); err != nil && err != errEnd {
			t.Fatal(err)
		}
	}
	p.withoutScans()

	turn := p.occupy(path) // so that the second is there before anything is read
	second := p.client(p.open(shared).ID, 0, 1)
	ended := make(chan error, 1)
	go func() { ended <- second.drain(0) }()
	shared.Owner = other
	info, err := p.e.Open(t.Context(), shared)
	if err != nil {
		t.Fatal(err)
	}
	joiner := p.client(info.ID, 0, 1)
	if err := joiner.connect(); err != nil {
		t.Fatal(err)
	}
	defer joiner.disconnect()
	if err := joiner.conn.Send(&protocol.Next{}); err != nil {
		t.Fatal(err)
	}
	<-joins
	turn.End(0)
	for range 2 { // the unit, and what it lies in with its first piece
		if _, err := joiner.receive(); err != nil {
			t.Fatal(err)
		}
	}
	for id, mem := range joiner.arenas {
		if first.arenas[id] == nil {
			t.Error("it shares other memory")
		}
		if at := bytes.Index(mem, secret[:16]); at >= 0 {
			t.Errorf("what another user has read is at byte %d of the shared memory", at)
		}
	}
	if len(joiner.arenas) == 0 {
		t.Error("it shares no memory")
	}
	joiner.disconnect()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// withoutScans waits until nothing is read any more.
func (p *place) withoutScans() {
	p.t.Helper()
	testkit.Await(p.t, "the end of all scans", func() bool { return p.scans() == 0 })
}

// scans returns how many files are being read.
func (p *place) scans() int {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	return p.e.scans.Scans()
}
