package names

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"headrace/meta"
)

// looked counts what is read of a state.
type looked struct {
	meta.View
	n int
}

func (l *looked) Get(k []byte) []byte { l.n++; return l.View.Get(k) }

func (l *looked) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for k, v := range l.View.Scan(from, to) {
			if l.n++; !yield(k, v) {
				return
			}
		}
	}
}

// inRounds does something so many times, a hundred at once: commands that wait for the disk together share its round.
func inRounds(n int, do func(i int)) {
	var all errgroup.Group
	all.SetLimit(100)
	for i := range n {
		all.Go(func() error { do(i); return nil })
	}
	all.Wait()
}

// TestLargeTreesDoNotHoldUp: what is below a directory is looked at before a command is applied, when it is much: while it is applied, nothing else
// is done on any node.
func TestLargeTreesDoNotHoldUp(t *testing.T) {
	g, _ := start(t, t.TempDir())
	var most atomic.Int64
	g.machine.fault.does = func(v meta.View, m meta.Command) (meta.Result, error) {
		l := &looked{View: v}
		r, err := meta.Apply(l, m)
		most.Store(max(most.Load(), int64(l.n)))
		return r, err
	}
	alice := meta.Caller{User: "alice"}
	do := func(by meta.Caller, op meta.Op) error {
		_, err := g.Propose(context.Background(), meta.Command{Caller: by, Op: op})
		return err
	}
	must := func(by meta.Caller, op meta.Op) {
		t.Helper()
		if err := do(by, op); err != nil {
			t.Errorf("%T%+v: %v", op, op, err)
		}
	}
	for _, top := range []string{"/alice", "/alice/.Trash"} {
		must(person, &meta.Mkdirs{Path: top, Mode: 0o755})
		must(person, &meta.SetOwner{Path: top, Owner: "alice"})
	}
	const dirs, files = 30, 60
	for d := range dirs {
		inRounds(files, func(f int) {
			must(alice, &meta.Create{Path: fmt.Sprintf("/alice/large/%d/%d", d, f), Mode: 0o644, Holder: "h", Flags: meta.FlagCreate, Parents: true, Replication: 1, BlockSize: 1 << 20})
		})
	}
	names := func() int64 {
		var n int64
		if err := g.Query(person, func(q meta.Query) error {
			s, err := q.QuotaUsage("/alice")
			if err == nil {
				n = s.Files + s.Directories
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	all := names()
	must(person, &meta.SetQuota{Path: "/alice", Names: all, Space: meta.KeepQuota})
	must(alice, &meta.Rename{From: "/alice/large", To: "/alice/.Trash/large", Trash: true})
	must(person, &meta.SetPermission{Path: "/alice/.Trash/large/7", Mode: 0o500})
	must(person, &meta.SetOwner{Path: "/alice/.Trash/large/7", Owner: "bob"})
	err := do(alice, &meta.Delete{Path: "/alice/.Trash/large", Recursive: true})
	if e, is := errors.AsType[*meta.Error](err); !is || !strings.HasPrefix(e.Message, `Permission denied: user=alice, access=ALL, inode="/alice/.Trash/large/7":bob:`) {
		t.Errorf("%v", err)
	}
	must(person, &meta.SetOwner{Path: "/alice/.Trash/large/7", Owner: "alice"})
	must(alice, &meta.SetPermission{Path: "/alice/.Trash/large/7", Mode: 0o700})
	must(alice, &meta.Delete{Path: "/alice/.Trash/large", Recursive: true})
	inRounds(int(all-2), func(i int) { // all that was given back
		must(alice, &meta.Mkdirs{Path: fmt.Sprintf("/alice/%d", i), Mode: 0o755})
	})
	if err := do(alice, &meta.Mkdirs{Path: "/alice/more", Mode: 0o755}); err == nil || names() != all {
		t.Errorf("the quota is not what it was: %v, %d of %d", err, names(), all)
	}
	if n := most.Load(); n > 1500 {
		t.Errorf("a command reads %d records, with %d files", n, dirs*files)
	}
}

// TestWhatIsTooLargeComesIntoNoLog: all nodes would have to take it up.
func TestWhatIsTooLargeComesIntoNoLog(t *testing.T) {
	g, _ := start(t, t.TempDir())
	if err := g.mkdir("d"); err != nil {
		t.Fatal(err)
	}
	var applied atomic.Int64
	g.machine.fault.does = func(v meta.View, m meta.Command) (meta.Result, error) {
		applied.Add(1)
		return meta.Apply(v, m)
	}
	var acl []meta.ACLEntry
	var sources []string
	for i := range 50_000 {
		acl = append(acl, meta.ACLEntry{Type: meta.User, Name: fmt.Sprint(i * 7919 % 50_000), Access: meta.Read})
		sources = append(sources, fmt.Sprintf("%s/%d", simDir, i))
	}
	for _, c := range []struct {
		op    meta.Op
		class string
	}{
		{&meta.ChangeACL{Path: simDir, How: meta.SetACL, Entries: acl}, "AclException"},
		{&meta.SetXAttr{Path: simDir, XAttr: meta.XAttr{Name: "x", Value: make([]byte, 7<<20)}, Flags: meta.XAttrCreate}, "HadoopIllegalArgumentException"},
		{&meta.Concat{Target: simDir + "/f", Sources: sources}, "HadoopIllegalArgumentException"},
	} {
		_, err := g.Propose(context.Background(), meta.Command{Caller: person, Op: c.op})
		if e, is := errors.AsType[*meta.Error](err); !is || !strings.HasSuffix(e.Class, c.class) {
			t.Errorf("%T: %v", c.op, err)
		}
	}
	if n := applied.Load(); n > 0 {
		t.Errorf("%d commands are applied", n)
	}
}
