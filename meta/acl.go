package meta

import (
	"cmp"
	"slices"
)

// ACLType is whom an entry of an ACL is about.
type ACLType uint8

const (
	User ACLType = iota
	Group
	Mask
	Other
)

// An ACLEntry is one of an access control list. Without a name it is about the owner, or
// the owning group.
type ACLEntry struct {
	Default bool // for what is created below a directory
	Type    ACLType
	Name    string
	Access  Access
}

func codeACLEntry(c *coder, e *ACLEntry) {
	c.flag(&e.Default)
	number(c, &e.Type)
	text(c, &e.Name)
	number(c, &e.Access)
	if e.Type > Other || e.Access > All {
		c.fail()
		*e = ACLEntry{}
	}
}

// group is the group that an entry is about, of an inode.
func (e *ACLEntry) group(n *inode) string {
	if e.Name == "" {
		return n.Group
	}
	return e.Name
}

// before is the order of entries (AclTransformation.ACL_ENTRY_COMPARATOR).
func before(a, b ACLEntry) int {
	scope := func(e ACLEntry) int {
		if e.Default {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(scope(a), scope(b)), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
}

// find returns the place of an entry in a sorted list, or -1. Which of several it finds is
// what Java's Collections.binarySearch does: callers may give an entry twice.
func find(acl []ACLEntry, e ACLEntry) int {
	for low, high := 0, len(acl)-1; low <= high; {
		mid := (low + high) / 2
		switch c := before(acl[mid], e); {
		case c < 0:
			low = mid + 1
		case c > 0:
			high = mid - 1
		default:
			return mid
		}
	}
	return -1
}

// minimal reports whether a list says no more than a mode can (AclUtil.isMinimalAcl).
func minimal(acl []ACLEntry) bool { return len(acl) == 3 }

// logical is the whole ACL of an inode. Every inode has one: what its mode holds is not
// stored twice (AclStorage.readINodeLogicalAcl). The stored entries are the named ones and
// that of the owning group, then the default ones.
func (n *inode) logical() []ACLEntry {
	access, defaults := parted(n.ACL)
	acl := []ACLEntry{{Type: User, Access: n.class(6)}}
	if len(access) > 0 {
		acl = append(append(acl, access...), ACLEntry{Type: Mask, Access: n.class(3)})
	} else {
		acl = append(acl, ACLEntry{Type: Group, Access: n.class(3)})
	}
	return append(append(acl, ACLEntry{Type: Other, Access: n.class(0)}), defaults...)
}

// parted parts a sorted list into access and default entries.
func parted(acl []ACLEntry) (access, defaults []ACLEntry) {
	i := slices.IndexFunc(acl, func(e ACLEntry) bool { return e.Default })
	if i < 0 {
		i = len(acl)
	}
	return acl[:i:i], acl[i:]
}

// setLogical stores a whole ACL (AclStorage.updateINodeAcl).
func (n *inode) setLogical(acl []ACLEntry, path string) error {
	access, defaults := parted(acl)
	if len(defaults) > 0 && !n.Directory {
		return fail(classACL, "Invalid ACL: only directories may have a default ACL. Path: %s", path)
	}
	n.setParts(access, defaults)
	return nil
}

// setParts stores access entries, sorted, of which the first is the owner's and the last
// that of others, in mode and list. The group's bits of a mode are the mask, if there is one.
func (n *inode) setParts(access, defaults []ACLEntry) {
	last := len(access) - 1
	n.ACL = nil
	if !minimal(access) {
		n.ACL = append(n.ACL, access[1:last-1]...)
	}
	n.ACL = append(n.ACL, defaults...)
	n.Mode = n.Mode&sticky | uint16(access[0].Access)<<6 | uint16(access[last-1].Access)<<3 | uint16(access[last].Access)
}

// inherit gives a new inode what the default ACL of its directory says; its mode is what
// was asked for, and bounds that. It reports whether there is such an ACL
// (AclStorage.copyINodeDefaultAcl).
func (n *inode) inherit(dir *inode) bool {
	_, defaults := parted(dir.ACL)
	if len(defaults) == 0 {
		return false
	}
	access := make([]ACLEntry, len(defaults))
	for i, e := range defaults {
		e.Default = false
		switch {
		case e.Type == User && e.Name == "":
			e.Access &= n.class(6)
		case e.Type == Group && minimal(defaults), e.Type == Mask:
			e.Access &= n.class(3)
		case e.Type == Other:
			e.Access &= n.class(0)
		}
		access[i] = e
	}
	if !n.Directory {
		defaults = nil
	}
	n.setParts(access, defaults)
	return true
}

// maxACL is how many entries of a scope there may be.
const maxACL = 32

// Operations on a list. The spec is what the caller gave.

// aclChange is a list in the making: what is in it but for masks, the masks that it gets,
// and what the change touches, per scope (false: access, true: default).
type aclChange struct {
	entries      []ACLEntry
	mask         map[bool]ACLEntry
	maskTouched  map[bool]bool
	scopeTouched map[bool]bool
}

func newChange() *aclChange {
	return &aclChange{nil, map[bool]ACLEntry{}, map[bool]bool{}, map[bool]bool{}}
}

// keep takes over an entry as it was.
func (a *aclChange) keep(e ACLEntry) {
	if e.Type == Mask {
		a.mask[e.Default] = e
	} else {
		a.entries = append(a.entries, e)
	}
}

// put takes over an entry of the spec.
func (a *aclChange) put(e ACLEntry) {
	a.drop(e)
	a.keep(e)
}

// drop notes that an entry is changed, or goes.
func (a *aclChange) drop(e ACLEntry) {
	a.scopeTouched[e.Default] = true
	if e.Type == Mask {
		a.maskTouched[e.Default] = true
	}
}

// merged is a list with entries of the spec added, or in place of what was there.
func merged(acl, spec []ACLEntry) ([]ACLEntry, error) {
	spec, err := checkedSpec(spec)
	if err != nil {
		return nil, err
	}
	a := newChange()
	for _, e := range acl {
		if i := find(spec, e); i >= 0 {
			a.put(spec[i])
		} else {
			a.keep(e)
		}
	}
	for _, e := range spec {
		if find(acl, e) < 0 {
			a.put(e)
		}
	}
	return a.finish()
}

// without is a list without what the spec names.
func without(acl, spec []ACLEntry) ([]ACLEntry, error) {
	spec, err := checkedSpec(spec)
	if err != nil {
		return nil, err
	}
	a := newChange()
	for _, e := range acl {
		if find(spec, e) >= 0 {
			a.drop(e)
		} else {
			a.keep(e)
		}
	}
	return a.finish()
}

// replaced is the spec, and of scopes that it does not have what was there.
func replaced(acl, spec []ACLEntry) ([]ACLEntry, error) {
	spec, err := checkedSpec(spec)
	if err != nil {
		return nil, err
	}
	a := newChange()
	for _, e := range spec {
		a.put(e)
	}
	for _, e := range acl {
		if !a.scopeTouched[e.Default] {
			a.keep(e)
		}
	}
	return a.finish()
}

// checkedSpec sorts a spec and refuses one that is too long.
func checkedSpec(spec []ACLEntry) ([]ACLEntry, error) {
	if err := notTooLong(spec); err != nil { // before it is sorted
		return nil, err
	}
	spec = slices.Clone(spec)
	slices.SortStableFunc(spec, before)
	return spec, nil
}

func notTooLong(acl []ACLEntry) error {
	access, defaults := 0, 0
	for _, e := range acl {
		if err := nameable(e.Name); err != nil {
			return err
		}
		if e.Default {
			defaults++
		} else {
			access++
		}
	}
	if access > maxACL {
		return fail(classACL, "Invalid ACL: ACL has %d access entries, which exceeds maximum of %d.", access, maxACL)
	}
	if defaults > maxACL {
		return fail(classACL, "Invalid ACL: ACL has %d default entries, which exceeds maximum of %d.", defaults, maxACL)
	}
	return nil
}

// MostWho is how many bytes the name of a user or a group may have: it is kept with each file and directory, in ACLs many times.
const MostWho = 255

func nameable(who string) error {
	if len(who) > MostWho {
		return fail(classArgument, "the name of a user or group has %d bytes, more than %d", len(who), MostWho)
	}
	return nil
}

// base are the types of entries that every list has.
var base = []ACLType{User, Group, Other}

// finish completes and checks a list.
func (a *aclChange) finish() ([]ACLEntry, error) {
	a.completeDefaults()
	if err := a.masks(); err != nil {
		return nil, err
	}
	acl := a.entries
	slices.SortStableFunc(acl, before)
	for i, e := range acl {
		switch {
		case i > 0 && before(acl[i-1], e) == 0:
			return nil, fail(classACL, "Invalid ACL: multiple entries with same scope, type and name.")
		case e.Name != "" && (e.Type == Mask || e.Type == Other):
			return nil, fail(classACL, "Invalid ACL: this entry type must not have a name: %s.", e.Name)
		}
	}
	if err := notTooLong(acl); err != nil {
		return nil, err
	}
	_, defaults := parted(acl)
	for _, t := range base {
		if find(acl, ACLEntry{Type: t}) < 0 {
			return nil, fail(classACL, "Invalid ACL: the user, group and other entries are required.")
		}
		if len(defaults) > 0 && find(acl, ACLEntry{Default: true, Type: t}) < 0 {
			return nil, fail(classACL, "Invalid default ACL: the user, group and other entries are required.")
		}
	}
	return acl, nil
}

// completeDefaults takes default entries that every list has, and this one has not, from
// the access entries.
func (a *aclChange) completeDefaults() {
	if !slices.ContainsFunc(a.entries, func(e ACLEntry) bool { return e.Default }) {
		return
	}
	slices.SortStableFunc(a.entries, before)
	sorted := a.entries
	for _, t := range base {
		if find(sorted, ACLEntry{Default: true, Type: t}) >= 0 {
			continue
		}
		if i := find(sorted, ACLEntry{Type: t}); i >= 0 {
			e := sorted[i]
			e.Default = true
			a.entries = append(a.entries, e)
		}
	}
}

// masks adds the mask of each scope: the one given, the one that was there if the scope is
// as it was, or one that allows all that its entries do.
func (a *aclChange) masks() error {
	for _, scope := range []bool{false, true} {
		there, needed, union := false, false, Access(0)
		for _, e := range a.entries {
			if e.Default != scope {
				continue
			}
			there = true
			if e.Type == Group || e.Name != "" {
				union |= e.Access
			}
			needed = needed || e.Name != ""
		}
		mask, given := a.mask[scope]
		switch {
		case !there:
		case !given && needed && a.maskTouched[scope]:
			return fail(classACL, "Invalid ACL: mask is required and cannot be deleted.")
		case given && (!a.scopeTouched[scope] || a.maskTouched[scope]):
			a.entries = append(a.entries, mask)
		case needed || given:
			a.entries = append(a.entries, ACLEntry{Default: scope, Type: Mask, Access: union})
		}
	}
	return nil
}
