package meta

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

func TestBlocksOfAFile(t *testing.T) {
	b := newBench(t)
	v := b.open(alice2(b), "/f")
	copies := uint16(0) // of the block before
	add := func(previous *Block) *Allocated {
		t.Helper()
		return b.must(alice, &AddBlock{Path: "/f", ID: v.ID, Holder: "alice", Previous: previous, Copies: copies, Nodes: []string{"n"}}).(*Allocated)
	}
	first := add(nil)
	if again := add(nil); again.Block != first.Block {
		t.Errorf("asked again: %v, not %v", again, first)
	}
	b.refused(alice, &AddBlock{Path: "/f", ID: v.ID, Holder: "alice", Previous: &Block{ID: 7, Stamp: 8}}, "IOException", "Cannot allocate block in /f: passed 'previous' block")
	b.refused(alice, &AddBlock{Path: "/f", ID: v.ID, Holder: "bob"}, "LeaseExpiredException", "Client (=bob) is not the lease owner (=alice: /f (inode ")
	b.refused(alice, &AddBlock{Path: "/g", ID: 99, Holder: "alice"}, "FileNotFoundException", "File does not exist: /g (inode 99) [Lease.  Holder: alice, pending creates: 1]")
	full := first.Block
	full.Size = 100
	_, err := b.try(alice, &AddBlock{Path: "/f", ID: v.ID, Holder: "alice", Previous: &full}) // no copy is known
	b.isError(err, "NotReplicatedYetException", "Not replicated yet: /f")
	b.says(alice, &Complete{Path: "/f", ID: v.ID, Holder: "alice", Last: &full}, false)
	copies = 1
	second := add(&full) // now one is
	b.must(alice, &AbandonBlock{Path: "/f", ID: v.ID, Holder: "alice", Block: second.Block})
	last := add(&full).Block
	last.Size = 50
	done := &Complete{Path: "/f", ID: v.ID, Holder: "alice", Last: &last, Copies: 1}
	b.says(alice, done, true)
	b.says(alice, done, true) // asked again
	if got := b.layout("/f"); got != "0+100 100+50" {
		t.Error(got)
	}
	check(t, b.v)
}

// TestOthersOpenFiles: who knows the number of an open file and under which name it was opened writes nothing, and learns neither the name nor the path.
func TestOthersOpenFiles(t *testing.T) {
	b := newBench(t)
	b.mkdir("/private")
	b.must(root, &SetOwner{Path: "/private", Owner: "alice"})
	b.must(root, &SetPermission{Path: "/private", Mode: 0o700})
	id := b.open(alice, "/private/f").ID
	block := b.must(alice, &AddBlock{ID: id, Path: "/", Holder: "alice", Nodes: []string{"n"}}).(*Allocated).Block
	for _, name := range []string{"alice", "x"} {
		for _, o := range []Op{
			&AddBlock{ID: id, Path: "/", Holder: name},
			&AbandonBlock{ID: id, Path: "/", Holder: name, Block: block},
			&Fsync{ID: id, Path: "/", Holder: name, Size: 7},
			&Complete{ID: id, Path: "/", Holder: name, Last: &block, Copies: 1},
		} {
			b.refused(bob, o, "LeaseExpiredException", fmt.Sprintf("Client (=%s) of user bob is not the lease owner of inode %d", name, id))
		}
		newer := Block{block.ID, block.Stamp + 5, 7}
		for _, o := range []Op{&NewStamp{Block: block, Holder: name}, &UpdatePipeline{Holder: name, Old: block, New: newer}} {
			b.refused(bob, o, "LeaseExpiredException", "Lease mismatch: ")
		}
		if _, _, err := b.as(bob).Writing("/", id, name); err == nil {
			t.Error("bob may have another node in the pipeline")
		}
	}
	b.must(root, &NewStamp{Block: block, Holder: "alice"})
	b.now += b.as(root).state().config.HardLimit + 1
	b.must(root, &ExpireLeases{Most: 9})
	b.refused(bob, &AbandonBlock{ID: id, Path: "/", Holder: system, Block: block}, "LeaseExpiredException", "Client (=HDFS_NameNode) of user bob")
	b.says(root, &RecoverLease{"/private/f", "r"}, false) // it is root's then
	b.refused(alice, &Fsync{ID: id, Path: "/", Holder: "r", Size: 7}, "LeaseExpiredException", "Client (=r) of user alice")
	r := b.as(root).Recoveries()[0]
	b.must(root, &CommitRecovery{Block: block.ID, Stamp: r.Stamp, Size: 5, Close: true, Nodes: []string{"n"}})
	_, err := b.try(bob, &Fsync{ID: id, Path: "/", Holder: "x", Size: 7})
	b.isError(err, "LeaseExpiredException", fmt.Sprintf("File is not open for writing: a path (inode %d)", id))
	check(t, b.v)
}

// TestOpenFilesOfBefore: of a file that was opened by the rules of before it is not known who has, so the name of its holder is enough.
func TestOpenFilesOfBefore(t *testing.T) {
	b := newBench(t)
	c := Command{Time: b.now, Caller: root, version: version1, Op: &Create{Path: "/f", Mode: 0o644, Holder: "h", Flags: FlagCreate, Replication: 3, BlockSize: 100}}
	r, err := Apply(b.v, c)
	if err != nil {
		t.Fatal(err)
	}
	b.must(alice, &AddBlock{ID: r.(*Status).ID, Path: "/", Holder: "h", Nodes: []string{"n"}})
	if again, err := DecodeCommand(c.Encode()); err != nil || again.version != version1 {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestNoCopyWasKnown: of files from before, in which a block follows one of which no copy was known, each block is one whose copies are looked after, and
// the last one can be gone on with.
func TestNoCopyWasKnown(t *testing.T) {
	b := newBench(t)
	f := b.open(root, "/f")
	var last *Block
	for _, size := range []int64{100, 60} {
		r, err := Apply(b.v, Command{Time: b.now, Caller: root, version: version1,
			Op: &AddBlock{Path: "/f", ID: f.ID, Holder: "root", Previous: last, Segment: 3, Nodes: []string{"n"}}})
		if err != nil {
			t.Fatal(err)
		}
		a := r.(*Allocated)
		last = &Block{a.ID, a.Stamp, size}
	}
	b.says(root, &RecoverLease{"/f", "h"}, false)
	rs := b.as(root).Recoveries()
	b.must(root, &CommitRecovery{Block: last.ID, Stamp: rs[0].Stamp, Size: 60, Close: true, Nodes: []string{"n"}})
	q := b.as(root)
	listed := 0
	for range q.InSegments([]uint16{3}, 0, 0) {
		listed++
	}
	if all, _ := q.Unsettled(0, 10, 3); len(all) != 2 || listed != 2 || !q.Placed(last.ID-1).Complete {
		t.Errorf("%+v, %d in the segment", all, listed)
	}
	first := q.Placed(last.ID - 1)
	b.must(root, &Relocate{[]Relocation{{first.ID, first.Stamp, []string{"n", "m"}}}})
	if got := b.as(root).Placed(first.ID); len(got.Nodes) != 2 {
		t.Errorf("%+v", got)
	}
	b.says(root, &Truncate{Path: "/f", Size: 100}, true)
	b.must(root, &Append{Path: "/f", Holder: "h", Machine: "m"})
	b.must(root, &AddBlock{Path: "/f", ID: f.ID, Holder: "h"})
	check(t, b.v)
}

// TestLengthsThatNoCopyHas: a block becomes complete with the length of which a copy is known, whatever its client has said before.
func TestLengthsThatNoCopyHas(t *testing.T) {
	b := newBench(t)
	f := b.open(root, "/f")
	given := b.must(root, &AddBlock{Path: "/f", ID: f.ID, Holder: "root", Nodes: []string{"n"}}).(*Allocated).Block
	done := func(size int64, copies uint16) *Complete {
		last := given
		last.Size = size
		return &Complete{Path: "/f", ID: f.ID, Holder: "root", Last: &last, Copies: copies}
	}
	for _, size := range []int64{-1, -1 << 40, 101, 1 << 40} {
		b.refused(root, done(size, 1), "IOException", "Commit block blk_")
	}
	other := done(7, 1)
	other.Last.ID--
	b.refused(root, other, "IOException", "Commit block blk_")
	b.says(root, done(99, 0), false)
	b.says(root, done(1, 1), false) // the length is noted, and this is another
	b.says(root, other, false)
	if closed, _ := b.as(root).Closed("/f"); closed {
		t.Error("closed with a length that no copy has")
	}
	check(t, b.v)
	// What the log has from before means what it has meant.
	c, err := DecodeCommand(Command{Time: b.now, Caller: root, Op: done(1, 1), version: version1}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Apply(b.v, c); err != nil || !bool(*r.(*Flag)) || b.stat("/f").Size != 99 {
		t.Errorf("%v, %v, %d bytes", r, err, b.stat("/f").Size)
	}
}

// alice2 is alice, who may write to the root of a bench.
func alice2(b *bench) Caller {
	b.must(root, &SetPermission{"/", 0o777})
	return alice
}

func TestPipelineIsBuiltAnew(t *testing.T) {
	b := newBench(t)
	v := b.open(root, "/f")
	a := b.must(root, &AddBlock{Path: "/f", ID: v.ID, Holder: "root", Nodes: []string{"n1"}}).(*Allocated)
	b.refused(root, &NewStamp{a.Block, "bob"}, "LeaseExpiredException", "Lease mismatch: ")
	b.refused(root, &NewStamp{Block{ID: 1}, "root"}, "IOException", "blk_1_0 does not exist.")
	next := b.must(root, &NewStamp{a.Block, "root"}).(*Allocated).Block
	b.refused(root, &UpdatePipeline{"root", a.Block, a.Block, nil}, "IOException", "Update ")
	next.Size = 10
	b.must(root, &UpdatePipeline{"root", a.Block, next, []string{"n2"}})
	b.refused(root, &Complete{Path: "/f", ID: v.ID, Holder: "root", Last: &a.Block, Copies: 1}, "IOException", "Commit block with mismatching GS.")
	if l := b.stat("/f").Located; !slices.Equal(l.Last.Nodes, []string{"n2"}) || l.Last.Stamp != next.Stamp {
		t.Errorf("%+v", l.Last)
	}
	b.must(root, &AbandonBlock{"/f", v.ID, "root", next})
	b.says(root, &Complete{Path: "/f", ID: v.ID, Holder: "root"}, true)
	check(t, b.v)
}

func TestWriterGone(t *testing.T) {
	b := newBench(t)
	v := b.open(root, "/f")
	a := b.must(root, &AddBlock{Path: "/f", ID: v.ID, Holder: "root", Nodes: []string{"n1"}}).(*Allocated)
	other := &Append{Path: "/f", Holder: "h2", Machine: "m2", Nodes: []string{"n1"}}
	b.refused(root, other, "AlreadyBeingCreatedException", "Failed to APPEND_FILE /f for h2 on m2 because this file lease is currently owned by root on m")
	b.now += 60_000
	_, err := b.try(root, other)
	b.isError(err, "RecoveryInProgressException", "Failed to APPEND_FILE /f for h2 on m2 because lease recovery is in progress.")
	rs := b.as(root).Recoveries()
	if len(rs) != 1 || rs[0].Block.ID != a.ID || rs[0].Stamp <= a.Stamp {
		t.Fatalf("%+v", rs)
	}
	b.refused(root, &CommitRecovery{Block: a.ID, Stamp: a.Stamp}, "IOException", "The recovery id ")
	b.must(root, &CommitRecovery{Block: a.ID, Stamp: rs[0].Stamp, Size: 42, Close: true, Nodes: []string{"n1"}})
	if closed, err := b.as(root).Closed("/f"); !closed || err != nil || b.stat("/f").Size != 42 {
		t.Error(closed, err, b.stat("/f").Size)
	}
	other.Block, other.Stamp, other.Room = a.ID, rs[0].Stamp, 100
	b.must(root, other)
	if b.as(root).Expired() {
		t.Error("a lease of now has expired")
	}
	b.now += 21 * 60_000
	b.must(root, &RenewLeases{}) // as after a time in which nobody could renew it
	if b.as(root).Expired() {
		t.Error("a lease has expired that nobody could renew")
	}
	third := &Append{Path: "/f", Holder: "h3", Machine: "m3", Nodes: []string{"n1"}}
	b.refused(root, third, "AlreadyBeingCreatedException", "Failed to APPEND_FILE /f for h3 on m3 because this file lease is currently owned by h2 on m2")
	b.now += 21 * 60_000
	if !b.as(root).Expired() {
		t.Error("a lease that was not renewed has not expired")
	}
	b.must(root, &ExpireLeases{10})
	if rs := b.as(root).Recoveries(); len(rs) != 1 {
		t.Errorf("%+v", rs)
	}
	check(t, b.v)
}

func TestAnswersAreKept(t *testing.T) {
	b := newBench(t, func(o *Config) { o.MaxAnswers = 3 })
	b.mkdir("/a")
	call := func(n int64, o Op) string {
		b.now++
		return class(Apply(b.v, Command{Time: b.now, Client: "c", Call: n, Caller: root, Op: o}))
	}
	move := &Rename{From: "/a", To: "/b", Old: true}
	if got := call(1, move) + call(1, move) + call(2, move); got != "truetruefalse" {
		t.Error(got)
	}
	for i := range int64(5) {
		call(10+i, &Mkdirs{Path: "/x", Parents: true})
	}
	if got := call(1, move); got != "false" {
		t.Errorf("an answer was kept beyond their number: %s", got)
	}
	b.now += 11 * 60_000
	call(20, &Mkdirs{Path: "/x", Parents: true})
	if n := len(dumpKind(b.v, keyAnswered)); n == 0 || bytes.Count([]byte(dumpKind(b.v, keyAnswer)), []byte("\n")) != 1 {
		t.Errorf("old answers are kept:\n%s", dumpKind(b.v, keyAnswer))
	}
}

func TestSafeMode(t *testing.T) {
	b := newBench(t)
	b.refused(alice, &SetSafeMode{true}, "AccessControlException", "Access denied for user alice.")
	b.says(root, &SetSafeMode{true}, true)
	b.refused(root, &Mkdirs{Path: "/a", Parents: true}, "SafeModeException", "Cannot create directory /a. Name node is in safe mode.")
	b.says(root, &SetSafeMode{false}, false)
	b.mkdir("/a")
}

// TestPlacesOfOperations: those in logs mean what they have meant; what was taken out is refused.
func TestPlacesOfOperations(t *testing.T) {
	for place, want := range map[int]Op{1: &Mkdirs{}, 22: &SetSafeMode{}, 24: &CommitRecovery{}, 25: &ExpireLeases{}, 27: &Sweep{}, 28: &Collected{}, 29: &Relocate{}} {
		if got := indexOf(ops, want); got != place {
			t.Errorf("%T is at %d, not %d", want, got, place)
		}
	}
	for _, place := range []int{23, 26, len(ops) + 1} {
		c := &coder{}
		number(c, &place)
		c = &coder{reading: true, b: c.b}
		var o Op
		if oneOf(c, ops, &o); c.err == nil || o != nil {
			t.Errorf("operation %d is read as %T, %v", place, o, c.err)
		}
	}
}

// FuzzCommand: whatever comes out of a log is refused, or is a command that goes back.
func FuzzCommand(f *testing.F) {
	for _, o := range ops {
		if o == nil {
			continue
		}
		f.Add(Command{Time: 5, Client: "c", Call: 7, Caller: alice, Op: o}.Encode())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := DecodeCommand(data)
		if err != nil {
			return
		}
		again, err := DecodeCommand(c.Encode())
		if err != nil || !bytes.Equal(again.Encode(), c.Encode()) {
			t.Fatalf("%+v: %v", c, err)
		}
		b := newBench(t)
		b.mkdir("/a")
		Apply(b.v, c)
		check(t, b.v)
	})
}

func FuzzInode(f *testing.F) {
	f.Add(encode(recordVersion, &inode{ID: 3, Directory: true, Name: "d"}))
	f.Add(encode(recordVersion, &inode{ID: 3, Directory: true, Name: "d", Height: 9}))
	f.Add(encode(recordVersion, &inode{ID: 3, File: &file{Writer: &writer{"h", "m", "u"}}}))
	f.Add(encode(recordVersion, &inode{ID: 3, File: &file{Tail: []block{{ID: 1, Nodes: []string{"n"}}}, Writer: &writer{Holder: "h", Machine: "m"}}}))
	f.Add(encode(recordVersion, &inode{ID: 3, File: &file{Tail: []block{{ID: 1, Full: true}, {ID: 2, State: underRecovery, Cut: 5}}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var n, m inode
		if decode(recordVersion, data, &n) != nil {
			return
		}
		b := encode(recordVersion, &n)
		if err := decode(recordVersion, b, &m); err != nil || !bytes.Equal(b, encode(recordVersion, &m)) {
			t.Fatalf("%+v: %v", n, err)
		}
	})
}

// written is a state that is not read.
type written struct{ View }

func (written) Set(_, _ []byte) {}

// TestFormatReadsNothing: it is given what is only written so far.
func TestFormatReadsNothing(t *testing.T) {
	Format(written{}, DefaultConfig(), "root", "supergroup", 1)
}
