package meta

// ACLChange is how ChangeACL changes an ACL.
type ACLChange uint8

const (
	ModifyACL        ACLChange = iota // entries are added or replaced (modifyAclEntries)
	RemoveACLEntries                  // entries go, whatever they allow
	RemoveDefaultACL                  // all default entries go
	RemoveACL                         // all but what a mode can say goes
	SetACL                            // the entries are all there are, in scopes that they have
)

var aclRefusals = [...]string{"Cannot modify ACL entries on ", "Cannot remove ACL entries on ", "Cannot remove default ACL entries on ",
	"Cannot remove ACL on ", "Cannot set ACL on "}

// ChangeACL changes an ACL in one of five ways.
type ChangeACL struct {
	Path    string
	How     ACLChange
	Entries []ACLEntry
}

func (o *ChangeACL) code(c *coder) {
	text(c, &o.Path)
	number(c, &o.How)
	if o.How > SetACL {
		c.fail()
		o.How = 0
	}
	list(c, &o.Entries, codeACLEntry)
}

func (o *ChangeACL) apply(s *state) (Result, error) {
	if err := s.awake("%s%s", aclRefusals[o.How], o.Path); err != nil {
		return nil, err
	}
	t, err := s.resolve(o.Path, toWrite)
	if err == nil {
		err = s.owns(t)
	}
	if err != nil {
		return nil, err
	}
	n, path := t.last(), t.path()
	if err := o.change(n, path); err != nil {
		e := err.(*Error)
		return nil, fail(e.Class, "%s Path: %s", e.Message, path)
	}
	s.save(n)
	return nil, nil
}

func (o *ChangeACL) change(n *inode, path string) error {
	var acl []ACLEntry
	var err error
	switch how := o.How; {
	case how == RemoveACL, how == SetACL && len(o.Entries) == 0:
		n.removeACL()
		return nil
	case how == RemoveDefaultACL:
		acl, _ = parted(n.logical())
	case how == ModifyACL:
		acl, err = merged(n.logical(), o.Entries)
	case how == RemoveACLEntries:
		acl, err = without(n.logical(), o.Entries)
	default:
		acl, err = replaced(n.logical(), o.Entries)
	}
	if err != nil {
		return err
	}
	return n.setLogical(acl, path)
}

// removeACL leaves what a mode can say. The mask, which was in the place of the group's
// rights, gives way to them.
func (n *inode) removeACL() {
	access, _ := parted(n.ACL)
	if i := find(access, ACLEntry{Type: Group}); i >= 0 {
		n.Mode = n.Mode&^0o070 | uint16(access[i].Access)<<3
	}
	n.ACL = nil
}

// ACLStatus is the ACL of a file or directory.
type ACLStatus struct {
	Owner, Group string
	Sticky       bool
	Mode         uint16     // nine bits
	Entries      []ACLEntry // without those that Mode has
}

// ACL returns that of a file or directory (getAclStatus).
func (q Query) ACL(path string) (*ACLStatus, error) {
	s := q.state()
	t, err := s.resolve(path, toRead)
	if err != nil {
		return nil, err
	}
	n, err := t.there()
	if err != nil {
		return nil, err
	}
	return &ACLStatus{n.Owner, n.Group, n.Mode&sticky != 0, n.Mode & 0o777, n.ACL}, nil
}
