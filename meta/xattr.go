package meta

import (
	"slices"
	"strings"
)

// Namespace is whose business an extended attribute is.
type Namespace uint8

const (
	UserSpace Namespace = iota
	TrustedSpace
	SecuritySpace
	SystemSpace
	RawSpace
)

func (n Namespace) String() string {
	return [...]string{"USER", "TRUSTED", "SECURITY", "SYSTEM", "RAW"}[n]
}

// An XAttr is an extended attribute.
type XAttr struct {
	Space Namespace
	Name  string
	Value []byte // nil when it has none
}

func codeXAttr(c *coder, x *XAttr) {
	number(c, &x.Space)
	if x.Space > RawSpace {
		c.fail()
		x.Space = 0
	}
	text(c, &x.Name)
	c.bytes(&x.Value)
}

func (x *XAttr) is(y XAttr) bool { return x.Space == y.Space && x.Name == y.Name }

// prefixed is the name as users write it.
func (x *XAttr) prefixed() string { return strings.ToLower(x.Space.String()) + "." + x.Name }

// Flags of SetXAttr.
const (
	XAttrCreate  = 1
	XAttrReplace = 2
)

// unreadable is the attribute that keeps the superuser from reading a file.
var unreadable = XAttr{Space: SecuritySpace, Name: "hdfs.unreadable.by.superuser"}

// mayName refuses attributes that the caller may not name (XAttrPermissionFilter).
func (s *state) mayName(x XAttr, raw bool) error {
	switch {
	case x.Space == UserSpace, x.Space == TrustedSpace && s.caller.Super, x.Space == RawSpace && raw:
		return nil
	case x.is(unreadable):
		if x.Value != nil {
			return fail(classAccess, "Attempt to set a value for '%s'. Values are not allowed for this xattr.", x.prefixed())
		}
		return nil
	}
	return fail(classAccess, "User doesn't have permission for xattr: %s", x.prefixed())
}

// maySee reports whether an attribute is shown to the caller.
func (s *state) maySee(x XAttr, raw bool) bool {
	return x.Space == UserSpace || x.Space == TrustedSpace && s.caller.Super || x.Space == RawSpace && raw || x.is(unreadable)
}

// mayChange checks the rights to change attributes of users.
func (s *state) mayChange(t *trail, x XAttr) error {
	switch n := t.last(); {
	case x.is(unreadable) && s.rules > version5 && n != nil && !n.Directory: // not so in HDFS: there anybody may keep a file out of everybody's backup
		return s.permit(t, demands{owner: true})
	case x.Space != UserSpace:
		return nil
	}
	if n := t.last(); n != nil && n.Directory && n.Mode&sticky != 0 {
		return s.permit(t, demands{owner: true})
	}
	return s.permit(t, demands{last: Write})
}

func isRaw(path string) bool { return strings.HasPrefix(path, reservedPath+"/raw") }

// SetXAttr sets an extended attribute.
type SetXAttr struct {
	Path  string
	XAttr XAttr
	Flags uint8 // XAttrCreate, XAttrReplace or both
}

func (o *SetXAttr) code(c *coder) { text(c, &o.Path); codeXAttr(c, &o.XAttr); number(c, &o.Flags) }

func (o *SetXAttr) apply(s *state) (Result, error) {
	if err := s.awake("Cannot set XAttr on %s", o.Path); err != nil {
		return nil, err
	}
	if size := len(o.XAttr.Name) + len(o.XAttr.Value); size > s.config.MaxXAttr {
		return nil, o.tooBig(size, s.config.MaxXAttr)
	}
	if err := s.mayName(o.XAttr, isRaw(o.Path)); err != nil {
		return nil, err
	}
	t, err := s.resolve(o.Path, toWrite)
	if err == nil {
		err = s.mayChange(t, o.XAttr)
	}
	if err != nil {
		return nil, err
	}
	n, err := t.there()
	if err != nil {
		return nil, err
	}
	if err := o.set(s, n); err != nil {
		return nil, err
	}
	s.save(n)
	return nil, nil
}

func (o *SetXAttr) tooBig(size, most int) error {
	return fail(classHadoopArgument, "The XAttr is too big. The maximum combined size of the name and value is %d, but the total size is %d", most, size)
}

func (o *SetXAttr) set(s *state, n *inode) error {
	i := slices.IndexFunc(n.XAttrs, o.XAttr.is)
	switch {
	case o.Flags&(XAttrCreate|XAttrReplace) == 0:
		return fail(classHadoopArgument, "A flag must be specified.")
	case i >= 0 && o.Flags&XAttrReplace == 0:
		return fail(classIO, "XAttr: %s already exists. The REPLACE flag must be specified.", o.XAttr.Name)
	case i < 0 && o.Flags&XAttrCreate == 0:
		return fail(classIO, "XAttr: %s does not exist. The CREATE flag must be specified.", o.XAttr.Name)
	}
	list := slices.Clone(n.XAttrs)
	if i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	list = append([]XAttr{o.XAttr}, list...) // HDFS, too, has the latest first
	visible := 0
	for _, x := range list {
		if x.Space == UserSpace || x.Space == TrustedSpace {
			visible++
		}
	}
	if visible > s.config.MaxXAttrs {
		return fail(classIO, "Cannot add additional XAttr to inode, would exceed limit of %d", s.config.MaxXAttrs)
	}
	if n.Directory && slices.ContainsFunc(list, unreadable.is) {
		return fail(classIO, "Can only set '%s' on a file.", unreadable.prefixed())
	}
	n.XAttrs = list
	return nil
}

// attributes is how many bytes the attributes of a file or directory take.
func (n *inode) attributes() (bytes int) {
	for _, x := range n.XAttrs {
		bytes += len(x.Name) + len(x.Value)
	}
	return bytes
}

// RemoveXAttr removes an extended attribute.
type RemoveXAttr struct {
	Path  string
	XAttr XAttr
}

func (o *RemoveXAttr) code(c *coder) { text(c, &o.Path); codeXAttr(c, &o.XAttr) }

func (o *RemoveXAttr) apply(s *state) (Result, error) {
	if err := s.awake("Cannot remove XAttr entry on %s", o.Path); err != nil {
		return nil, err
	}
	if err := s.mayName(o.XAttr, isRaw(o.Path)); err != nil {
		return nil, err
	}
	t, err := s.resolve(o.Path, toWrite)
	if err == nil {
		err = s.mayChange(t, o.XAttr)
	}
	if err != nil {
		return nil, err
	}
	n, err := t.there()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(n.XAttrs, o.XAttr.is)
	if o.XAttr.is(unreadable) && len(n.XAttrs) > 0 {
		return nil, fail(classAccess, "The xattr '%s' can not be deleted.", unreadable.prefixed())
	}
	if i < 0 {
		return nil, fail(classIO, "No matching attributes found for remove operation")
	}
	n.XAttrs = slices.Delete(slices.Clone(n.XAttrs), i, i+1)
	s.save(n)
	return nil, nil
}

// XAttrs returns those attributes of a file or directory that are named, or all that the
// caller may see (getXAttrs, and listXAttrs, which does not show values).
func (q Query) XAttrs(path string, named []XAttr) ([]XAttr, error) {
	s, raw := q.state(), isRaw(path)
	for _, x := range named {
		if err := s.mayName(x, raw); err != nil {
			return nil, err
		}
	}
	t, err := s.resolve(path, toRead)
	if err == nil {
		err = s.permit(t, demands{last: Read})
	}
	if err != nil {
		return nil, err
	}
	n, err := t.there()
	if err != nil {
		return nil, err
	}
	var seen []XAttr
	for _, x := range n.XAttrs {
		if s.maySee(x, raw) {
			seen = append(seen, x)
		}
	}
	if len(named) == 0 {
		return seen, nil
	}
	var found []XAttr
	for _, x := range named {
		i := slices.IndexFunc(seen, x.is)
		if i < 0 {
			return nil, fail(classNoXAttr, "At least one of the attributes provided was not found.")
		}
		found = append(found, seen[i])
	}
	return found, nil
}
