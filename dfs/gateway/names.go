package gateway

import (
	"headrace/hdfs/pb"
	"headrace/meta"
)

// names are the methods that change what there is under which name.
var names = table{
	"mkdirs": on(func(c *call, q *pb.MkdirsRequestProto) (*pb.MkdirsResponseProto, error) {
		ok, err := c.flag(&meta.Mkdirs{Path: q.GetSrc(), Mode: modeOf(q.GetMasked()), Asked: askedOf(q.Unmasked), Parents: q.GetCreateParent()})
		return &pb.MkdirsResponseProto{Result: ok}, err
	}),
	"delete": on(func(c *call, q *pb.DeleteRequestProto) (*pb.DeleteResponseProto, error) {
		ok, err := c.flag(&meta.Delete{Path: q.GetSrc(), Recursive: q.GetRecursive()})
		c.node.Wake()
		return &pb.DeleteResponseProto{Result: ok}, err
	}),
	"rename": on(func(c *call, q *pb.RenameRequestProto) (*pb.RenameResponseProto, error) {
		ok, err := c.flag(&meta.Rename{From: q.GetSrc(), To: q.GetDst(), Old: true})
		return &pb.RenameResponseProto{Result: ok}, err
	}),
	"rename2": on(func(c *call, q *pb.Rename2RequestProto) (*pb.Rename2ResponseProto, error) {
		return &pb.Rename2ResponseProto{}, c.did(&meta.Rename{From: q.GetSrc(), To: q.GetDst(), Overwrite: q.GetOverwriteDest(), Trash: q.GetMoveToTrash()})
	}),
	"concat": on(func(c *call, q *pb.ConcatRequestProto) (*pb.ConcatResponseProto, error) {
		return &pb.ConcatResponseProto{}, c.did(&meta.Concat{Target: q.GetTrg(), Sources: q.GetSrcs()})
	}),
}

func modeOf(m *pb.FsPermissionProto) uint16 { return uint16(m.GetPerm()) }

// askedOf is the mode without the client's umask, from clients that say it.
func askedOf(m *pb.FsPermissionProto) *uint16 {
	if m == nil {
		return nil
	}
	mode := modeOf(m)
	return &mode
}
