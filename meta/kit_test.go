package meta

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

var (
	root  = Caller{User: "root", Groups: []string{"supergroup"}, Super: true}
	alice = Caller{User: "alice", Groups: []string{"users", "staff"}}
	bob   = Caller{User: "bob", Groups: []string{"users"}}
	carol = Caller{User: "carol"}
)

// bench is a file system under test, with a clock that goes on by a millisecond a command.
type bench struct {
	testing.TB
	v   *Memory
	now int64
}

func newBench(t testing.TB, change ...func(*Config)) *bench {
	b := &bench{t, NewMemory(), 1_000_000}
	o := DefaultConfig()
	o.MinBlockSize = 0
	for _, c := range change {
		c(&o)
	}
	Format(b.v, o, "root", "supergroup", b.now)
	return b
}

func (b *bench) try(by Caller, o Op) (Result, error) {
	b.now++
	m := Command{Time: b.now, Caller: by, Op: o}
	r, err := Apply(b.v, m)
	if TooMuch(err) {
		m.Seen = b.seen(m)
		r, err = Apply(b.v, m)
	}
	return r, err
}

// seen is what a survey for a command sees.
func (b *bench) seen(m Command) *Seen {
	b.Helper()
	y := m.Survey(uint64(b.now))
	_, err := Apply(b.v, Command{Time: b.now, Caller: m.Caller, Op: y})
	seen, err2 := b.as(m.Caller).Survey(y)
	if err != nil || err2 != nil {
		b.Fatal(err, err2)
	}
	return seen
}

// must applies what has to succeed.
func (b *bench) must(by Caller, o Op) Result {
	b.Helper()
	r, err := b.try(by, o)
	if err != nil {
		b.Fatalf("%T%+v: %v", o, o, err)
	}
	return r
}

// refused applies what has to fail, with a class whose name ends so, and a message that
// begins so.
func (b *bench) refused(by Caller, o Op, class, message string) {
	b.Helper()
	before := dump(b.v)
	_, err := b.try(by, o)
	b.isError(err, class, message)
	if !bytes.Equal(before, dump(b.v)) {
		b.Fatalf("%T%+v has failed and changed something", o, o)
	}
}

func (b *bench) isError(err error, class, message string) {
	b.Helper()
	var e *Error
	if !errors.As(err, &e) || !strings.HasSuffix(e.Class, class) || !strings.HasPrefix(e.Message, message) {
		b.Fatalf("got %v, want %s: %s", err, class, message)
	}
}

func (b *bench) says(by Caller, o Op, want bool) {
	b.Helper()
	if got := b.must(by, o).(*Flag); bool(*got) != want {
		b.Fatalf("%T%+v says %v", o, o, *got)
	}
}

func (b *bench) as(by Caller) Query { return Query{Reader: b.v, Caller: by, Time: b.now} }

func (b *bench) mkdir(paths ...string) {
	b.Helper()
	for _, p := range paths {
		b.says(root, &Mkdirs{Path: p, Mode: 0o755, Parents: true}, true)
	}
}

// open makes a file and leaves it open.
func (b *bench) open(by Caller, path string) *Status {
	b.Helper()
	return b.must(by, &Create{Path: path, Mode: 0o644, Holder: by.User, Machine: "m", Flags: FlagCreate, Parents: true, Replication: 3, BlockSize: 100}).(*Status)
}

// write adds blocks of these sizes to an open file, and closes it.
func (b *bench) write(by Caller, id uint64, sizes ...int64) {
	b.Helper()
	var last *Block
	for _, size := range sizes {
		a := b.must(by, &AddBlock{Path: "/", ID: id, Holder: by.User, Previous: last, Copies: 1, Segment: uint16(size), Nodes: []string{"n1", "n2"}}).(*Allocated)
		last = &Block{a.ID, a.Stamp, size}
	}
	b.says(by, &Complete{ID: id, Path: "/", Holder: by.User, Last: last, Copies: 1}, true)
}

func (b *bench) stat(path string) *Status {
	b.Helper()
	v, err := b.as(root).Stat(path, true)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// layout shows the sizes of a file's blocks.
func (b *bench) layout(path string) string {
	b.Helper()
	l, err := b.as(root).Blocks(path, 0, 1<<62)
	if err != nil {
		b.Fatal(err)
	}
	s := []string{}
	for _, x := range l.Blocks {
		s = append(s, fmt.Sprintf("%d+%d", x.Offset, x.Size))
	}
	return strings.Join(s, " ")
}

// dump is all of a state as bytes.
func dump(v Reader) []byte {
	var b bytes.Buffer
	for k, value := range v.Scan([]byte{0}, []byte{255}) {
		fmt.Fprintf(&b, "%q=%q\n", k, value)
	}
	return b.Bytes()
}

// check compares all indexes with what they are made of.
func check(t testing.TB, v Reader) {
	t.Helper()
	s := open(newDraft(v), 0, root)
	want := NewMemory() // the keys that directories and files ask for
	open := map[string]uint64{}
	reached := map[uint64]bool{}
	var below func(dir *inode) usage
	below = func(dir *inode) usage {
		reached[dir.ID] = true
		var n uint64
		all := usage{names: 1}
		s.children(dir, "", func(c *inode) bool {
			n++
			if c.Parent != dir.ID {
				t.Fatalf("%d in %d says that it is in %d", c.ID, dir.ID, c.Parent)
			}
			if dir.Height <= c.Height {
				t.Fatalf("directory %d is %d high, and has one of %d below it", dir.ID, dir.Height, c.Height)
			}
			if c.Directory {
				all = all.plus(below(c))
				return true
			}
			all = all.plus(usage{1, c.File.space()})
			want.Set(key(keyFile, c.ID), encode(recordVersion, &place{dir.ID, c.Name}))
			i := 0
			s.blocks(c, func(b *block) bool {
				var o owner
				if s.load(key(keyOwner, b.ID), &o); o.Place != 0 && o.Place != i+1 {
					t.Fatalf("block %d of file %d says it is %d", i+1, c.ID, o.Place)
				}
				want.Set(key(keyOwner, b.ID), encode(recordVersion, &owner{c.ID, b.Segment, o.Place}))
				if i++; b.State == complete {
					want.Set(key(keySegment, uint64(b.Segment), b.ID), encode(recordVersion, &stampedSize{b.Stamp, b.Size}))
				} else {
					want.Set(key(keySegment, uint64(b.Segment), b.ID), v.Get(key(keySegment, uint64(b.Segment), b.ID)))
				}
				if b.State != complete && i < c.File.count()-1 {
					t.Fatalf("block %d of %d in file %d is %v", i, c.File.count(), c.ID, b.State)
				}
				return true
			})
			if w := c.File.Writer; w != nil {
				want.Set(key(keyOpen, c.ID), nothing)
				want.Set(heldKey(w.Holder, c.ID), nothing)
				open[w.Holder]++
			}
			return true
		})
		if n != dir.Children {
			t.Fatalf("directory %d has %d entries and says %d", dir.ID, n, dir.Children)
		}
		if dir.limited() && dir.Used != all {
			t.Fatalf("directory %d takes %v and says %v", dir.ID, all, dir.Used)
		}
		return all
	}
	below(s.directory(rootID))
	for k := range v.Scan([]byte{keyOrphan}, []byte{keyOrphan + 1}) {
		below(s.directory(numberAt(k, 0)))
	}
	for _, kind := range []byte{keyFile, keyOwner, keySegment, keyOpen, keyHeld} {
		a, b := dumpKind(v, kind), dumpKind(want, kind)
		if a != b {
			t.Fatalf("keys %c are\n%s, not\n%s", kind, a, b)
		}
	}
	for k := range v.Scan([]byte{keyDirectory}, []byte{keyDirectory + 1}) {
		if !reached[numberAt(k, 0)] {
			t.Fatalf("directory %d is nowhere", numberAt(k, 0))
		}
	}
	for k := range v.Scan([]byte{keyLease}, []byte{keyLease + 1}) {
		var l lease
		if s.load(k, &l); l.Files != open[string(k[1:])] {
			t.Fatalf("%s has %d files open, not %d", k[1:], open[string(k[1:])], l.Files)
		}
		delete(open, string(k[1:]))
	}
	if len(open) > 0 {
		t.Fatalf("no leases of %v", open)
	}
}

func dumpKind(v Reader, kind byte) string {
	var b strings.Builder
	for k, value := range v.Scan([]byte{kind}, []byte{kind + 1}) {
		fmt.Fprintf(&b, "%q=%q\n", k, value)
	}
	return b.String()
}
