package metatest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"headrace/hdfs/hdfstest"
	"headrace/meta"
)

// An op is an operation of WebHDFS, by one of the users.
type op struct {
	user, name, path string
	q                map[string]string
	size             int64 // of what CREATE and APPEND write
}

func (o op) String() string {
	var q []string
	for k, v := range o.q {
		q = append(q, k+"="+v)
	}
	slices.Sort(q)
	return fmt.Sprintf("%s: %s %s %s %d", o.user, o.name, o.path, strings.Join(q, " "), o.size)
}

func (o op) number(name string, base int, otherwise int64) int64 {
	n, err := strconv.ParseInt(o.q[name], base, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// local is package meta, behind what WebHDFS's servers do on top of it.
type local struct {
	view  *meta.Memory
	now   int64
	super string
	// groups are those of each user.
	groups map[string][]string
}

// newLocal returns an empty file system of hdfstest.User, in which blocks may be small.
func newLocal() *local {
	l := &local{view: meta.NewMemory(), now: 1_700_000_000_000, super: hdfstest.User,
		groups: map[string][]string{hdfstest.User: {"supergroup"}, "alice": {"users", "staff"}, "bob": {"users"}}}
	o := meta.DefaultConfig()
	o.MinBlockSize = 0
	meta.Format(l.view, o, hdfstest.User, "supergroup", l.now)
	return l
}

func (l *local) caller(user string) meta.Caller {
	return meta.Caller{User: user, Groups: l.groups[user], Super: user == l.super}
}

// do returns the answer as text, or the error.
func (l *local) do(o op) (string, error) {
	l.now++
	q := meta.Query{Reader: l.view, Caller: l.caller(o.user), Time: l.now}
	if ask := queries[o.name]; ask != nil {
		return ask(q, o)
	}
	switch o.name {
	case "CREATE":
		return l.create(o)
	case "APPEND":
		return l.append(o)
	case "TRUNCATE":
		return l.truncate(o)
	}
	return l.apply(o.user, command(o))
}

// truncate is what a name node does and its data nodes follow with.
func (l *local) truncate(o op) (string, error) {
	text, err := l.apply(o.user, &meta.Truncate{Path: o.path, Size: o.number("newlength", 10, 0), Holder: "client", Machine: "127.0.0.1"})
	for _, r := range (meta.Query{Reader: l.view, Time: l.now}).Recoveries() {
		if _, err := l.run(o.user, &meta.CommitRecovery{Block: r.Block.ID, Stamp: r.Stamp, Size: r.Cut, Close: true, Nodes: []string{"n"}}); err != nil {
			return "", err
		}
	}
	return text, err
}

func (l *local) apply(user string, c meta.Op) (string, error) {
	r, err := meta.Apply(l.view, meta.Command{Time: l.now, Caller: l.caller(user), Op: c})
	if f, ok := r.(*meta.Flag); ok && err == nil {
		return strconv.FormatBool(bool(*f)), nil
	}
	return "", err
}

// modes are what the servers make of the parameters of a new file or directory.
func (o op) modes(otherwise int64) (mode uint16, asked *uint16) {
	if o.q["unmaskedpermission"] != "" {
		m := uint16(o.number("unmaskedpermission", 8, otherwise))
		asked = &m
	}
	return uint16(o.number("permission", 8, otherwise)), asked
}

func command(o op) meta.Op {
	switch o.name {
	case "MKDIRS":
		mode, asked := o.modes(0o755)
		return &meta.Mkdirs{Path: o.path, Mode: mode, Asked: asked, Parents: true}
	case "RENAME":
		opts, some := o.q["renameoptions"]
		return &meta.Rename{From: o.path, To: o.q["destination"], Old: !some, Overwrite: opts == "OVERWRITE"}
	case "DELETE":
		return &meta.Delete{Path: o.path, Recursive: o.q["recursive"] == "true"}
	case "SETPERMISSION":
		return &meta.SetPermission{Path: o.path, Mode: uint16(o.number("permission", 8, 0o755))}
	case "SETOWNER":
		return &meta.SetOwner{Path: o.path, Owner: o.q["owner"], Group: o.q["group"]}
	case "SETTIMES":
		return &meta.SetTimes{Path: o.path, Modified: o.number("modificationtime", 10, -1), Accessed: o.number("accesstime", 10, -1)}
	case "SETREPLICATION":
		return &meta.SetReplication{Path: o.path, Copies: uint16(o.number("replication", 10, 1))}
	case "SETQUOTA":
		return &meta.SetQuota{Path: o.path, Names: o.number("namespacequota", 10, 0), Space: o.number("storagespacequota", 10, 0)}
	case "CONCAT":
		return &meta.Concat{Target: o.path, Sources: strings.Split(o.q["sources"], ",")}
	case "SETXATTR":
		x := xattr(o.q["xattr.name"])
		if v := o.q["xattr.value"]; v != "" {
			x.Value = []byte(strings.Trim(v, `"`))
		}
		return &meta.SetXAttr{Path: o.path, XAttr: x, Flags: map[string]uint8{"CREATE": 1, "REPLACE": 2, "CREATE,REPLACE": 3}[o.q["flag"]]}
	case "REMOVEXATTR":
		return &meta.RemoveXAttr{Path: o.path, XAttr: xattr(o.q["xattr.name"])}
	}
	if how, ok := aclChanges[o.name]; ok {
		return &meta.ChangeACL{Path: o.path, How: how, Entries: entries(o.q["aclspec"])}
	}
	panic("no operation " + o.name)
}

var aclChanges = map[string]meta.ACLChange{"MODIFYACLENTRIES": meta.ModifyACL, "REMOVEACLENTRIES": meta.RemoveACLEntries,
	"REMOVEDEFAULTACL": meta.RemoveDefaultACL, "REMOVEACL": meta.RemoveACL, "SETACL": meta.SetACL}

var spaces = []string{"user", "trusted", "security", "system", "raw"}

func xattr(name string) meta.XAttr {
	space, name, _ := strings.Cut(name, ".")
	return meta.XAttr{Space: meta.Namespace(slices.Index(spaces, space)), Name: name}
}

var aclTypes = []string{"user", "group", "mask", "other"}

func entries(spec string) []meta.ACLEntry {
	var all []meta.ACLEntry
	for e := range strings.SplitSeq(spec, ",") {
		if e == "" {
			continue
		}
		var a meta.ACLEntry
		e, a.Default = strings.CutPrefix(e, "default:")
		parts := strings.Split(e, ":")
		a.Type, a.Name = meta.ACLType(slices.Index(aclTypes, parts[0])), parts[1]
		if len(parts) > 2 {
			for i, c := range "xwr" {
				if strings.ContainsRune(parts[2], c) {
					a.Access |= 1 << i
				}
			}
		}
		all = append(all, a)
	}
	return all
}

func (l *local) create(o op) (string, error) {
	mode, asked := o.modes(0o644)
	if asked == nil { // clients apply a umask, which drops the sticky bit, and send both
		all := mode
		mode, asked = mode&0o777, &all
	}
	c := &meta.Create{Path: o.path, Mode: mode, Asked: asked, Holder: "client", Machine: "127.0.0.1", Flags: meta.FlagCreate,
		Parents: o.q["createparent"] != "false", Replication: uint16(o.number("replication", 10, 1)), BlockSize: o.number("blocksize", 10, 1024)}
	if o.q["overwrite"] == "true" {
		c.Flags |= meta.FlagOverwrite
	}
	r, err := l.run(o.user, c)
	if err != nil {
		return "", err
	}
	return "", l.write(o, r.(*meta.Status), nil)
}

func (l *local) append(o op) (string, error) {
	// WebHDFS looks whether there is something before it sends the client to a data node.
	q := meta.Query{Reader: l.view, Caller: l.caller(o.user), Time: l.now}
	v, err := q.Stat(o.path, false)
	switch {
	case strings.Contains(o.path, ":"):
		err = &meta.Error{Class: "org.apache.hadoop.fs.InvalidPathException", Message: "Invalid path name " + o.path}
	case v == nil && err == nil:
		err = &meta.Error{Class: "java.io.FileNotFoundException", Message: "File " + o.path + " not found."}
	case err == nil && v.Size > 0:
		_, err = q.Blocks(o.path, 0, 1)
	}
	if err != nil {
		return "", err
	}
	a := &meta.Append{Path: o.path, Holder: "client", Machine: "127.0.0.1", Nodes: []string{"n"}}
	if last := q.LastBlock(o.path); last != nil {
		a.Block, a.Stamp, a.Room = last.ID, last.Stamp, last.Capacity
	}
	r, err := l.run(o.user, a)
	if err != nil {
		return "", err
	}
	opened := r.(*meta.Appended)
	return "", l.write(o, &opened.Status, opened.Block)
}

func (l *local) run(user string, c meta.Op) (meta.Result, error) {
	return meta.Apply(l.view, meta.Command{Time: l.now, Caller: l.caller(user), Op: c})
}

// write is what a client of HDFS does: the rest of the last block, then more of them.
func (l *local) write(o op, v *meta.Status, last *meta.LocatedBlock) error {
	var previous *meta.Block
	left := o.size
	if last != nil {
		r, err := l.run(o.user, &meta.NewStamp{Block: last.Block, Holder: "client"})
		if err != nil {
			return err
		}
		b := r.(*meta.Allocated).Block
		b.Size = last.Size
		if _, err := l.run(o.user, &meta.UpdatePipeline{Holder: "client", Old: last.Block, New: b, Nodes: []string{"n"}}); err != nil {
			return err
		}
		n := min(left, v.BlockSize-b.Size)
		b.Size, left, previous = b.Size+n, left-n, &b
	}
	for left > 0 {
		r, err := l.run(o.user, &meta.AddBlock{Path: o.path, ID: v.ID, Holder: "client", Previous: previous, Copies: 1, Nodes: []string{"n"}})
		if err != nil {
			return err
		}
		b := r.(*meta.Allocated).Block
		b.Size = min(left, v.BlockSize)
		left -= b.Size
		previous = &b
	}
	r, err := l.run(o.user, &meta.Complete{Path: o.path, ID: v.ID, Holder: "client", Last: previous, Copies: 1})
	if f, ok := r.(*meta.Flag); err == nil && (!ok || !bool(*f)) {
		return fmt.Errorf("%v is not closed", o)
	}
	return err
}

// queries answer as WebHDFS does, as lines of text.
var queries = map[string]func(meta.Query, op) (string, error){
	"GETFILESTATUS": func(q meta.Query, o op) (string, error) {
		v, err := q.Stat(o.path, false)
		if v == nil && err == nil {
			err = &meta.Error{Class: "java.io.FileNotFoundException", Message: "File does not exist: " + o.path}
		}
		if err != nil {
			return "", err
		}
		return status(v), nil
	},
	"LISTSTATUS": func(q meta.Query, o op) (string, error) {
		l, err := q.List(o.path, o.q["startAfter"], false)
		if l == nil && err == nil {
			err = &meta.Error{Class: "java.io.FileNotFoundException", Message: "File " + o.path + " does not exist."}
		}
		if err != nil {
			return "", err
		}
		var b strings.Builder
		for i := range l.Entries {
			b.WriteString(status(&l.Entries[i]) + "\n")
		}
		return b.String(), nil
	},
	"GETCONTENTSUMMARY": func(q meta.Query, o op) (string, error) {
		s, err := q.Summary(o.path)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(s.Directories, s.Files, s.Size, s.NameQuota, s.Space, s.SpaceQuota), nil
	},
	"GETQUOTAUSAGE": func(q meta.Query, o op) (string, error) {
		s, err := q.QuotaUsage(o.path)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(s.Directories+s.Files, s.NameQuota, s.Space, s.SpaceQuota), nil
	},
	"CHECKACCESS": func(q meta.Query, o op) (string, error) {
		var need meta.Access
		for i, c := range "xwr" {
			if strings.ContainsRune(o.q["fsaction"], c) {
				need |= 1 << i
			}
		}
		return "", q.Check(o.path, need)
	},
	"GETACLSTATUS": func(q meta.Query, o op) (string, error) {
		a, err := q.ACL(o.path)
		if err != nil {
			return "", err
		}
		var all []string
		for _, e := range a.Entries {
			all = append(all, entryText(e))
		}
		return fmt.Sprintf("%s %s %v %o %v", a.Owner, a.Group, a.Sticky, a.Mode|map[bool]uint16{true: 0o1000}[a.Sticky], all), nil
	},
	"GETXATTRS": func(q meta.Query, o op) (string, error) {
		var named []meta.XAttr
		if n := o.q["xattr.name"]; n != "" {
			named = []meta.XAttr{xattr(n)}
		}
		all, err := q.XAttrs(o.path, named)
		if err != nil {
			return "", err
		}
		var lines []string
		for _, x := range all {
			lines = append(lines, fmt.Sprintf("%s.%s=%q", spaces[x.Space], x.Name, x.Value))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n"), nil
	},
	"GET_BLOCK_LOCATIONS": func(q meta.Query, o op) (string, error) {
		l, err := q.Blocks(o.path, o.number("offset", 10, 0), o.number("length", 10, 1<<62))
		if err != nil {
			return "", err
		}
		text := fmt.Sprint(l.Size, l.Open, l.LastComplete)
		for _, b := range l.Blocks {
			text += fmt.Sprintf(" %d+%d", b.Offset, b.Size)
		}
		if l.Last != nil {
			text += fmt.Sprintf(" last %d+%d", l.Last.Offset, l.Last.Size)
		}
		return text, nil
	},
}

func entryText(e meta.ACLEntry) string {
	rights := []byte("---")
	for i := range rights {
		if e.Access&(4>>i) != 0 {
			rights[i] = "rwx"[i]
		}
	}
	scope := map[bool]string{true: "default:"}[e.Default]
	return fmt.Sprintf("%s%s:%s:%s", scope, aclTypes[e.Type], e.Name, rights)
}

// status has all but numbers and real times. Times that an operation has set are small.
func status(v *meta.Status) string {
	return statusText(v.Name, v.Directory, v.HasACL, v.Size, v.Mode, v.Owner, v.Group, v.Modified, v.Accessed, v.Replication, v.BlockSize, v.Children)
}

const realTime = 1_000_000

func statusText(name string, dir, acl bool, size int64, mode uint16, owner, group string, modified, accessed int64, copies uint16, block int64, children uint64) string {
	return fmt.Sprintf("%q dir=%v acl=%v size=%d mode=%o %s:%s modified=%d accessed=%d copies=%d block=%d children=%d",
		name, dir, acl, size, mode, owner, group, min(modified, realTime), min(accessed, realTime), copies, block, children)
}
