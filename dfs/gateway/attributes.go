package gateway

import (
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/meta"
)

// attributes are the methods about modes, owners, times, copies, ACLs and extended attributes.
var attributes = table{
	"setPermission": on(func(c *call, q *pb.SetPermissionRequestProto) (*pb.SetPermissionResponseProto, error) {
		return &pb.SetPermissionResponseProto{}, c.did(&meta.SetPermission{Path: q.GetSrc(), Mode: modeOf(q.GetPermission())})
	}),
	"setOwner": on(func(c *call, q *pb.SetOwnerRequestProto) (*pb.SetOwnerResponseProto, error) {
		return &pb.SetOwnerResponseProto{}, c.did(&meta.SetOwner{Path: q.GetSrc(), Owner: q.GetUsername(), Group: q.GetGroupname()})
	}),
	"setTimes": on(func(c *call, q *pb.SetTimesRequestProto) (*pb.SetTimesResponseProto, error) {
		return &pb.SetTimesResponseProto{}, c.did(&meta.SetTimes{Path: q.GetSrc(), Modified: int64(q.GetMtime()), Accessed: int64(q.GetAtime())})
	}),
	"setReplication": on(func(c *call, q *pb.SetReplicationRequestProto) (*pb.SetReplicationResponseProto, error) {
		ok, err := c.flag(&meta.SetReplication{Path: q.GetSrc(), Copies: copiesOf(q.GetReplication())})
		return &pb.SetReplicationResponseProto{Result: ok}, err
	}),
	"setQuota": on(func(c *call, q *pb.SetQuotaRequestProto) (*pb.SetQuotaResponseProto, error) {
		if q.StorageType != nil {
			return nil, ipc.Throw("org.apache.hadoop.hdfs.server.namenode.UnsupportedActionException", "there are no quotas by storage type here")
		}
		return &pb.SetQuotaResponseProto{}, c.did(&meta.SetQuota{Path: q.GetPath(), Names: int64(q.GetNamespaceQuota()), Space: int64(q.GetStoragespaceQuota())})
	}),
	"modifyAclEntries": on(func(c *call, q *pb.ModifyAclEntriesRequestProto) (*pb.ModifyAclEntriesResponseProto, error) {
		return &pb.ModifyAclEntriesResponseProto{}, c.changeACL(q.GetSrc(), meta.ModifyACL, q.AclSpec)
	}),
	"removeAclEntries": on(func(c *call, q *pb.RemoveAclEntriesRequestProto) (*pb.RemoveAclEntriesResponseProto, error) {
		return &pb.RemoveAclEntriesResponseProto{}, c.changeACL(q.GetSrc(), meta.RemoveACLEntries, q.AclSpec)
	}),
	"removeDefaultAcl": on(func(c *call, q *pb.RemoveDefaultAclRequestProto) (*pb.RemoveDefaultAclResponseProto, error) {
		return &pb.RemoveDefaultAclResponseProto{}, c.changeACL(q.GetSrc(), meta.RemoveDefaultACL, nil)
	}),
	"removeAcl": on(func(c *call, q *pb.RemoveAclRequestProto) (*pb.RemoveAclResponseProto, error) {
		return &pb.RemoveAclResponseProto{}, c.changeACL(q.GetSrc(), meta.RemoveACL, nil)
	}),
	"setAcl": on(func(c *call, q *pb.SetAclRequestProto) (*pb.SetAclResponseProto, error) {
		return &pb.SetAclResponseProto{}, c.changeACL(q.GetSrc(), meta.SetACL, q.AclSpec)
	}),
	"getAclStatus": on(func(c *call, q *pb.GetAclStatusRequestProto) (*pb.GetAclStatusResponseProto, error) {
		var a *meta.ACLStatus
		if err := c.ask(func(m meta.Query) (err error) { a, err = m.ACL(q.GetSrc()); return err }); err != nil {
			return nil, err
		}
		return &pb.GetAclStatusResponseProto{Result: &pb.AclStatusProto{Owner: &a.Owner, Group: &a.Group, Sticky: &a.Sticky, Entries: aclProto(a.Entries),
			Permission: permission(a.Mode)}}, nil
	}),
	"setXAttr": on(func(c *call, q *pb.SetXAttrRequestProto) (*pb.SetXAttrResponseProto, error) {
		return &pb.SetXAttrResponseProto{}, c.did(&meta.SetXAttr{Path: q.GetSrc(), XAttr: xattrOf(q.GetXAttr()), Flags: uint8(q.GetFlag())})
	}),
	"removeXAttr": on(func(c *call, q *pb.RemoveXAttrRequestProto) (*pb.RemoveXAttrResponseProto, error) {
		return &pb.RemoveXAttrResponseProto{}, c.did(&meta.RemoveXAttr{Path: q.GetSrc(), XAttr: xattrOf(q.GetXAttr())})
	}),
	"getXAttrs": on(func(c *call, q *pb.GetXAttrsRequestProto) (*pb.GetXAttrsResponseProto, error) {
		var named []meta.XAttr
		for _, x := range q.XAttrs {
			named = append(named, xattrOf(x))
		}
		all, err := c.xattrs(q.GetSrc(), named)
		return &pb.GetXAttrsResponseProto{XAttrs: all}, err
	}),
	"listXAttrs": on(func(c *call, q *pb.ListXAttrsRequestProto) (*pb.ListXAttrsResponseProto, error) {
		all, err := c.xattrs(q.GetSrc(), nil)
		for _, x := range all {
			x.Value = nil
		}
		return &pb.ListXAttrsResponseProto{XAttrs: all}, err
	}),
}

// copiesOf is a number of copies; one that is too large for meta is too large for HDFS, too.
func copiesOf(n uint32) uint16 { return uint16(min(n, 1<<16-1)) }

func (c *call) changeACL(path string, how meta.ACLChange, spec []*pb.AclEntryProto) error {
	o := &meta.ChangeACL{Path: path, How: how}
	for _, e := range spec {
		o.Entries = append(o.Entries, meta.ACLEntry{Default: e.GetScope() == pb.AclEntryProto_DEFAULT, Type: meta.ACLType(e.GetType()), Name: e.GetName(),
			Access: meta.Access(e.GetPermissions())})
	}
	return c.did(o)
}

func aclProto(entries []meta.ACLEntry) (all []*pb.AclEntryProto) {
	for _, e := range entries {
		scope := pb.AclEntryProto_ACCESS
		if e.Default {
			scope = pb.AclEntryProto_DEFAULT
		}
		p := &pb.AclEntryProto{Type: pb.AclEntryProto_AclEntryTypeProto(e.Type).Enum(), Scope: &scope, Permissions: pb.AclEntryProto_FsActionProto(e.Access).Enum()}
		if e.Name != "" {
			p.Name = &e.Name
		}
		all = append(all, p)
	}
	return all
}

func xattrOf(x *pb.XAttrProto) meta.XAttr {
	return meta.XAttr{Space: meta.Namespace(x.GetNamespace()), Name: x.GetName(), Value: x.GetValue()}
}

func (c *call) xattrs(path string, named []meta.XAttr) (all []*pb.XAttrProto, err error) {
	err = c.ask(func(q meta.Query) error {
		found, err := q.XAttrs(path, named)
		for _, x := range found {
			all = append(all, &pb.XAttrProto{Namespace: pb.XAttrProto_XAttrNamespaceProto(x.Space).Enum(), Name: &x.Name, Value: x.Value})
		}
		return err
	})
	return all, err
}
