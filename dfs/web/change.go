package web

import (
	"crypto/rand"
	"math"
	"strings"

	"headrace/meta"
)

// change are the operations that change the name space.
var change = table{
	"PUT MKDIRS": func(r *request) (any, error) {
		mode, asked := r.mode(0o755)
		return r.boolean(&meta.Mkdirs{Path: r.path, Mode: mode, Asked: asked, Parents: true})
	},
	"PUT RENAME": func(r *request) (any, error) {
		to := r.text("destination")
		if !strings.HasPrefix(to, "/") {
			r.wrong("destination", "%.64q is no absolute path", to)
		}
		options := strings.ToUpper(r.text("renameoptions"))
		switch o := (&meta.Rename{From: r.path, To: to, Old: options == ""}); options {
		case "":
			return r.boolean(o)
		case "OVERWRITE":
			o.Overwrite = true
			return nil, r.did(o)
		case "NONE":
			return nil, r.did(o)
		}
		r.wrong("renameoptions", "%.64q is neither NONE nor OVERWRITE", options)
		return nil, r.err
	},
	"DELETE DELETE": func(r *request) (any, error) {
		answer, err := r.boolean(&meta.Delete{Path: r.path, Recursive: r.flag("recursive", false)})
		r.Node.Wake()
		return answer, err
	},
	"PUT SETREPLICATION": func(r *request) (any, error) {
		return r.boolean(&meta.SetReplication{Path: r.path, Copies: r.copies(r.Node.Places().Default())})
	},
	"PUT SETOWNER": func(r *request) (any, error) {
		o := &meta.SetOwner{Path: r.path, Owner: r.text("owner"), Group: r.text("group")}
		if o.Owner == "" && o.Group == "" {
			return nil, thrown(classArgument, "Both owner and group are empty.")
		}
		return nil, r.did(o)
	},
	"PUT SETPERMISSION": func(r *request) (any, error) {
		return nil, r.did(&meta.SetPermission{Path: r.path, Mode: uint16(r.number("permission", 8, 0, mostMode, 0o755))})
	},
	"PUT SETTIMES": func(r *request) (any, error) {
		return nil, r.did(&meta.SetTimes{Path: r.path, Modified: r.time("modificationtime"), Accessed: r.time("accesstime")})
	},
	"PUT SETQUOTA": func(r *request) (any, error) {
		quota := func(name string) int64 { return r.number(name, 10, meta.ClearQuota, meta.KeepQuota, meta.KeepQuota) }
		return nil, r.did(&meta.SetQuota{Path: r.path, Names: quota("namespacequota"), Space: quota("storagespacequota")})
	},
	"POST TRUNCATE": func(r *request) (any, error) {
		answer, err := r.boolean(r.Node.Truncation(r.path, r.number("newlength", 10, 0, math.MaxInt64, 0), "DFSClient_"+rand.Text(), r.machine()))
		r.Node.Wake()
		return answer, err
	},
	"POST CONCAT": func(r *request) (any, error) {
		return nil, r.did(&meta.Concat{Target: r.path, Sources: strings.Split(r.text("sources"), ",")})
	},
	"PUT MODIFYACLENTRIES": acl(meta.ModifyACL), "PUT REMOVEACLENTRIES": acl(meta.RemoveACLEntries), "PUT REMOVEDEFAULTACL": acl(meta.RemoveDefaultACL),
	"PUT REMOVEACL": acl(meta.RemoveACL), "PUT SETACL": acl(meta.SetACL),
	"PUT SETXATTR": func(r *request) (any, error) {
		x := r.xattr(r.text("xattr.name"))
		x.Value = r.xattrValue("xattr.value")
		o := &meta.SetXAttr{Path: r.path, XAttr: x}
		for f := range strings.SplitSeq(strings.ToUpper(r.text("flag")), ",") {
			switch f {
			case "CREATE":
				o.Flags |= meta.XAttrCreate
			case "REPLACE":
				o.Flags |= meta.XAttrReplace
			case "":
			default:
				r.wrong("flag", "%.64q is neither CREATE nor REPLACE", f)
			}
		}
		return nil, r.did(o)
	},
	"PUT SETSTORAGEPOLICY": func(r *request) (any, error) {
		if !strings.EqualFold(r.text("storagepolicy"), "HOT") {
			return nil, thrown(classUnsupported, noPolicies)
		}
		return nil, r.mayWrite()
	},
	"POST UNSETSTORAGEPOLICY": func(r *request) (any, error) { return nil, r.mayWrite() },
	"PUT REMOVEXATTR": func(r *request) (any, error) {
		return nil, r.did(&meta.RemoveXAttr{Path: r.path, XAttr: r.xattr(r.text("xattr.name"))})
	},
}

func acl(how meta.ACLChange) operation {
	return func(r *request) (any, error) {
		o := &meta.ChangeACL{Path: r.path, How: how}
		switch how {
		case meta.ModifyACL, meta.SetACL:
			o.Entries = r.entries(true)
		case meta.RemoveACLEntries:
			o.Entries = r.entries(false)
		}
		return nil, r.did(o)
	}
}

// mayWrite is done for what is as it is to be.
func (r *request) mayWrite() error {
	return r.ask(func(q meta.Query) error { return q.MayWrite(r.path) })
}

// time is one in ms; -1 leaves it as it is.
func (r *request) time(name string) int64 { return r.number(name, 10, -1, 1<<62, -1) }

// did has a command done, unless a parameter was wrong.
func (r *request) did(op meta.Op) error {
	_, err := r.propose(op)
	return err
}

// boolean is did for commands that say whether they did anything.
func (r *request) boolean(op meta.Op) (any, error) {
	v, err := r.propose(op)
	if err != nil {
		return nil, err
	}
	f, ok := v.(*meta.Flag)
	return list{"boolean": ok && bool(*f)}, nil
}

func (r *request) propose(op meta.Op) (meta.Result, error) {
	if r.err != nil {
		return nil, r.err
	}
	return r.Node.Propose(r.r.Context(), meta.Command{Caller: r.by, Op: op})
}

// refused are the operations that there are not.
var refused = table{
	"PUT SATISFYSTORAGEPOLICY": no(noPolicies), "PUT SETQUOTABYSTORAGETYPE": no(noQuota), "PUT CREATESYMLINK": no("Symlinks not supported"),
	"PUT ALLOWSNAPSHOT": no(noSnapshots), "PUT DISALLOWSNAPSHOT": no(noSnapshots), "PUT CREATESNAPSHOT": no(noSnapshots), "PUT RENAMESNAPSHOT": no(noSnapshots),
	"DELETE DELETESNAPSHOT": no(noSnapshots), "GET GETSNAPSHOTDIFF": no(noSnapshots), "GET GETSNAPSHOTLIST": no(noSnapshots),
	"PUT ENABLEECPOLICY": no(noCoding), "PUT DISABLEECPOLICY": no(noCoding), "PUT SETECPOLICY": no(noCoding), "POST UNSETECPOLICY": no(noCoding),
	"PUT RENEWDELEGATIONTOKEN": no(noTokens), "PUT CANCELDELEGATIONTOKEN": no(noTokens),
}

const (
	noPolicies  = "there is one storage policy, HOT"
	noQuota     = "there are no quotas by storage type here"
	noSnapshots = "there are no snapshots here"
	noCoding    = "there are no erasure coding policies here"
	noTokens    = "there are no delegation tokens here"
)

func no(why string) operation {
	return func(*request) (any, error) { return nil, thrown(classUnsupported, "%s", why) }
}
