package metatest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"headrace/hdfs/hdfstest"
)

// generator makes operations over few names, so that they meet.
type generator struct{ *rand.Rand }

func (g *generator) of(choices ...string) string { return choices[g.IntN(len(choices))] }

func (g *generator) path() string {
	if g.IntN(60) == 0 {
		return g.of("/", "/.reserved", "/a/.snapshot", "/d/.snapshot", "/f/.snapshot", "/.reserved/raw/a", "/a:b", "/"+strings.Repeat("n", 256), "/.reserved/.inodes/16385/a",
			"/.reserved/x", "/a/"+strings.Repeat("ü", 128))
	}
	if g.IntN(2) == 0 {
		return g.dir()
	}
	return g.file()
}

// dir is mostly the path of a directory, file that of a file.
func (g *generator) dir() string {
	p := ""
	for range 1 + g.IntN(2) {
		p += "/" + g.of("d", "d", "e", "ü")
	}
	return g.other(p)
}

func (g *generator) file() string {
	p := "/" + g.of("f", "g", "Z", "ü2")
	for range g.IntN(3) {
		p = "/" + g.of("d", "d", "e", "ü") + p
	}
	return g.other(p)
}

func (g *generator) other(p string) string {
	if g.IntN(15) == 0 {
		return p + "/" + g.of("d", "f")
	}
	return p
}

func (g *generator) user() string {
	return g.of(hdfstest.User, hdfstest.User, hdfstest.User, "alice", "alice", "bob", "carol")
}

func (g *generator) mode() string {
	return g.of("755", "777", "777", "775", "1777", "700", "644", "750", "070", "007", "000", "711", "770", "1755")
}

func (g *generator) name() string { return g.of("alice", "bob", "carol", "dave", hdfstest.User) }

func (g *generator) group() string { return g.of("users", "staff", "supergroup", "others") }

func (g *generator) acl(withRights bool) string {
	var all []string
	for range 1 + g.IntN(4) {
		e := g.of("", "", "default:") + g.of("user:", "user:"+g.name(), "group:", "group:"+g.group(), "mask:", "other:")
		if e += ":"; withRights {
			e += g.of("rwx", "r-x", "---", "rw-", "--x")
		}
		all = append(all, e)
	}
	return strings.Join(all, ",")
}

// whole is a list that has what every list must.
func (g *generator) whole() string {
	return fmt.Sprintf("user::%s,group::%s,other::%s,%s", g.of("rwx", "rw-"), g.of("r-x", "---"), g.of("---", "r-x"), g.acl(true))
}

func (g *generator) xattr() string {
	return g.of("user.one", "user.two", "user.three", "trusted.one", "system.one", "security.one", "raw.one")
}

// next makes an operation. What WebHDFS leaves out when a parameter is missing is a default
// of its own, so most are given.
func (g *generator) next() op {
	o := op{user: g.user(), path: g.path(), q: map[string]string{}}
	kinds := []struct {
		name   string
		weight int
		fill   func()
	}{
		{"MKDIRS", 10, func() { o.path = g.dir(); g.modes(o.q) }},
		{"CREATE", 18, func() {
			o.path = g.file()
			g.modes(o.q)
			o.q["overwrite"] = g.of("true", "false", "false")
			o.q["createparent"] = g.of("true", "false")
			o.q["replication"] = g.of("1", "2", "3", "1", "1", "513")
			o.q["blocksize"] = g.of("1024", "512")
			o.size = int64(g.IntN(4)) * 400
		}},
		{"APPEND", 5, func() { o.path, o.size = g.file(), int64(g.IntN(4))*400 }},
		{"RENAME", 12, func() {
			if o.q["destination"] = g.path(); g.IntN(2) == 0 {
				o.path, o.q["destination"] = g.file(), g.file()
			}
			if k := g.IntN(3); k > 0 {
				o.q["renameoptions"] = []string{"NONE", "OVERWRITE"}[k-1]
			}
		}},
		{"DELETE", 4, func() { o.q["recursive"] = g.of("true", "false") }},
		{"SETPERMISSION", 6, func() { o.q["permission"] = g.mode() }},
		{"SETOWNER", 5, func() {
			if g.IntN(3) > 0 {
				o.q["owner"] = g.name()
			}
			if g.IntN(3) > 0 || o.q["owner"] == "" {
				o.q["group"] = g.group()
			}
		}},
		{"SETTIMES", 3, func() {
			o.q["modificationtime"], o.q["accesstime"] = g.of("-1", "1", "2000"), g.of("-1", "3", "4000")
		}},
		{"TRUNCATE", 4, func() {
			o.path, o.q["newlength"] = g.file(), g.of("0", "300", "512", "700", "1024", "1100", "2000")
		}},
		{"SETQUOTA", 5, func() {
			o.path, o.q["namespacequota"], o.q["storagespacequota"] = g.dir(), g.of(noQuota, noQuota, "-1", "-1", "3", "5", "20"), g.of(noQuota, noQuota, "-1", "-1", "3000", "6000", "100000")
			if g.IntN(2) == 0 { // or there would soon be little to do
				o.q["namespacequota"], o.q["storagespacequota"] = "-1", "-1"
			}
		}},
		{"GETQUOTAUSAGE", 3, func() {}},
		{"SETREPLICATION", 3, func() { o.q["replication"] = g.of("1", "2", "600") }},
		{"CONCAT", 6, func() {
			o.path = g.file()
			dir := o.path[:strings.LastIndex(o.path, "/")+1]
			o.q["sources"] = dir + g.of("f", "g", "Z", "ü2")
			if g.IntN(2) == 0 {
				o.q["sources"] += "," + g.of(dir+"g", dir+"Z", g.file())
			}
		}},
		{"SETACL", 4, func() { o.q["aclspec"] = g.whole() }},
		{"MODIFYACLENTRIES", 5, func() { o.q["aclspec"] = g.acl(true) }},
		{"REMOVEACLENTRIES", 3, func() { o.q["aclspec"] = g.acl(false) }},
		{"REMOVEDEFAULTACL", 1, func() {}},
		{"REMOVEACL", 1, func() {}},
		{"SETXATTR", 5, func() {
			o.q["xattr.name"], o.q["flag"] = g.xattr(), g.of("CREATE", "REPLACE", "CREATE,REPLACE")
			o.q["xattr.value"] = `"` + g.of("v", "w", "") + `"`
		}},
		{"REMOVEXATTR", 2, func() { o.q["xattr.name"] = g.xattr() }},
		{"GETXATTRS", 2, func() {
			if g.IntN(2) == 0 {
				o.q["xattr.name"] = g.xattr()
			}
		}},
		{"GETFILESTATUS", 4, func() {}},
		{"LISTSTATUS", 4, func() {}},
		{"GETACLSTATUS", 2, func() {}},
		{"GETCONTENTSUMMARY", 3, func() {}},
		{"CHECKACCESS", 4, func() { o.q["fsaction"] = g.of("r--", "-w-", "--x", "rwx", "r-x") }},
		{"GET_BLOCK_LOCATIONS", 3, func() {
			o.path = g.file()
			o.q["offset"], o.q["length"] = g.of("0", "500", "1024", "5000"), g.of("1", "600", "100000")
		}},
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	at := g.IntN(total)
	for _, k := range kinds {
		if at -= k.weight; at < 0 {
			o.name = k.name
			k.fill()
			break
		}
	}
	return o
}

// noQuota leaves a quota as it is.
const noQuota = "9223372036854775807"

func (g *generator) modes(q map[string]string) {
	q["permission"] = g.mode()
	if g.IntN(3) == 0 {
		q["unmaskedpermission"] = g.of("777", "770", "775")
	}
}
