package web

import (
	"encoding/json"
	"math"
	"net/http"

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
		return list{"DirectoryListing": list{"partialListing": list{"FileStatuses": list{"FileStatus": statusesOf(l)}}, "remainingEntries": l.Left}}, nil
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
		l, err := r.located()
		if err != nil {
			return nil, err
		}
		return r.large(l, func() any {
			return list{"BlockLocations": list{"BlockLocation": r.locations(l)}}
		})
	},
	"GET GET_BLOCK_LOCATIONS": func(r *request) (any, error) {
		l, err := r.located()
		if err != nil {
			return nil, err
		}
		return r.large(l, func() any {
			blocks := []list{}
			for i := range l.Blocks {
				blocks = append(blocks, r.block(&l.Blocks[i]))
			}
			all := list{"fileLength": l.Size, "isLastBlockComplete": l.LastComplete, "isUnderConstruction": l.Open, "locatedBlocks": blocks, "lastLocatedBlock": nil}
			if l.Last != nil {
				all["lastLocatedBlock"] = r.block(l.Last)
			}
			return list{"LocatedBlocks": all}
		})
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
	r.w.Header().Set("Content-Type", "application/json")
	r.w.Header().Set("Cache-Control", "no-store")
	r.w.Write([]byte(`{"FileStatuses":{"FileStatus":[`))
	for between := ""; ; {
		for _, s := range statusesOf(l) {
			b, err := json.Marshal(s)
			if err == nil {
				_, err = r.w.Write(append([]byte(between), b...))
			}
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			between = ","
		}
		if l.Left == 0 || len(l.Entries) == 0 {
			break
		}
		patience(r.w, r.BodyTime)
		if l, err = r.page(l.Entries[len(l.Entries)-1].Name); err != nil {
			panic(http.ErrAbortHandler) // the client is to see that something is missing
		}
	}
	r.w.Write([]byte("]}}"))
	return served, nil
}

func (r *request) xattrs(names []string) (all []meta.XAttr, err error) {
	var named []meta.XAttr
	for _, n := range names {
		named = append(named, r.xattr(n))
	}
	err = r.ask(func(q meta.Query) (err error) { all, err = q.XAttrs(r.path, named); return err })
	return all, err
}

// located returns the blocks of a part of a file.
func (r *request) located() (l *meta.Located, err error) {
	offset, length := r.part()
	err = r.ask(func(q meta.Query) (err error) { l, err = q.Blocks(r.path, offset, length); return err })
	return l, err
}

// locations are the blocks of a file as FileSystem has them.
func (r *request) locations(l *meta.Located) []list {
	blocks := []list{}
	for i := range l.Blocks {
		hosts, names, types, paths, cached := []string{}, []string{}, []string{}, []string{}, []string{}
		for _, m := range r.at(&l.Blocks[i]) {
			if r.Node.Keeper.InMemory(m.Name, l.Blocks[i].ID) {
				cached = append(cached, r.Node.HostName(m))
			}
			hosts, names, types = append(hosts, r.Node.HostName(m)), append(names, m.DataAddress()), append(types, "DISK")
			paths = append(paths, dfs.Location(m)+"/"+m.DataAddress())
		}
		blocks = append(blocks, list{"cachedHosts": cached, "corrupt": false, "hosts": hosts, "length": l.Blocks[i].Size, "names": names,
			"offset": l.Blocks[i].Offset, "storageTypes": types, "topologyPaths": paths})
	}
	return blocks
}

const largeAtOnce = 2 // answers that are dfs.Large

// large puts an answer about blocks together and encodes it, few at a time if it is long.
func (r *request) large(l *meta.Located, answer func() any) (any, error) {
	large, err := dfs.Large(l)
	if err != nil {
		return nil, err
	}
	if large {
		select {
		case r.building <- struct{}{}:
			defer func() { <-r.building }()
		case <-r.r.Context().Done():
			return nil, r.r.Context().Err()
		}
	}
	b, err := json.Marshal(answer())
	return json.RawMessage(b), err
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
