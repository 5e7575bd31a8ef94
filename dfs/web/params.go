package web

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"headrace/meta"
)

// mostText is how many bytes a path or parameter may have: as in dfs/gateway.
const mostText = 32 << 10

// params are the parameters of a request. The first that is wrong is an error that is kept, and refuses the command.
type params struct {
	values map[string][]string // by names in small letters
	err    error
}

func (p *params) parse(query string) error {
	all, err := url.ParseQuery(query)
	if err != nil {
		return thrown(classArgument, "the parameters: %s", err)
	}
	p.values = map[string][]string{}
	for name, values := range all {
		for _, v := range values {
			if !utf8.ValidString(v) || len(v) > mostText {
				return thrown(classArgument, "Invalid value for webhdfs parameter %.64q: it is not UTF-8, or has more than %d bytes", name, mostText)
			}
		}
		p.values[strings.ToLower(name)] = values
	}
	return nil
}

// text returns a parameter, or nothing.
func (p *params) text(name string) string {
	if v := p.values[name]; len(v) > 0 && v[0] != "null" { // which is what HDFS's clients call nothing
		return v[0]
	}
	return ""
}

func (p *params) wrong(name, format string, args ...any) {
	if p.err == nil {
		p.err = thrown(classArgument, "Invalid value for webhdfs parameter \"%s\": %s", name, fmt.Sprintf(format, args...))
	}
}

func (p *params) flag(name string, otherwise bool) bool {
	switch v := strings.ToLower(p.text(name)); v {
	case "":
		return otherwise
	case "true", "false":
		return v == "true"
	default:
		p.wrong(name, "%.64q is neither true nor false", v)
		return otherwise
	}
}

// number returns a parameter between bounds, in a base.
func (p *params) number(name string, base int, low, high, otherwise int64) int64 {
	v := p.text(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(v, base, 64)
	if err != nil {
		p.wrong(name, "Failed to parse %.64q as a number of base %d", v, base)
	} else if n < low || n > high {
		p.wrong(name, "Invalid parameter range: %s = %s is not between %s and %s", name, v, strconv.FormatInt(low, base), strconv.FormatInt(high, base))
	}
	return n
}

const mostMode = 0o1777

// mode returns the mode of a new file or directory, and the mode without the client's umask if the client says that.
func (p *params) mode(otherwise int64) (mode uint16, asked *uint16) {
	if p.text("unmaskedpermission") != "" {
		m := uint16(p.number("unmaskedpermission", 8, 0, mostMode, 0))
		asked = &m
	}
	return uint16(p.number("permission", 8, 0, mostMode, otherwise)), asked
}

// copies is the number of copies of a file.
func (p *params) copies(unless int) uint16 {
	return uint16(p.number("replication", 10, 1, 1<<15-1, int64(unless)))
}

// access returns a kind of access, such as r-x.
func (p *params) access(name string) (a meta.Access) {
	v := p.text(name)
	if len(v) != 3 {
		p.wrong(name, "%.64q is none like rwx", v)
		return 0
	}
	return p.rights(name, v)
}

func (p *params) rights(name, v string) (a meta.Access) {
	for i := range v {
		switch {
		case i < 3 && v[i] == "rwx"[i]:
			a |= 4 >> i
		case i >= 3 || v[i] != '-':
			p.wrong(name, "%.64q is none like rwx", v)
			return 0
		}
	}
	return a
}

var aclTypes = []string{"user", "group", "mask", "other"}

// entries returns the entries of an ACL, with rights or without.
func (p *params) entries(withRights bool) (all []meta.ACLEntry) {
	const name = "aclspec"
	for s := range strings.SplitSeq(p.text(name), ",") {
		if s == "" {
			continue
		}
		var e meta.ACLEntry
		rest, isDefault := strings.CutPrefix(s, "default:")
		parts := strings.Split(rest, ":")
		kind := slices.Index(aclTypes, strings.ToLower(parts[0]))
		if kind < 0 || len(parts) < 2 || len(parts) > 3 || withRights && (len(parts) != 3 || len(parts[2]) != 3) {
			p.wrong(name, "%.64q is no entry of an ACL", s)
			return nil
		}
		e.Default, e.Type, e.Name = isDefault, meta.ACLType(kind), parts[1]
		if withRights {
			e.Access = p.rights(name, parts[2])
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		p.wrong(name, "there is no entry")
	}
	return all
}

var spaces = []string{"user", "trusted", "security", "system", "raw"}

// xattr returns an attribute by its name.
func (p *params) xattr(full string) meta.XAttr {
	space, name, ok := strings.Cut(full, ".")
	i := slices.Index(spaces, strings.ToLower(space))
	switch {
	case !ok || i < 0:
		if p.err == nil {
			p.err = thrown(classHadoopArg, "An XAttr name must be prefixed with user/trusted/security/system/raw, followed by a '.'")
		}
		return meta.XAttr{}
	case name == "":
		if p.err == nil {
			p.err = thrown(classHadoopArg, "XAttr name cannot be empty.")
		}
	}
	return meta.XAttr{Space: meta.Namespace(i), Name: name}
}

// xattrValue returns the value of an attribute, which may be in quotes, in hexadecimal digits or in base 64 (XAttrCodec).
func (p *params) xattrValue(name string) []byte {
	v := p.text(name)
	var b []byte
	var err error
	switch {
	case len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"':
		return []byte(v[1 : len(v)-1])
	case len(v) >= 2 && strings.EqualFold(v[:2], "0x"):
		b, err = hex.DecodeString(v[2:])
	case len(v) >= 2 && strings.EqualFold(v[:2], "0s"):
		b, err = base64.StdEncoding.DecodeString(v[2:])
	case v != "":
		b = []byte(v)
	}
	if err != nil {
		p.wrong(name, "%s", err)
	}
	return b
}

// encoded is the value of an attribute as text.
func encoded(b []byte, encoding string) any {
	if b == nil {
		return nil
	}
	switch encoding {
	case "text":
		return `"` + string(b) + `"`
	case "base64":
		return "0s" + base64.StdEncoding.EncodeToString(b)
	}
	return "0x" + hex.EncodeToString(b)
}
