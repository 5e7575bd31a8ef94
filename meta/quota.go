package meta

import (
	"fmt"
	"math/big"
	"slices"
	"sync"
)

// usage is what a part of the tree takes of quotas: names, and bytes of all copies.
type usage struct{ names, space int64 }

func (u usage) plus(v usage) usage  { return usage{u.names + v.names, u.space + v.space} }
func (u usage) minus(v usage) usage { return usage{u.names - v.names, u.space - v.space} }

// limited reports whether a directory has a quota. Only such ones keep what they take; the root's own quota of names is none.
func (n *inode) limited() bool {
	return n.Directory && (n.NameQuota >= 0 && n.NameQuota != maxQuota || n.SpaceQuota >= 0)
}

// usage returns what a file takes, or a directory with all below it, which takes a look at all of that but what those with quotas keep.
func (s *records) usage(n *inode) usage {
	var u usage
	var todo []uint64
	isKnown := func(n *inode) bool { _, is := s.known[n.ID]; return is }
	add := func(n *inode) bool {
		switch {
		case !n.Directory:
			u = u.plus(usage{1, n.File.space()})
		case n.limited():
			u = u.plus(n.Used)
		case isKnown(n):
			u = u.plus(s.known[n.ID])
		default:
			u.names++
			todo = append(todo, n.ID)
		}
		return true
	}
	for add(n); len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		s.look(dir, "", add)
	}
	return u
}

// charge adds to what directories with quotas take, and to what surveys know, from one upwards up to one that is left out. That is counted only if
// there is one. tree: it is a directory, with something in it.
func (s *records) charge(dir, upTo *inode, tree bool, more func() usage) {
	more = sync.OnceValue(more)
	for n := dir; n != nil && n != upTo; n = s.directory(n.Parent) {
		surveysOf(s).charge(n, tree, more)
		if n.limited() {
			n.Used = n.Used.plus(more())
			s.save(n)
		}
		if n.Parent == 0 {
			return
		}
	}
}

// limits reports whether one of the directories has a quota.
func limits(dirs []*inode) bool {
	return slices.ContainsFunc(dirs, func(n *inode) bool { return n != nil && n.limited() })
}

// affords refuses what takes more than the quotas of the directories above the end of a trail let it, from the lowest up to one that is
// left out (FSDirectory.verifyQuota).
func (t *trail) affords(more usage, upTo *inode) error { return affords(t, len(t.nodes)-2, more, upTo) }

func affords(t *trail, from int, more usage, upTo *inode) error {
	for i := from; i >= 0 && t.nodes[i] != upTo; i-- {
		n := t.nodes[i]
		if n == nil || !n.limited() {
			continue
		}
		if q, u := n.NameQuota, n.Used.names+more.names; q >= 0 && more.names > 0 && u > q {
			return fail(classNSQuotaExceeded, "The NameSpace quota (directories and files) of directory %s is exceeded: quota=%d file count=%d",
				t.upTo(i), q, u)
		}
		if q, u := n.SpaceQuota, n.Used.space+more.space; q >= 0 && more.space > 0 && u > q {
			return fail(classDSQuotaExceeded, "The DiskSpace quota of %s is exceeded: quota = %d B = %s but diskspace consumed = %d B = %s",
				t.upTo(i), q, bytesText(q), u, bytesText(u))
		}
	}
	return nil
}

// bytesText is a number of bytes as Hadoop shows it (TraditionalBinaryPrefix.long2String).
func bytesText(n int64) string {
	sign, u := "", uint64(n)
	if n < 0 {
		sign, u = "-", -u
	}
	const units = "KMGTPE"
	if u < 1<<10 {
		return fmt.Sprintf("%s%d B", sign, u)
	}
	i := 0
	for i+1 < len(units) && u >= 1<<(10*(i+2)) {
		i++
	}
	for ; ; i++ {
		shift := 10 * (i + 1)
		if u&(1<<shift-1) == 0 {
			return fmt.Sprintf("%s%d %cB", sign, u>>shift, units[i])
		}
		// Hundredths, halves up.
		h := new(big.Int).Mul(new(big.Int).SetUint64(u), big.NewInt(200))
		h.Add(h, new(big.Int).Lsh(big.NewInt(1), uint(shift)))
		h.Rsh(h, uint(shift+1))
		if v := h.Int64(); v < 1024*100 || i+1 == len(units) {
			return fmt.Sprintf("%s%d.%02d %cB", sign, v/100, v%100, units[i])
		}
	}
}

// Values of SetQuota that are none.
const (
	KeepQuota  = maxQuota // the quota stays as it is
	ClearQuota = -1
)

// SetQuota sets how many names a directory may have, itself included, and how many bytes the copies of all files below it may take.
// It may be less than what there is.
type SetQuota struct {
	Path         string
	Names, Space int64
}

func (o *SetQuota) code(c *coder) { text(c, &o.Path); c.signed(&o.Names); c.signed(&o.Space) }

func (o *SetQuota) apply(s *state) (Result, error) {
	if err := s.privileged(); err != nil {
		return nil, err
	}
	if err := s.awake("Cannot set quota on %s", o.Path); err != nil {
		return nil, err
	}
	t, err := s.resolve(o.Path, toWrite)
	if err != nil {
		return nil, err
	}
	if o.Names < ClearQuota || o.Space < ClearQuota {
		return nil, fail(classArgument, "Illegal value for nsQuota or ssQuota : %d and %d", o.Names, o.Space)
	}
	n := t.last()
	switch {
	case n == nil:
		return nil, fail(classNotFound, "Directory does not exist: %s", t.path())
	case !n.Directory:
		return nil, fail(classNoDir, "`%s': Is not a directory", t.path())
	}
	before := *n
	switch {
	case t.root() && o.Names == ClearQuota:
		n.NameQuota = maxQuota
	case o.Names != KeepQuota:
		n.NameQuota = o.Names
	}
	if o.Space != KeepQuota {
		n.SpaceQuota = o.Space
	}
	if n.limited() && !before.limited() {
		if err := measure(s, &before); err != nil {
			return nil, err
		}
		n.Used = s.usage(&before)
	}
	s.save(n)
	return nil, nil
}
