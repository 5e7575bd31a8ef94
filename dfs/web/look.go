package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"

	"headrace/dfs"
	"headrace/meta"
)

// list is what JSON of HDFS has in the place of a list: one in an object.
type list map[string]any

// look are the operations that read the name space.
var look = table{
	"GET GETFILESTATUS": (*request).fileStatus, "GET GETFILELINKSTATUS": (*request).fileStatus, // there are no links
	"GET GETLINKTARGET": func(r *request) (any, error) {
		if _, err := r.stat("File does not exist: " + r.path); err != nil {
			return nil, err
		}
		return nil, thrown(classIO, "Path %s is not a symbolic link", r.path)
	},
	"GET LISTSTATUS": (*request).list,
	"GET LISTSTATUS_BATCH": func(r *request) (any, error) {
		l, err := r.page(r.text("startafter"))
		if err != nil {
			return nil, err
		}
		return r.sendAll(`{"DirectoryListing":{"partialListing":{"FileStatuses":{"FileStatus":[`, paged(l.Entries, func() ([]meta.Status, error) { return nil, nil }, statusOf), fmt.Sprintf(`]}},"remainingEntries":%d}}`, l.Left))
	},
	"GET GETCONTENTSUMMARY": func(r *request) (any, error) {
		var s *meta.Summary
		if err := r.walk(func(q meta.Query) (err error) { s, err = q.Summary(r.path); return err }); err != nil {
			return nil, err
		}
		return list{"ContentSummary": list{"directoryCount": s.Directories, "fileCount": s.Files, "length": s.Size, "quota": s.NameQuota,
			"spaceConsumed": s.Space, "spaceQuota": s.SpaceQuota, "typeQuota": list{}, "ecPolicy": s.Coding(), "snapshotDirectoryCount": 0, "snapshotFileCount": 0,
			"snapshotLength": 0, "snapshotSpaceConsumed": 0}}, nil
	},
	"GET GETQUOTAUSAGE": func(r *request) (any, error) {
		var s *meta.Summary
		if err := r.walk(func(q meta.Query) (err error) { s, err = q.QuotaUsage(r.path); return err }); err != nil {
			return nil, err
		}
		return list{"QuotaUsage": list{"fileAndDirectoryCount": s.Files + s.Directories, "quota": s.NameQuota, "spaceConsumed": s.Space,
			"spaceQuota": s.SpaceQuota, "typeQuota": list{}}}, nil
	},
	"GET GETHOMEDIRECTORY": func(r *request) (any, error) { return list{"Path": "/user/" + r.by.User}, nil },
	"GET GETTRASHROOT":     func(r *request) (any, error) { return list{"Path": "/user/" + r.by.User + "/.Trash"}, nil },
	"GET GETTRASHROOTS":    (*request).trashRoots,
	"GET CHECKACCESS": func(r *request) (any, error) {
		need := r.access("fsaction")
		return nil, r.ask(func(q meta.Query) error { return q.Check(r.path, need) })
	},
	"GET GETXATTRS": func(r *request) (any, error) {
		all, err := r.xattrs(r.values["xattr.name"])
		if err != nil {
			return nil, err
		}
		values := []list{}
		for _, x := range all {
			values = append(values, list{"name": spaces[x.Space] + "." + x.Name, "value": encoded(x.Value, r.text("encoding"))})
		}
		return list{"XAttrs": values}, nil
	},
	"GET LISTXATTRS": func(r *request) (any, error) {
		all, err := r.xattrs(nil)
		if err != nil {
			return nil, err
		}
		names := []string{}
		for _, x := range all {
			names = append(names, spaces[x.Space]+"."+x.Name)
		}
		b, err := json.Marshal(names)
		return list{"XAttrNames": string(b)}, err // JSON in JSON, as HDFS has it
	},
	"GET GETACLSTATUS": func(r *request) (any, error) {
		var a *meta.ACLStatus
		if err := r.ask(func(q meta.Query) (err error) { a, err = q.ACL(r.path); return err }); err != nil {
			return nil, err
		}
		entries, mode := []string{}, a.Mode
		for _, e := range a.Entries {
			entries = append(entries, entryText(e))
		}
		if a.Sticky {
			mode |= 0o1000
		}
		return list{"AclStatus": list{"entries": entries, "group": a.Group, "owner": a.Owner, "permission": octal(mode), "stickyBit": a.Sticky}}, nil
	},
	"GET GETFILEBLOCKLOCATIONS": func(r *request) (any, error) {
		_, blocks, err := r.located((*request).location)
		if err != nil {
			return nil, err
		}
		return r.sendAll(`{"BlockLocations":{"BlockLocation":[`, blocks, "]}}")
	},
	"GET GET_BLOCK_LOCATIONS": func(r *request) (any, error) {
		l, blocks, err := r.located((*request).block)
		if err != nil {
			return nil, err
		}
		var last list // null if there is none
		if l.Last != nil {
			last = r.block(l.Last)
		}
		b, err := json.Marshal(last)
		if err != nil {
			return nil, err
		}
		return r.sendAll(`{"LocatedBlocks":{"locatedBlocks":[`, blocks, fmt.Sprintf(`],"fileLength":%d,"isLastBlockComplete":%v,"isUnderConstruction":%v,"lastLocatedBlock":%s}}`,
			l.Size, l.LastComplete, l.Open, b))
	},
	"GET GETSERVERDEFAULTS": func(r *request) (any, error) {
		return list{"FsServerDefaults": list{"blockSize": 128 << 20, "bytesPerChecksum": 512, "writePacketSize": 64 << 10, "replication": r.Node.Places().Default(), "fileBufferSize": 4096,
			"encryptDataTransfer": false, "trashInterval": 0, "checksumType": 2, "keyProviderUri": "", "defaultStoragePolicyId": hot()["id"], "snapshotTrashRootEnabled": false}}, nil
	},
	"GET GETSTATUS": func(r *request) (any, error) {
		room := r.Node.TotalRoom()
		return list{"FsStatus": list{"capacity": room.Capacity, "remaining": room.Remaining, "used": room.Used}}, nil
	},
	// None, as from an HDFS that has no security: clients go on without.
	"GET GETDELEGATIONTOKEN":            func(*request) (any, error) { return list{"Token": nil}, nil },
	"GET GETSNAPSHOTTABLEDIRECTORYLIST": func(*request) (any, error) { return list{"SnapshottableDirectoryList": nil}, nil },
	"GET GETECPOLICIES": func(*request) (any, error) {
		return list{"ErasureCodingPolicies": list{"ErasureCodingPolicyInfo": []list{}}}, nil
	},
	"GET GETECCODECS": func(*request) (any, error) { return list{"ErasureCodingCodecs": list{}}, nil },
	"GET GETECPOLICY": func(r *request) (any, error) {
		_, err := r.stat("Path not found: " + r.path)
		return json.RawMessage("null"), err
	},
	"GET GETALLSTORAGEPOLICY": func(*request) (any, error) {
		return list{"BlockStoragePolicies": list{"BlockStoragePolicy": []list{hot()}}}, nil
	},
	"GET GETSTORAGEPOLICY": func(r *request) (any, error) {
		_, err := r.stat("File/Directory does not exist: " + r.path)
		return list{"BlockStoragePolicy": hot()}, err
	},
}

// hot is the storage policy that there is.
func hot() list {
	return list{"copyOnCreateFile": false, "creationFallbacks": []string{}, "id": 7, "name": "HOT", "replicationFallbacks": []string{}, "storageTypes": []string{"DISK"}}
}

// ask queries the state as the caller, unless a parameter was wrong.
func (r *request) ask(f func(meta.Query) error) error {
	if r.err != nil {
		return r.err
	}
	return r.Node.Query(r.by, f)
}

// walk is ask for what may look at much, as long as the caller is there.
func (r *request) walk(f func(meta.Query) error) error {
	if r.err != nil {
		return r.err
	}
	return r.Node.Walk(r.r.Context(), r.by, f)
}

// stat refuses a path at which there is nothing, with a message.
func (r *request) stat(missing string) (s *meta.Status, err error) {
	err = r.ask(func(q meta.Query) (err error) { s, err = q.Stat(r.path, false); return err })
	if err == nil && s == nil {
		err = thrown(classNotFound, "%s", missing)
	}
	return s, err
}

// page returns entries of a directory after a name, as many as one answer has.
func (r *request) page(after string) (l *meta.Listing, err error) {
	err = r.ask(func(q meta.Query) (err error) { l, err = q.List(r.path, after, false); return err })
	if err == nil && l == nil {
		err = thrown(classNotFound, "File %s does not exist.", r.path)
	}
	return l, err
}

// list sends all of a directory, page by page.
func (r *request) list() (any, error) {
	l, err := r.page("")
	if err != nil {
		return nil, err
	}
	return r.sendAll(`{"FileStatuses":{"FileStatus":[`, paged(l.Entries, func() ([]meta.Status, error) {
		if l.Left == 0 {
			return nil, nil
		}
		if l, err = r.page(l.Entries[len(l.Entries)-1].Name); err != nil {
			return nil, err
		}
		return l.Entries, nil
	}, statusOf), "]}}")
}

// trashRoots sends where what was removed lies, as FileSystem.getTrashRoots finds it: the caller's, or that of each home, of which it tells what
// is true of the home. Where the caller may not look it ends.
func (r *request) trashRoots() (any, error) {
	const homes, trash = "/user/", "/.Trash"
	var roots func(q meta.Query) ([]trashRoot, error)
	over := false
	if after := ""; r.flag("allusers", false) {
		roots = func(q meta.Query) (all []trashRoot, err error) {
			l, err := q.List(homes[:len(homes)-1], after, false)
			if over = l == nil || l.Left == 0; l == nil {
				return nil, err
			}
			for _, e := range l.Entries {
				after = e.Name
				s, err := q.Stat(homes+e.Name+trash, false)
				if err != nil {
					return all, err
				}
				if s != nil {
					all = append(all, trashRoot{homes + e.Name + trash, e})
				}
			}
			return all, nil
		}
	} else {
		roots = func(q meta.Query) ([]trashRoot, error) {
			over = true
			s, err := q.Stat(homes+r.by.User+trash, false)
			if s == nil {
				return nil, err
			}
			return []trashRoot{{homes + r.by.User + trash, *s}}, nil
		}
	}
	next := func() (all []trashRoot, err error) {
		for !over && len(all) == 0 && err == nil {
			err = r.ask(func(q meta.Query) (err error) { all, err = roots(q); return err })
		}
		if errors.As(err, new(*meta.Error)) && r.err == nil {
			over, err = true, nil
		}
		return all, err
	}
	first, err := next()
	if err != nil {
		return nil, err
	}
	return r.sendAll(`{"Paths":[`, paged(first, next, func(t *trashRoot) list {
		return list{"path": t.path, "length": t.of.Size, "isdir": t.of.Directory, "block_replication": t.of.Replication, "blocksize": t.of.BlockSize,
			"modification_time": t.of.Modified, "access_time": t.of.Accessed, "permission": octal(t.of.Mode), "owner": t.of.Owner, "group": t.of.Group}
	}), "]}")
}

type trashRoot struct {
	path string
	of   meta.Status
}

func (r *request) xattrs(names []string) (all []meta.XAttr, err error) {
	var named []meta.XAttr
	for _, n := range names {
		named = append(named, r.xattr(n))
	}
	err = r.ask(func(q meta.Query) (err error) { all, err = q.XAttrs(r.path, named); return err })
	return all, err
}

// blocksAtOnce are how many blocks are asked for, and held while the client takes what it is told of them.
const blocksAtOnce = 100

// located returns what is known of a part of a file with its first blocks, and what is said of all of them.
func (r *request) located(say func(*request, *meta.LocatedBlock) list) (*meta.Located, iter.Seq2[any, error], error) {
	offset, length := r.part()
	part := meta.Part{Path: r.path, Offset: offset, Length: length, Most: blocksAtOnce}
	next := func() (l *meta.Located, err error) {
		err = r.ask(func(q meta.Query) (err error) { l, err = part.Next(q); return err })
		return l, err
	}
	first, err := next()
	if err != nil {
		return nil, nil, err
	}
	return first, paged(first.Blocks, func() ([]meta.LocatedBlock, error) {
		if part.Over {
			return nil, nil
		}
		l, err := next()
		if err != nil {
			return nil, err
		}
		return l.Blocks, nil
	}, func(b *meta.LocatedBlock) list { return say(r, b) }), nil
}

// location is a block of a file as FileSystem has it.
func (r *request) location(b *meta.LocatedBlock) list {
	hosts, names, types, paths, cached := []string{}, []string{}, []string{}, []string{}, []string{}
	for _, m := range r.at(b) {
		if r.Node.Keeper.InMemory(m.Name, b.ID) {
			cached = append(cached, r.Node.HostName(m))
		}
		hosts, names, types = append(hosts, r.Node.HostName(m)), append(names, m.DataAddress()), append(types, "DISK")
		paths = append(paths, dfs.Location(m)+"/"+m.DataAddress())
	}
	return list{"cachedHosts": cached, "corrupt": false, "hosts": hosts, "length": b.Size, "names": names, "offset": b.Offset, "storageTypes": types, "topologyPaths": paths}
}

func (r *request) part() (offset, length int64) {
	return r.number("offset", 10, 0, math.MaxInt64, 0), r.number("length", 10, 0, math.MaxInt64, math.MaxInt64)
}

// at are the nodes that have a block, the nearest to the client first.
func (r *request) at(b *meta.LocatedBlock) []dfs.Member {
	all := r.Node.Places().Readers(*b, r.machine())
	for i := range all {
		if all[i].Name == r.Node.Identity.Node { // clients are told what they reach it by
			all[i].Host, all[i].Data, all[i].RPC = r.Host, uint16(r.DataPort), uint16(r.RPCPort)
		}
	}
	return all
}

// noToken is an empty token: bytes are read over HTTP.
const noToken = "AAAAAA"

func (r *request) block(b *meta.LocatedBlock) list {
	at, cached := []list{}, []list{}
	for _, m := range r.at(b) {
		at = append(at, list{"adminState": "NORMAL", "blockPoolUsed": 0, "cacheCapacity": 0, "cacheUsed": 0, "capacity": 0, "dfsUsed": 0, "hostName": r.Node.HostName(m),
			"infoPort": 0, "infoSecurePort": 0, "ipAddr": m.Host, "ipcPort": m.RPC, "lastUpdate": 0, "lastUpdateMonotonic": 0, "name": m.DataAddress(),
			"networkLocation": dfs.Location(m), "remaining": 0, "storageID": m.Name, "xceiverCount": 0, "xferPort": m.Data})
		if r.Node.Keeper.InMemory(m.Name, b.ID) {
			cached = append(cached, at[len(at)-1])
		}
	}
	types := make([]string, len(at))
	for i := range types {
		types[i] = "DISK"
	}
	return list{"block": list{"blockId": b.ID, "blockPoolId": r.Node.Identity.Pool, "generationStamp": b.Stamp, "numBytes": b.Size},
		"blockToken": list{"urlString": noToken}, "cachedLocations": cached, "isCorrupt": false, "locations": at, "startOffset": b.Offset,
		"storageTypes": types}
}

func (r *request) fileStatus() (any, error) {
	s, err := r.stat("File does not exist: " + r.path)
	if err != nil {
		return nil, err
	}
	return list{"FileStatus": statusOf(s)}, nil
}
