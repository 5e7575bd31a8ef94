package meta

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
)

// tree is a file system as simple as can be: paths with what is there.
type tree map[string]*thing

type thing struct {
	dir          bool
	mode         uint16
	owner, group string
	blocks       []int64
}

func (t tree) children(dir string) []string {
	var all []string
	for p := range t { // sorted below
		if p != "/" && path.Dir(p) == dir {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(signed(path.Base(a)), signed(path.Base(b))) })
	return all
}

// signed orders names as HDFS does, which takes bytes for signed.
func signed(name string) string {
	b := []byte(name)
	for i := range b {
		b[i] += 128
	}
	return string(b)
}

func (t tree) may(by Caller, p string, need Access) bool {
	n := t[p]
	m := n.mode
	switch {
	case by.Super:
		return true
	case n.owner == by.User:
		m >>= 6
	case slices.Contains(by.Groups, n.group):
		m >>= 3
	}
	return Access(m)&need == need
}

// pass is the class of the error on the way to a path, if there is one.
func (t tree) pass(by Caller, p string, create bool) string {
	if p == "/" {
		return ""
	}
	parts := strings.Split(p, "/")
	at := "/"
	for i := 1; i < len(parts); i++ {
		switch n := t[at]; {
		case n == nil:
			return ""
		case !n.dir && create:
			return "ParentNotDirectoryException"
		case !n.dir, !t.may(by, at, Execute):
			return "AccessControlException"
		}
		at = path.Join(at, parts[i])
	}
	return ""
}

// lowest is the last directory above a path that is there.
func (t tree) lowest(p string) string {
	if p == "/" {
		return ""
	}
	for p = path.Dir(p); t[p] == nil; p = path.Dir(p) {
	}
	return p
}

func (t tree) stuck(by Caller, p string) bool {
	n, dir := t[p], t[path.Dir(p)]
	return n != nil && p != "/" && !by.Super && dir.mode&sticky != 0 && dir.owner != by.User && n.owner != by.User
}

const denied = "AccessControlException"

func (t tree) mkdirs(by Caller, p string, mode uint16) string {
	if e := t.pass(by, p, true); e != "" {
		return e
	}
	if n := t[p]; n != nil {
		if !n.dir {
			return "FileAlreadyExistsException"
		}
		return "true"
	}
	if !t.may(by, t.lowest(p), Write) {
		return denied
	}
	t.parents(by, p, mode&0o777|0o300)
	t[p] = &thing{dir: true, mode: mode, owner: by.User, group: t[path.Dir(p)].group}
	return "true"
}

func (t tree) parents(by Caller, p string, mode uint16) {
	if dir := path.Dir(p); t[dir] == nil {
		t.parents(by, dir, mode)
		t[dir] = &thing{dir: true, mode: mode, owner: by.User, group: t[path.Dir(dir)].group}
	}
}

func (t tree) create(by Caller, p string, overwrite bool, blocks []int64) string {
	if e := t.pass(by, p, true); e != "" {
		return e
	}
	if low := t.lowest(p); low != "" && !t.may(by, low, Write) {
		return denied
	}
	switch n := t[p]; {
	case n != nil && n.dir, n != nil && !overwrite:
		return "FileAlreadyExistsException"
	case n != nil && !t.may(by, p, Write):
		return denied
	}
	t.parents(by, p, t[t.lowest(p)].mode&0o777|0o300)
	t[p] = &thing{mode: 0o640, owner: by.User, group: t[path.Dir(p)].group, blocks: blocks}
	return "ok"
}

func (t tree) remove(p string) {
	for q := range t {
		if q == p || strings.HasPrefix(q, p+"/") {
			delete(t, q)
		}
	}
}

func (t tree) delete(by Caller, p string, recursive bool) string {
	if e := t.pass(by, p, false); e != "" {
		return e
	}
	n := t[p]
	if n != nil && (t.stuck(by, p) || p != "/" && !t.may(by, path.Dir(p), Write)) || n == nil && t[path.Dir(p)] != nil && !t.may(by, path.Dir(p), Write) {
		return denied
	}
	if n != nil && n.dir {
		for q, m := range t {
			if q != p && !strings.HasPrefix(q, strings.TrimSuffix(p, "/")+"/") || !m.dir {
				if q != p && strings.HasPrefix(q, strings.TrimSuffix(p, "/")+"/") && t.stuck(by, q) {
					return denied
				}
				continue
			}
			if len(t.children(q)) > 0 && !t.may(by, q, All) || q != p && t.stuck(by, q) {
				return denied
			}
		}
		if len(t.children(p)) > 0 && !recursive {
			return "PathIsNotEmptyDirectoryException"
		}
	}
	if n == nil || p == "/" {
		return "false"
	}
	t.remove(p)
	return "true"
}

func (t tree) move(from, to string) {
	for _, q := range slices.Sorted(mapKeys(t)) {
		if q == from || strings.HasPrefix(q, from+"/") {
			t[to+q[len(from):]] = t[q]
			delete(t, q)
		}
	}
}

func mapKeys(t tree) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range t {
			if !yield(k) {
				return
			}
		}
	}
}

func (t tree) rename(by Caller, from, to string, old, overwrite bool) string {
	if e := t.pass(by, from, false); e != "" {
		return e
	}
	if e := t.pass(by, to, true); e != "" {
		return e
	}
	lowest := t.lowest(to)
	if n := t[to]; old && n != nil && n.dir {
		if lowest = to; from != "/" {
			to = path.Join(to, path.Base(from))
		}
	}
	if from != "/" && t[path.Dir(from)] != nil && !t.may(by, path.Dir(from), Write) || t.stuck(by, from) {
		return denied
	}
	if lowest != "" && !t.may(by, lowest, Write) {
		return denied
	}
	n, m := t[from], t[to]
	why := "true"
	switch {
	case n == nil:
		why = "FileNotFoundException"
	case from == "/":
		why = "IOException"
	case from == to && old:
		return "true"
	case from == to:
		why = "FileAlreadyExistsException"
	case strings.HasPrefix(to, from+"/"), to == "/", m != nil && m.dir != n.dir:
		why = "IOException"
	case m != nil && (old || !overwrite):
		why = "FileAlreadyExistsException"
	case m != nil && m.dir && len(t.children(to)) > 0:
		why = "IOException"
	case t[path.Dir(to)] == nil:
		why = "FileNotFoundException"
	default:
		t.remove(to)
		t.move(from, to)
	}
	switch {
	case old && why != "true":
		return "false"
	case !old && why == "true":
		return "ok"
	}
	return why
}

func (t tree) chmod(by Caller, p string, mode uint16) string {
	if e := t.pass(by, p, false); e != "" {
		return e
	}
	n := t[p]
	if n == nil {
		return "FileNotFoundException"
	}
	if !by.Super && n.owner != by.User {
		return denied
	}
	n.mode = mode
	return "ok"
}

func (t tree) chown(by Caller, p, owner, group string) string {
	if e := t.chmod(by, p, 0); e != "ok" { // the mode is set by the caller of this
		return e
	}
	if !by.Super && (owner != "" && owner != by.User || group != "" && !slices.Contains(by.Groups, group)) {
		return denied
	}
	t[p].owner, t[p].group = cmp.Or(owner, t[p].owner), cmp.Or(group, t[p].group)
	return "ok"
}

func (t tree) concat(by Caller, target string, sources []string) string {
	if e := t.pass(by, target, false); e != "" {
		return e
	}
	n := t[target]
	if n != nil && !t.may(by, target, Write) {
		return denied
	}
	if n == nil || n.dir {
		return "FileNotFoundException"
	}
	for _, p := range sources {
		if e := t.pass(by, p, false); e != "" {
			return e
		}
		m, dir := t[p], t[path.Dir(p)]
		if m != nil && !t.may(by, p, Read) || t.stuck(by, p) || dir != nil && p != "/" && !t.may(by, path.Dir(p), Write) {
			return denied
		}
		if m == nil || m.dir {
			return "FileNotFoundException"
		}
		if path.Dir(p) != path.Dir(target) || p == target || len(m.blocks) == 0 {
			return "HadoopIllegalArgumentException"
		}
	}
	if len(sources) == 2 && sources[0] == sources[1] {
		return "HadoopIllegalArgumentException"
	}
	for _, p := range sources {
		n.blocks = append(slices.Clone(n.blocks), t[p].blocks...)
		delete(t, p)
	}
	return "ok"
}

// text is all of the tree.
func (t tree) text() string {
	var b strings.Builder
	var show func(p string)
	show = func(p string) {
		n := t[p]
		fmt.Fprintf(&b, "%s %v %o %s %s %v\n", p, n.dir, n.mode, n.owner, n.group, n.blocks)
		for _, c := range t.children(p) {
			show(c)
		}
	}
	show("/")
	return b.String()
}

// text is all of a state as tree.text has it, by queries alone.
func (b *bench) text() string {
	var out strings.Builder
	var show func(p string)
	show = func(p string) {
		v := b.stat(p)
		var sizes []int64
		if v.Located != nil {
			for _, x := range v.Located.Blocks {
				sizes = append(sizes, x.Size)
			}
		}
		fmt.Fprintf(&out, "%s %v %o %s %s %v\n", p, v.Directory, v.Mode, v.Owner, v.Group, sizes)
		if !v.Directory {
			return
		}
		for after := ""; ; {
			l, err := b.as(root).List(p, after, false)
			if err != nil {
				b.Fatal(err)
			}
			for _, e := range l.Entries {
				show(path.Join(p, e.Name))
				after = e.Name
			}
			if l.Left == 0 {
				return
			}
		}
	}
	show("/")
	return out.String()
}

func class(r Result, err error) string {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Class[strings.LastIndexAny(e.Class, ".$")+1:]
	case err != nil:
		return err.Error()
	}
	if f, ok := r.(*Flag); ok {
		return fmt.Sprint(bool(*f))
	}
	return "ok"
}

// randomStep does the same to both, and returns both outcomes.
func randomStep(r *rand.Rand, b *bench, t tree) (did Op, got, want string) {
	of := func(s ...string) string { return s[r.IntN(len(s))] }
	name := func() string {
		p := ""
		for range 1 + r.IntN(3) {
			p += "/" + of("a", "b", "ü", "Z")
		}
		if r.IntN(40) == 0 {
			return "/"
		}
		return p
	}
	by := []Caller{root, root, alice, bob, carol}[r.IntN(5)]
	mode := []uint16{0o755, 0o777, 0o1777, 0o700, 0o770, 0o711, 0o070}[r.IntN(7)]
	p := name()
	switch r.IntN(10) {
	case 0, 1:
		did, want = &Mkdirs{Path: p, Mode: mode, Parents: true}, t.mkdirs(by, p, mode)
	case 2, 3:
		o := &Create{Path: p, Mode: 0o640, Holder: by.User, Machine: "m", Flags: FlagCreate, Parents: true, Replication: 1, BlockSize: 100}
		over := r.IntN(2) == 0
		if over {
			o.Flags |= FlagOverwrite
		}
		var sizes []int64
		for range r.IntN(4) * r.IntN(5) {
			sizes = append(sizes, 1+r.Int64N(100))
		}
		res, err := b.try(by, o)
		if v, ok := res.(*Status); ok {
			b.write(by, v.ID, sizes...)
		}
		return o, class(res, err), t.create(by, p, over, sizes)
	case 4, 5:
		rec := r.IntN(2) == 0
		did, want = &Delete{Path: p, Recursive: rec}, t.delete(by, p, rec)
	case 6, 7:
		q, old, over := name(), r.IntN(2) == 0, r.IntN(2) == 0
		did, want = &Rename{From: p, To: q, Old: old, Overwrite: over}, t.rename(by, p, q, old, over)
	case 8:
		if r.IntN(2) == 0 {
			did, want = &SetPermission{p, mode}, t.chmod(by, p, mode)
			break
		}
		owner, group := of("", "alice", "bob"), of("", "users", "staff")
		before := uint16(0)
		if n := t[p]; n != nil {
			before = n.mode
		}
		did, want = &SetOwner{p, owner, group}, t.chown(by, p, owner, group)
		if n := t[p]; n != nil {
			n.mode = before
		}
	default:
		q := []string{name()}
		if r.IntN(2) == 0 {
			q = append(q, path.Join(path.Dir(p), of("a", "b", "ü", "Z")))
		}
		did, want = &Concat{p, q}, t.concat(by, p, q)
	}
	res, err := b.try(by, did)
	return did, class(res, err), want
}

// TestAsTree compares random operations with the simple tree.
func TestAsTree(t *testing.T) {
	steps := 60_000
	if testing.Short() {
		steps = 5_000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	b := newBench(t, func(o *Config) { o.ListLimit = 2 })
	simple := tree{"/": {dir: true, mode: 0o755, owner: "root", group: "supergroup"}}
	for i := range steps {
		if i%97 == 0 { // quotas that nothing exceeds are counted all the same
			b.try(root, &SetQuota{[]string{"/", "/a", "/ü", "/a/b"}[r.IntN(4)], []int64{ClearQuota, KeepQuota, 1 << 40}[r.IntN(3)], []int64{ClearQuota, KeepQuota, 1 << 50}[r.IntN(3)]})
		}
		did, got, want := randomStep(r, b, simple)
		if got != want {
			t.Fatalf("step %d of seed %d: %T%+v: %s, not %s\n%s", i, seed, did, did, got, want, b.text())
		}
		if i%20 == 0 {
			if got, want := b.text(), simple.text(); got != want {
				t.Fatalf("after step %d of seed %d:\n%s\nnot\n%s", i, seed, got, want)
			}
		}
		if i%50 == 0 {
			check(t, b.v)
			if has := dumpKind(b.v, keyOrphan) != ""; has != b.as(root).Orphaned() {
				t.Fatalf("step %d of seed %d: there are directories to take apart: %v, and that is not said", i, seed, has)
			}
			b.says(root, &Sweep{Most: 1000}, false)
			b.must(root, &Collected{numbersOf(b.as(root).Garbage(0, 10_000))})
			check(t, b.v)
		}
	}
	if g := dumpKind(b.v, keyGarbage); strings.Count(g, "\n") > 10_000 {
		t.Error("garbage grows")
	}
}

func numbersOf(all []Garbage) []uint64 {
	var n []uint64
	for _, g := range all {
		n = append(n, g.Number)
	}
	return n
}

// TestDeterminism: the same commands make the same bytes, also after they went through a
// log, and after a state was dumped in their midst and read back.
func TestDeterminism(t *testing.T) {
	var log [][]byte
	one := newBench(t)
	apply := func(v View, c Command) string {
		r, err := Apply(v, c)
		return fmt.Sprint(class(r, err), err)
	}
	other := newBench(t).v
	r := rand.New(rand.NewPCG(rand.Uint64(), 2))
	for i := range 3000 {
		o := randomOp(r, one)
		c := Command{Time: int64(2_000_000 + i*100), Client: []string{"", "c1", "c2"}[r.IntN(3)], Call: int64(r.IntN(1000)), Caller: []Caller{root, alice}[r.IntN(2)], Op: o}
		log = append(log, c.Encode())
		first := apply(one.v, c)
		back, err := DecodeCommand(log[i])
		if err != nil {
			t.Fatalf("%T: %v", o, err)
		}
		if second := apply(other, back); first != second {
			t.Fatalf("%T%+v: %s, then %s", o, o, first, second)
		}
		if i%100 == 0 {
			if !bytes.Equal(dump(one.v), dump(other)) {
				t.Fatalf("states differ after %d commands", i)
			}
			moved := NewMemory()
			for k, v := range other.Scan([]byte{0}, []byte{255}) {
				moved.Set(k, v)
			}
			other = moved
			check(t, other)
		}
	}
	if !bytes.Equal(dump(one.v), dump(other)) {
		t.Fatal("states differ")
	}
}

// randomOp makes any of the operations, with numbers of files and blocks that there are.
func randomOp(r *rand.Rand, b *bench) Op {
	of := func(s ...string) string { return s[r.IntN(len(s))] }
	name := func() string { return "/" + of("a", "b", "c") + of("", "", "/a", "/b", "/b/c") }
	var files []uint64
	for k := range b.v.Scan([]byte{keyFile}, []byte{keyFile + 1}) {
		files = append(files, numberAt(k, 0))
	}
	id := uint64(0)
	if len(files) > 0 {
		id = files[r.IntN(len(files))]
	}
	var given Block
	var last *Block
	holder := of("h1", "h2")
	if n := open(newDraft(b.v), 0, root).byNumber(id); n != nil && n.File != nil {
		if w := n.File.Writer; w != nil {
			holder = w.Holder
		}
		if x := n.File.lastBlock(); x != nil {
			given = *x.public()
			if x.State == building {
				given.Size = max(given.Size, r.Int64N(100))
			}
			last = &given
		}
	}
	nodes := []string{"n1", "n2"}[:r.IntN(3)]
	switch r.IntN(34) {
	case 0, 1:
		return &Mkdirs{Path: name(), Mode: 0o755, Parents: r.IntN(2) == 0}
	case 2, 3, 4:
		return &Create{Path: name(), Mode: 0o644, Holder: holder, Machine: "m", Flags: uint32(1 + r.IntN(3)), Parents: true, Replication: 1, BlockSize: 100}
	case 5, 6:
		o := &Append{Path: name(), Holder: holder, Machine: "m", NewBlock: r.IntN(3) == 0, Nodes: nodes}
		if p := b.as(root).LastBlock(o.Path); p != nil && r.IntN(8) > 0 {
			o.Block, o.Stamp, o.Room = p.ID, p.Stamp, 50+50*int64(r.IntN(2))
		}
		return o
	case 7, 8, 9:
		return &AddBlock{Path: name(), ID: id, Holder: holder, Previous: last, Copies: uint16(r.IntN(2)), Segment: uint16(r.IntN(4)), Nodes: nodes}
	case 10:
		return &AbandonBlock{Path: name(), ID: id, Holder: holder, Block: given}
	case 11:
		return &NewStamp{given, holder}
	case 12:
		next := given
		next.Stamp += 1 + r.Uint64N(50)
		return &UpdatePipeline{holder, given, next, nodes}
	case 13, 14:
		return &Complete{Path: name(), ID: id, Holder: holder, Last: last, Copies: uint16(r.IntN(2))}
	case 15:
		return &Fsync{name(), id, holder, given.Size}
	case 16:
		return &RenewLease{holder}
	case 17:
		return &RecoverLease{name(), "h3"}
	case 18:
		return &Delete{name(), r.IntN(2) == 0}
	case 19:
		return &Rename{From: name(), To: name(), Old: r.IntN(2) == 0, Overwrite: true}
	case 20:
		return &Concat{name(), []string{name()}}
	case 21:
		return &SetTimes{name(), r.Int64N(10) - 1, -1}
	case 22:
		return &SetXAttr{name(), XAttr{UserSpace, of("x", "y"), []byte(of("", "v"))}, 3}
	case 23:
		return &ChangeACL{name(), ACLChange(r.IntN(5)), []ACLEntry{{Default: r.IntN(2) == 0, Type: User, Name: "bob", Access: Read}}}
	case 24, 25:
		if all := b.as(root).Recoveries(); len(all) > 0 {
			x := all[0]
			if x.Cut > 0 {
				return &CommitRecovery{x.Block.ID, x.Stamp, x.Cut, false, r.IntN(2) == 0, nodes}
			}
			return &CommitRecovery{x.Block.ID, x.Stamp, 7, r.IntN(4) == 0, r.IntN(2) == 0, nodes}
		}
		return &ExpireLeases{3}
	case 26:
		return &Relocate{[]Relocation{{given.ID, given.Stamp, nodes[:r.IntN(len(nodes)+1)]}}}
	case 27:
		return &Sweep{1 + r.IntN(5)}
	case 28, 29:
		return &Truncate{Path: name(), Size: r.Int64N(150), Holder: holder, Machine: "m", Block: given.ID, Nodes: nodes}
	case 30:
		return &SetQuota{name(), []int64{ClearQuota, KeepQuota, 2, 5, 1000}[r.IntN(5)], []int64{ClearQuota, KeepQuota, 150, 1000, 100000}[r.IntN(5)]}
	case 31:
		return &SetReplication{name(), uint16(1 + r.IntN(3))}
	case 32:
		return &RenewLeases{Set: r.IntN(2) == 0}
	}
	return &Collected{numbersOf(b.as(root).Garbage(0, 3))}
}
