package names

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"headrace/meta"
)

// tree is what the commands of clients make of the names, as simple as can be: paths with what is there. It counts anew whatever it
// is asked.
type tree struct {
	at      map[string]*thing
	renewed map[string]int64 // by holder
	safe    bool
	now     int64
	caches
}

// caches are cache pools, with how many copies their directives have, and the pools of directives.
type caches struct {
	copies map[string]int64
	in     map[int64]string
	last   int64
}

func (c caches) clone() caches { return caches{maps.Clone(c.copies), maps.Clone(c.in), c.last} }

// apply is that of a command about them; false: it is about something else.
func (c *caches) apply(op meta.Op) (string, bool) {
	const refused = "InvalidRequestException"
	switch o := op.(type) {
	case *meta.ChangeCachePool:
		if _, has := c.copies[o.Name]; has == o.Add || *o.Replication < 0 {
			return refused, true
		}
		c.copies[o.Name] = *o.Replication
	case *meta.RemoveCachePool:
		if _, has := c.copies[o.Name]; !has {
			return refused, true
		}
		delete(c.copies, o.Name)
		maps.DeleteFunc(c.in, func(_ int64, pool string) bool { return pool == o.Name })
	case *meta.ChangeCacheDirective:
		n, has := c.copies[*o.Pool]
		switch {
		case o.ID == nil && n == 0, !has:
			return refused, true
		case o.ID == nil:
			c.last++
			c.in[c.last] = *o.Pool
		case c.in[*o.ID] == "":
			return refused, true
		default:
			c.in[*o.ID] = *o.Pool
		}
	case *meta.RemoveCacheDirective:
		if c.in[o.ID] == "" {
			return refused, true
		}
		delete(c.in, o.ID)
	default:
		return "", false
	}
	return "ok", true
}

// text is all that there is, with the number of copies of a pool.
func (c caches) text() string { return fmt.Sprintln(c.copies, c.in) }

// thing is a file or a directory.
type thing struct {
	dir          bool
	mode         uint16
	owner, group string
	accessed     int64
	attributes   map[string]string
	acl          *acl
	names, space int64 // quotas of a directory

	id        uint64
	copies    uint16
	blockSize int64
	holder    string // who has it open
	blocks    []piece
}

// acl is what bob may do, and the owning group, whose place in the mode has the mask.
type acl struct{ bob, group meta.Access }

// piece is a block.
type piece struct {
	meta.Block
	state        int
	until        int64 // of a recovery
	stamp        uint64
	cut, counted int64
	filled       bool // there is no room where it is
}

// States of a piece.
const (
	isComplete = iota
	isBuilding
	isCommitted
	isRecovering
)

const none = -1

func newTree() *tree {
	dir := func() *thing {
		return &thing{dir: true, mode: 0o755, owner: "root", group: "root", names: none, space: none}
	}
	return &tree{at: map[string]*thing{"/": dir(), treeDir: dir()}, renewed: map[string]int64{}, caches: caches{map[string]int64{}, map[int64]string{}, 0}}
}

func (t *tree) clone() *tree {
	c := &tree{map[string]*thing{}, maps.Clone(t.renewed), t.safe, t.now, t.caches.clone()}
	for p, n := range t.at {
		m := *n
		m.blocks, m.attributes = slices.Clone(n.blocks), maps.Clone(n.attributes)
		c.at[p] = &m
	}
	return c
}

// below yields a path and all below it, sorted.
func (t *tree) below(dir string) []string {
	var all []string
	for p := range t.at {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

func (n *thing) last() *piece { return n.fromEnd(1) }

func (n *thing) fromEnd(i int) *piece {
	if len(n.blocks) < i {
		return nil
	}
	return &n.blocks[len(n.blocks)-i]
}

func (n *thing) size() (size int64) {
	for _, b := range n.blocks {
		size += b.Size
	}
	return size
}

// full is what one copy counts in quotas.
func (n *thing) full() (size int64) {
	for _, b := range n.blocks {
		if b.state == isComplete {
			size += b.Size
		} else {
			size += n.blockSize
		}
	}
	return size
}

// takes is what is below a path, the path itself with it.
func (t *tree) takes(p string) (names, space int64) {
	for _, q := range t.below(p) {
		n := t.at[q]
		names, space = names+1, space+n.full()*int64(n.copies)
	}
	return names, space
}

// affords is the refusal of so much more below a directory, by the quotas of it and those above, up to one that is left out.
func (t *tree) affords(dir string, names, space int64, upTo string) string {
	for ; dir != upTo; dir = path.Dir(dir) {
		if n := t.at[dir]; n != nil {
			hasNames, hasSpace := t.takes(dir)
			switch {
			case n.names >= 0 && names > 0 && hasNames+names > n.names:
				return "NSQuotaExceededException"
			case n.space >= 0 && space > 0 && hasSpace+space > n.space:
				return "DSQuotaExceededException"
			}
		}
		if dir == "/" {
			break
		}
	}
	return ""
}

// kept marks an outcome after which what was done stays, though it is a refusal.
const kept = "+"

// do does what a command does, and returns its outcome: "ok", "true", "false", the class of an exception, or "" if it may be any. Of
// numbers that are given out it learns from the answer.
func (t *tree) do(op meta.Op, r meta.Result, recoveries func() []meta.Recovery) string {
	before := t.clone()
	out := t.apply(op, r)
	if stays := strings.TrimPrefix(out, kept); stays != out {
		out = stays
	} else if strings.HasSuffix(out, "Exception") {
		now := t.now
		*t = *before
		t.now = now
	}
	for _, n := range t.at { // the stamps of recoveries are nobody's to know beforehand
		if b := n.last(); b != nil && b.state == isRecovering {
			for _, r := range recoveries() {
				if r.Block.ID == b.ID {
					b.stamp = r.Stamp
				}
			}
		}
	}
	return out
}

func (t *tree) apply(op meta.Op, r meta.Result) string {
	if safe, is := op.(*meta.SetSafeMode); is {
		t.safe = safe.On
		return fmt.Sprint(safe.On)
	}
	switch op.(type) { // what is nobody's wish
	case *meta.Sweep, *meta.Survey:
		return ""
	case *meta.Collected, *meta.Relocate:
		return "ok"
	case *meta.ExpireLeases:
		if !t.safe {
			t.expire()
		}
		return "ok"
	case *meta.RenewLeases:
		for holder := range t.renewed {
			t.renewed[holder] = t.now
		}
		return "ok"
	}
	if t.safe {
		return "SafeModeException"
	}
	if out, is := t.caches.apply(op); is {
		return out
	}
	switch o := op.(type) {
	case *meta.Mkdirs:
		return t.mkdirs(o.Path, o.Mode)
	case *meta.Create:
		return t.create(o, r)
	case *meta.Append:
		return t.append(o)
	case *meta.Truncate:
		return t.truncate(o)
	case *meta.Delete:
		return t.delete(o)
	case *meta.Rename:
		return t.rename(o)
	case *meta.Concat:
		return t.concat(o)
	case *meta.RecoverLease:
		n := t.at[o.Path]
		switch {
		case n == nil || n.dir:
			return "FileNotFoundException"
		case n.holder == "":
			return "true"
		}
		return t.recover(n, o.Holder)
	case *meta.RenewLease:
		t.renewed[o.Holder] = t.now
		return "ok"
	case *meta.CommitRecovery:
		return t.commitRecovery(o)
	case *meta.NewStamp, *meta.UpdatePipeline, *meta.AddBlock, *meta.AbandonBlock, *meta.Complete, *meta.Fsync:
		return t.write(op, r)
	}
	return t.set(op)
}

// set is what sets something of what is at a path.
func (t *tree) set(op meta.Op) string {
	at := func(p string) *thing { // or one that nobody sees
		if n := t.at[p]; n != nil {
			return n
		}
		return &thing{}
	}
	missing := func(p string) string {
		if t.at[p] == nil {
			return "FileNotFoundException"
		}
		return "ok"
	}
	switch o := op.(type) {
	case *meta.SetPermission:
		at(o.Path).mode = o.Mode
		return missing(o.Path)
	case *meta.SetOwner:
		at(o.Path).owner = o.Owner
		return missing(o.Path)
	case *meta.SetTimes:
		at(o.Path).accessed = o.Accessed
		return missing(o.Path)
	case *meta.SetReplication:
		n := t.at[o.Path]
		if n == nil || n.dir {
			return "false"
		}
		if e := t.affords(path.Dir(o.Path), 0, n.full()*(int64(o.Copies)-int64(n.copies)), ""); e != "" {
			return e
		}
		n.copies = o.Copies
		return "true"
	case *meta.SetQuota:
		n := at(o.Path)
		if n.names, n.space = quota(n.names, o.Names), quota(n.space, o.Space); o.Path == "/" {
			panic("the root has a quota")
		}
		return missing(o.Path)
	case *meta.SetXAttr:
		n := at(o.Path)
		if n.attributes == nil {
			n.attributes = map[string]string{}
		}
		n.attributes[o.XAttr.Name] = string(o.XAttr.Value)
		return missing(o.Path)
	case *meta.RemoveXAttr:
		if n := t.at[o.Path]; n != nil {
			if _, has := n.attributes[o.XAttr.Name]; !has {
				return "IOException"
			}
			delete(n.attributes, o.XAttr.Name)
		}
		return missing(o.Path)
	case *meta.ChangeACL:
		n := at(o.Path)
		switch {
		case o.How == meta.ModifyACL:
			if n.acl == nil {
				n.acl = &acl{group: meta.Access(n.mode >> 3 & 7)}
			}
			n.acl = &acl{o.Entries[0].Access, n.acl.group}
			n.mode = n.mode&^0o070 | uint16(n.acl.bob|n.acl.group)<<3
		case n.acl != nil:
			n.mode = n.mode&^0o070 | uint16(n.acl.group)<<3
			n.acl = nil
		}
		return missing(o.Path)
	}
	panic(fmt.Sprintf("what does %T?", op))
}

func quota(old, set int64) int64 {
	if set == meta.KeepQuota {
		return old
	}
	return set
}

// mkdirs makes directories as far as quotas let it.
func (t *tree) mkdirs(p string, mode uint16) string {
	if t.at[p] != nil {
		return "true"
	}
	some := ""
	if dir := path.Dir(p); t.at[dir] == nil {
		if e := t.mkdirs(dir, mode); e != "true" {
			return e
		}
		some = kept
	}
	if e := t.affords(path.Dir(p), 1, 0, ""); e != "" {
		return some + e
	}
	t.at[p] = &thing{dir: true, mode: mode, owner: "root", group: "root", names: none, space: none}
	return "true"
}

func (t *tree) delete(o *meta.Delete) string {
	all := t.below(o.Path)
	switch {
	case len(all) == 0:
		return "false"
	case len(all) > 1 && !o.Recursive:
		return "PathIsNotEmptyDirectoryException"
	}
	for _, p := range all {
		delete(t.at, p)
	}
	return "true"
}

func (t *tree) rename(o *meta.Rename) string {
	from, to := o.From, o.To
	if m := t.at[to]; o.Old && m != nil && m.dir {
		to = path.Join(to, path.Base(from))
	}
	n, m := t.at[from], t.at[to]
	why := ""
	switch {
	case n == nil:
		why = "FileNotFoundException"
	case from == to && o.Old:
		return "true"
	case from == to:
		why = "FileAlreadyExistsException"
	case strings.HasPrefix(to, from+"/"), m != nil && m.dir != n.dir && !o.Old:
		why = "IOException"
	case m != nil && (o.Old || !o.Overwrite):
		why = "FileAlreadyExistsException"
	case m != nil && m.dir && len(t.below(to)) > 1:
		why = "IOException"
	case t.at[path.Dir(to)] == nil:
		why = "FileNotFoundException"
	}
	switch {
	case why != "" && o.Old:
		return "false"
	case why != "":
		return why
	}
	common := path.Dir(to)
	for common != path.Dir(from) && !strings.HasPrefix(path.Dir(from), strings.TrimSuffix(common, "/")+"/") {
		common = path.Dir(common)
	}
	names, space := t.takes(from)
	if m != nil {
		oldNames, oldSpace := t.takes(to)
		names, space = names-oldNames, space-oldSpace
	}
	if e := t.affords(path.Dir(to), names, space, common); e != "" {
		return e
	}
	delete(t.at, to)
	for _, p := range t.below(from) {
		t.at[to+p[len(from):]] = t.at[p]
		delete(t.at, p)
	}
	if o.Old {
		return "true"
	}
	return "ok"
}

func (t *tree) concat(o *meta.Concat) string {
	n := t.at[o.Target]
	switch {
	case n == nil:
		return "FileNotFoundException"
	case n.holder != "":
		return "HadoopIllegalArgumentException"
	}
	var more int64
	for _, p := range o.Sources {
		m := t.at[p]
		switch {
		case m == nil:
			return "FileNotFoundException"
		case path.Dir(p) != path.Dir(o.Target), m == n, m.holder != "", len(m.blocks) == 0:
			return "HadoopIllegalArgumentException"
		}
		more += m.full() * (int64(n.copies) - int64(m.copies))
	}
	if len(o.Sources) > 1 && o.Sources[0] == o.Sources[1] {
		return "HadoopIllegalArgumentException"
	}
	if e := t.affords(path.Dir(o.Target), -int64(len(o.Sources)), more, ""); e != "" {
		return e
	}
	for _, p := range o.Sources {
		n.blocks = append(n.blocks, t.at[p].blocks...)
		delete(t.at, p)
	}
	return "ok"
}

// text is all of the tree below treeDir.
func (t *tree) text() string {
	var b strings.Builder
	for _, p := range t.below(treeDir) {
		n := t.at[p]
		names, space := t.takes(p)
		var sizes []int64
		for _, x := range n.blocks {
			sizes = append(sizes, x.Size)
		}
		fmt.Fprintln(&b, p, n.dir, n.mode, n.owner, n.group, n.accessed, n.copies, n.holder != "", sizes, names, space, n.names, n.space)
		for _, k := range slices.Sorted(maps.Keys(n.attributes)) {
			fmt.Fprintf(&b, "  %s=%s\n", k, n.attributes[k])
		}
		if n.acl != nil {
			fmt.Fprintln(&b, "  acl", n.acl.bob, n.acl.group)
		}
	}
	return b.String() + t.caches.text()
}

// cachesOf is what a state has of them.
func cachesOf(q meta.Query) caches {
	c := caches{map[string]int64{}, map[int64]string{}, 0}
	pools, _ := q.CachePools("")
	for _, p := range pools {
		c.copies[p.Name] = p.Replication
	}
	for more := true; more; {
		var page []meta.CacheDirective
		page, more, _ = q.CacheDirectives(c.last, meta.CacheFilter{})
		for _, d := range page {
			c.in[d.ID], c.last = d.Pool, d.ID
		}
	}
	return c
}

// textOf is the same of a state, by queries alone.
func textOf(r meta.Reader) string {
	q := meta.Query{Reader: r, Caller: person}
	var b strings.Builder
	var all []string
	var find func(dir string)
	find = func(dir string) {
		all = append(all, dir)
		l, err := q.List(dir, "", false)
		for i := 0; err == nil && l != nil && i < len(l.Entries); i++ {
			if e := &l.Entries[i]; e.Directory {
				find(dir + "/" + e.Name)
			} else {
				all = append(all, dir+"/"+e.Name)
			}
		}
	}
	find(treeDir)
	slices.Sort(all)
	for _, p := range all {
		s, err := q.Stat(p, false)
		sum, err2 := q.Summary(p)
		if err != nil || err2 != nil || s == nil {
			fmt.Fprintln(&b, p, err, err2)
			continue
		}
		var sizes []int64
		open := false
		if l, err := q.Blocks(p, 0, 1<<62); err == nil && !s.Directory {
			open = l.Open
			for _, x := range l.Blocks {
				sizes = append(sizes, x.Size)
			}
		}
		names, space := sum.NameQuota, sum.SpaceQuota
		if !s.Directory {
			names, space = 0, 0
		}
		fmt.Fprintln(&b, p, s.Directory, s.Mode, s.Owner, s.Group, s.Accessed, s.Replication, open, sizes, sum.Directories+sum.Files, sum.Space, names, space)
		attributes, _ := q.XAttrs(p, nil)
		slices.SortFunc(attributes, func(a, b meta.XAttr) int { return strings.Compare(a.Name, b.Name) })
		for _, x := range attributes {
			fmt.Fprintf(&b, "  %s=%s\n", x.Name, x.Value)
		}
		if a, err := q.ACL(p); err == nil && len(a.Entries) > 0 {
			fmt.Fprintln(&b, "  acl", a.Entries[0].Access, a.Entries[1].Access)
		}
	}
	return b.String() + cachesOf(q).text()
}
