package gateway

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/meta"
)

// look are the methods that read the name space.
var look = table{
	"getFileInfo": on(func(c *call, q *pb.GetFileInfoRequestProto) (*pb.GetFileInfoResponseProto, error) {
		s, err := c.stat(q.GetSrc())
		return &pb.GetFileInfoResponseProto{Fs: s}, err
	}),
	"getFileLinkInfo": on(func(c *call, q *pb.GetFileLinkInfoRequestProto) (*pb.GetFileLinkInfoResponseProto, error) {
		s, err := c.stat(q.GetSrc())
		return &pb.GetFileLinkInfoResponseProto{Fs: s}, err
	}),
	"getLocatedFileInfo": on(func(c *call, q *pb.GetLocatedFileInfoRequestProto) (*pb.GetLocatedFileInfoResponseProto, error) {
		r, mayRead := &pb.GetLocatedFileInfoResponseProto{}, false
		s, err := located(c, func(m meta.Query) (*meta.Status, *meta.Located, error) {
			s, err := m.Stat(q.GetSrc(), true)
			if s == nil || s.Located == nil {
				return s, nil, err
			}
			if q.GetNeedBlockToken() {
				_, denied := m.Blocks(q.GetSrc(), 0, 0)
				mayRead = denied == nil
			}
			return s, s.Located, err
		})
		if s == nil || err != nil {
			return r, err
		}
		if r.Fs = c.status(s); mayRead {
			r.Fs.Locations = c.locatedBlocks(s.Located, true)
		}
		return r, nil
	}),
	"getListing": on(func(c *call, q *pb.GetListingRequestProto) (*pb.GetListingResponseProto, error) {
		r := &pb.GetListingResponseProto{}
		l, err := c.list(q.GetSrc(), string(q.GetStartAfter()), q.GetNeedLocation())
		if l != nil {
			r.DirList = l
		}
		return r, err
	}),
	"getBatchedListing": on((*call).batchedListing),
	"getBlockLocations": on(func(c *call, q *pb.GetBlockLocationsRequestProto) (*pb.GetBlockLocationsResponseProto, error) {
		l, err := located(c, func(m meta.Query) (*meta.Located, *meta.Located, error) {
			l, err := m.Blocks(q.GetSrc(), int64(q.GetOffset()), int64(q.GetLength()))
			return l, l, err
		})
		if err != nil {
			return nil, err
		}
		return &pb.GetBlockLocationsResponseProto{Locations: c.locatedBlocks(l, true)}, nil
	}),
	"isFileClosed": on(func(c *call, q *pb.IsFileClosedRequestProto) (*pb.IsFileClosedResponseProto, error) {
		var closed bool
		err := c.ask(func(m meta.Query) (err error) { closed, err = m.Closed(q.GetSrc()); return err })
		return &pb.IsFileClosedResponseProto{Result: &closed}, err
	}),
	"getPreferredBlockSize": on(func(c *call, q *pb.GetPreferredBlockSizeRequestProto) (*pb.GetPreferredBlockSizeResponseProto, error) {
		var n int64
		err := c.ask(func(m meta.Query) (err error) { n, err = m.BlockSize(q.GetFilename()); return err })
		return &pb.GetPreferredBlockSizeResponseProto{Bsize: proto.Uint64(uint64(n))}, err
	}),
	"getContentSummary": on(func(c *call, q *pb.GetContentSummaryRequestProto) (*pb.GetContentSummaryResponseProto, error) {
		var s *meta.Summary
		if err := c.walk(func(m meta.Query) (err error) { s, err = m.Summary(q.GetPath()); return err }); err != nil {
			return nil, err
		}
		return &pb.GetContentSummaryResponseProto{Summary: &pb.ContentSummaryProto{
			Length: u64(s.Size), FileCount: u64(s.Files), DirectoryCount: u64(s.Directories), SpaceConsumed: u64(s.Space),
			Quota: u64(s.NameQuota), SpaceQuota: u64(s.SpaceQuota), SnapshotLength: u64(0), SnapshotFileCount: u64(0), SnapshotDirectoryCount: u64(0),
			SnapshotSpaceConsumed: u64(0), ErasureCodingPolicy: proto.String(s.Coding())}}, nil
	}),
	"getQuotaUsage": on(func(c *call, q *pb.GetQuotaUsageRequestProto) (*pb.GetQuotaUsageResponseProto, error) {
		var s *meta.Summary
		if err := c.walk(func(m meta.Query) (err error) { s, err = m.QuotaUsage(q.GetPath()); return err }); err != nil {
			return nil, err
		}
		return &pb.GetQuotaUsageResponseProto{Usage: &pb.QuotaUsageProto{FileAndDirectoryCount: u64(s.Files + s.Directories), Quota: u64(s.NameQuota),
			SpaceConsumed: u64(s.Space), SpaceQuota: u64(s.SpaceQuota)}}, nil
	}),
	"checkAccess": on(func(c *call, q *pb.CheckAccessRequestProto) (*pb.CheckAccessResponseProto, error) {
		return &pb.CheckAccessResponseProto{}, c.ask(func(m meta.Query) error { return m.Check(q.GetPath(), meta.Access(q.GetMode())) })
	}),
	"getEnclosingRoot": on(func(c *call, q *pb.GetEnclosingRootRequestProto) (*pb.GetEnclosingRootResponseProto, error) {
		var root string
		err := c.ask(func(m meta.Query) (err error) { root, err = m.EnclosingRoot(q.GetFilename()); return err })
		return &pb.GetEnclosingRootResponseProto{EnclosingRootPath: &root}, err
	}),
	"getLinkTarget": on(func(c *call, q *pb.GetLinkTargetRequestProto) (*pb.GetLinkTargetResponseProto, error) {
		if err := c.exists(q.GetPath()); err != nil {
			return nil, err
		}
		return nil, ipc.Throw(ipc.ClassIO, "Path %s is not a symbolic link", q.GetPath())
	}),
}

func u64(n int64) *uint64 { return proto.Uint64(uint64(n)) }

func (c *call) stat(path string) (p *pb.HdfsFileStatusProto, err error) {
	err = c.ask(func(q meta.Query) error {
		s, err := q.Stat(path, false)
		if s != nil {
			p = c.status(s)
		}
		return err
	})
	return p, err
}

// exists refuses a path at which there is nothing.
func (c *call) exists(path string) error {
	s, err := c.stat(path)
	if err == nil && s == nil {
		return ipc.Throw("java.io.FileNotFoundException", "File does not exist: %s", path)
	}
	return err
}

func (c *call) list(path, startAfter string, locate bool) (*pb.DirectoryListingProto, error) {
	l, err := located(c, func(q meta.Query) (*meta.Listing, *meta.Located, error) {
		l, err := q.List(path, startAfter, locate)
		if l == nil {
			return nil, nil, err
		}
		var most *meta.Located
		for i := range l.Entries {
			if at := l.Entries[i].Located; at != nil && (most == nil || len(at.Blocks) > len(most.Blocks)) {
				most = at
			}
		}
		return l, most, err
	})
	if l == nil || err != nil {
		return nil, err
	}
	p := &pb.DirectoryListingProto{RemainingEntries: proto.Uint32(uint32(l.Left))}
	for i := range l.Entries {
		p.PartialListing = append(p.PartialListing, c.status(&l.Entries[i]))
	}
	return p, nil
}

const (
	mostBatched = 100  // directories of one call (dfs.namenode.batched.listing.limit)
	mostListed  = 1000 // entries and blocks of one answer (dfs.ls.limit)
)

// batchedListing lists several directories, as much of them as one answer takes. Where it goes on is
// the number of a directory and a name in it, which the client gives back.
func (c *call) batchedListing(q *pb.GetBatchedListingRequestProto) (*pb.GetBatchedListingResponseProto, error) {
	if len(q.Paths) > mostBatched {
		return nil, ipc.Throw("java.lang.IllegalArgumentException", "Too many source paths (%d > %d)", len(q.Paths), mostBatched)
	}
	at, after := 0, ""
	if k := q.GetStartAfter(); len(k) >= 4 {
		at, after = int(binary.BigEndian.Uint32(k)), string(k[4:])
	}
	r := &pb.GetBatchedListingResponseProto{HasMore: proto.Bool(false), StartAfter: []byte{}}
	for listed := 0; at < len(q.Paths); at, after = at+1, "" {
		if listed >= mostListed {
			r.HasMore, r.StartAfter = proto.Bool(true), append(binary.BigEndian.AppendUint32(nil, uint32(at)), after...)
			return r, nil
		}
		d := &pb.BatchedDirectoryListingProto{ParentIdx: proto.Uint32(uint32(at))}
		r.Listings = append(r.Listings, d)
		l, err := c.list(q.Paths[at], after, q.GetNeedLocation())
		if err == nil && l == nil {
			err = ipc.Throw("java.io.FileNotFoundException", "File %s does not exist.", q.Paths[at])
		}
		if err != nil {
			d.Exception = remoteException(err)
			continue
		}
		d.PartialListing = l.PartialListing
		for _, e := range l.PartialListing {
			listed += max(1, len(e.GetLocations().GetBlocks()))
		}
		if l.GetRemainingEntries() > 0 { // the page is full, so the answer is
			last := l.PartialListing[len(l.PartialListing)-1]
			r.HasMore, r.StartAfter = proto.Bool(true), fmt.Appendf(binary.BigEndian.AppendUint32(nil, uint32(at)), "%s", last.Path)
			return r, nil
		}
	}
	return r, nil
}

func remoteException(err error) *pb.RemoteExceptionProto {
	if e, ok := thrown(err).(*ipc.Exception); ok {
		return &pb.RemoteExceptionProto{ClassName: &e.Class, Message: &e.Message}
	}
	return &pb.RemoteExceptionProto{ClassName: proto.String(ipc.ClassIO), Message: proto.String(err.Error())}
}
