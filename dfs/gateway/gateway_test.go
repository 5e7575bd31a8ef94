package gateway

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/internal/testkit"
)

func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{2}).Read(b)
	return b
}

// TestWriteAndRead: what was written by blocks is read, whole and in parts, and appended to, also after the node was
// opened again.
func TestWriteAndRead(t *testing.T) {
	s := serve(t, t.TempDir())
	c := s.as("root")
	data := random(5000)
	c.write("/d/f", data[:4700])
	if got := c.read("/d/f"); !bytes.Equal(got, data[:4700]) {
		t.Errorf("%d bytes", len(got))
	}
	for _, at := range []struct{ offset, n int64 }{{0, 1}, {511, 2}, {600, 4}, {2047, 1}, {512, 1024}, {100, 0}} {
		b := c.locations("/d/f").Blocks[0]
		if got, err := c.readBlock(b, at.offset, at.n); err != nil || !bytes.Equal(got, data[at.offset:at.offset+at.n]) {
			t.Errorf("%+v: %d bytes, %v", at, len(got), err)
		}
	}

	path := "/d/f"
	a := ask[pb.AppendResponseProto](c, "append", &pb.AppendRequestProto{Src: &path, ClientName: &c.name})
	stamped := ask[pb.UpdateBlockForPipelineResponseProto](c, "updateBlockForPipeline", &pb.UpdateBlockForPipelineRequestProto{Block: a.Block.B, ClientName: &c.name}).Block
	p, err := c.begin(a.Block, func(q *pb.OpWriteBlockProto) {
		q.Stage, q.LatestGenerationStamp = pb.OpWriteBlockProto_PIPELINE_SETUP_APPEND.Enum(), stamped.B.GenerationStamp
		q.Header.BaseHeader.Token = stamped.BlockToken
	})
	if err != nil {
		t.Fatal(err)
	}
	ask[pb.UpdatePipelineResponseProto](c, "updatePipeline", &pb.UpdatePipelineRequestProto{ClientName: &c.name, OldBlock: a.Block.B, NewBlock: stamped.B,
		NewNodes: []*pb.DatanodeIDProto{a.Block.Locs[0].Id}})
	from := int64(a.Block.B.GetNumBytes())
	c.send(p, from, data[4700:])
	stamped.B.NumBytes = proto.Uint64(uint64(from + 300))
	c.complete(path, a.Stat.GetFileId(), stamped.B)
	if got := c.read(path); !bytes.Equal(got, data) {
		t.Errorf("after an append %d bytes", len(got))
	}
}

// TestWriterIsRead: a reader that has opened a replica reads what it was then, though it grows.
func TestWriterIsRead(t *testing.T) {
	s := serve(t, t.TempDir())
	c := s.as("root")
	data := random(2000)
	b := c.addBlock("/f", c.create("/f"), nil)
	p, err := c.begin(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	send := func(from, to int64) {
		t.Helper()
		if _, err := p.Send(from, data[from:to], true); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	send(0, 700)
	r, err := s.g.data.Store.Open(context.Background(), extended(b.B))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	send(512, 1300) // the client sends a chunk again that it had not filled
	var got, sums []byte
	for len(got) < 700 {
		d, s, err := r.Read(context.Background(), int64(len(got)), 700-len(got))
		if err != nil {
			t.Fatal(err)
		}
		got, sums = append(got, d...), append(sums, s...)
	}
	if r.Length() != 700 || !bytes.Equal(got, data[:700]) || !bytes.Equal(sums, appendSums(data[:700])) || r.Final() {
		t.Errorf("%d bytes and %d of checksums of %d", len(got), len(sums), r.Length())
	}
	visible := s.dial("root", ipc.Options{Protocol: dataNodeProtocol, User: ipc.User{Name: "blk"}})
	if n := ask[pb.GetReplicaVisibleLengthResponseProto](visible, "getReplicaVisibleLength", &pb.GetReplicaVisibleLengthRequestProto{Block: b.B}).GetLength(); n != 1300 {
		t.Errorf("%d bytes are visible", n)
	}
}

// TestNodeOpenedAgain: tokens and answers outlive the process.
func TestNodeOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	var token *pb.LocatedBlockProto
	var id ipc.ClientID
	from, to := "/f", "/g"
	again := &pb.RenameRequestProto{Src: &from, Dst: &to}
	t.Run("before", func(t *testing.T) {
		c := serve(t, dir).as("root")
		id = c.ID()
		c.write("/f", []byte("kept"))
		token = c.locations("/f").Blocks[0]
		var r pb.RenameResponseProto
		if err := c.Retry(context.Background(), 4711, 0, "rename", again, &r); err != nil || !r.GetResult() {
			t.Fatal(err)
		}
	})
	s := serve(t, dir)
	c := s.dial("root", ipc.Options{Protocol: clientProtocol, User: ipc.User{Name: "root"}, ID: id})
	if got, err := c.readBlock(token, 0, 4); err != nil || string(got) != "kept" {
		t.Errorf("%q, %v", got, err)
	}
	var r pb.RenameResponseProto
	if err := c.Retry(context.Background(), 4711, 1, "rename", again, &r); err != nil || !r.GetResult() {
		t.Errorf("asked again, the answer is another: %v, %v", &r, err)
	}
	// The same number from somebody else is another call.
	other := s.dial("alice", ipc.Options{Protocol: clientProtocol, User: ipc.User{Name: "alice"}, ID: id})
	if err := other.Retry(context.Background(), 4711, 1, "rename", again, &r); err == nil && r.GetResult() {
		t.Error("somebody else got the answer")
	}
}

// TestEveryMethod: each method of the protocol is served or refused, by one table.
func TestEveryMethod(t *testing.T) {
	all := table{}
	for _, of := range []table{names, look, write, attributes, cache, admin, absent, refused} {
		for name := range of {
			if all[name] != nil {
				t.Errorf("%s is in two tables", name)
			}
		}
		maps.Copy(all, of)
	}
	methods := pb.File_ClientNamenodeProtocol_proto.Services().Get(0).Methods()
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		if all[name] == nil {
			t.Errorf("%s is in no table", name)
		}
		delete(all, name)
	}
	for name := range all {
		t.Errorf("there is no method %s", name)
	}
}

// TestRefused: what there is not is refused by HDFS's exceptions, and what is asked about it is answered.
func TestRefused(t *testing.T) {
	c := serve(t, t.TempDir()).as("root")
	root, nowhere, f := "/", "/nowhere", "/f"
	c.throws("SnapshotException", "createSnapshot", &pb.CreateSnapshotRequestProto{SnapshotRoot: &root})
	c.throws("UnsupportedActionException", "setQuota", &pb.SetQuotaRequestProto{Path: &root, NamespaceQuota: proto.Uint64(1), StoragespaceQuota: proto.Uint64(1), StorageType: pb.StorageTypeProto_SSD.Enum()})
	c.throws("FileNotFoundException", "getEZForPath", &pb.GetEZForPathRequestProto{Src: &nowhere})
	ha := c.s.dial("root", ipc.Options{Protocol: "org.apache.hadoop.ha.HAServiceProtocol", User: ipc.User{Name: "root"}})
	ha.throws("ServiceFailedException", "transitionToStandby", &pb.TransitionToStandbyRequestProto{ReqInfo: &pb.HAStateChangeRequestInfoProto{ReqSource: pb.HARequestSource_REQUEST_BY_USER.Enum()}})
	if a := ask[pb.GetServiceStatusResponseProto](ha, "getServiceStatus", &pb.GetServiceStatusRequestProto{}); a.GetState() != pb.HAServiceStateProto_ACTIVE {
		t.Errorf("%v", a)
	}
	ask[pb.GetEZForPathResponseProto](c, "getEZForPath", &pb.GetEZForPathRequestProto{Src: &root})
	replicated, coded := proto.String("replication"), proto.String("RS-6-3-1024k")
	ask[pb.SetErasureCodingPolicyResponseProto](c, "setErasureCodingPolicy", &pb.SetErasureCodingPolicyRequestProto{Src: &root, EcPolicyName: replicated})
	c.throws("FileNotFoundException", "setErasureCodingPolicy", &pb.SetErasureCodingPolicyRequestProto{Src: &nowhere, EcPolicyName: replicated})
	c.throws("HadoopIllegalArgumentException", "setErasureCodingPolicy", &pb.SetErasureCodingPolicyRequestProto{Src: &root, EcPolicyName: coded})
	c.s.as("alice").throws("AccessControlException", "setErasureCodingPolicy", &pb.SetErasureCodingPolicyRequestProto{Src: &root, EcPolicyName: replicated})
	hot, cold := proto.String("hot"), proto.String("COLD")
	ask[pb.SetStoragePolicyResponseProto](c, "setStoragePolicy", &pb.SetStoragePolicyRequestProto{Src: &root, PolicyName: hot})
	ask[pb.UnsetStoragePolicyResponseProto](c, "unsetStoragePolicy", &pb.UnsetStoragePolicyRequestProto{Src: &root})
	c.throws("UnsupportedOperationException", "setStoragePolicy", &pb.SetStoragePolicyRequestProto{Src: &root, PolicyName: cold})
	c.throws("FileNotFoundException", "setStoragePolicy", &pb.SetStoragePolicyRequestProto{Src: &nowhere, PolicyName: hot})
	c.s.as("alice").throws("AccessControlException", "unsetStoragePolicy", &pb.UnsetStoragePolicyRequestProto{Src: &root})
	create := c.createRequest(f)
	create.EcPolicyName = coded
	c.throws("HadoopIllegalArgumentException", "create", create)
	create.EcPolicyName, create.StoragePolicy = replicated, cold
	c.throws("UnsupportedOperationException", "create", create)
	c.write(f, []byte("a file"))
	c.throws("IOException", "setErasureCodingPolicy", &pb.SetErasureCodingPolicyRequestProto{Src: &f, EcPolicyName: replicated})
	if d := ask[pb.GetDelegationTokenResponseProto](c, "getDelegationToken", &pb.GetDelegationTokenRequestProto{Renewer: &f}); d.Token != nil {
		t.Errorf("a delegation token: %v", d)
	}
	for path, want := range map[string]string{f: "Replicated", root: ""} {
		if s := ask[pb.GetContentSummaryResponseProto](c, "getContentSummary", &pb.GetContentSummaryRequestProto{Path: &path}); s.Summary.GetErasureCodingPolicy() != want {
			t.Errorf("%s: erasure coding policy %q, want %q", path, s.Summary.GetErasureCodingPolicy(), want)
		}
	}
	if d := ask[pb.GetServerDefaultsResponseProto](c, "getServerDefaults", &pb.GetServerDefaultsRequestProto{}); d.ServerDefaults.GetPolicyId() != 7 {
		t.Errorf("storage policy %d is the default, want HOT", d.ServerDefaults.GetPolicyId())
	}
}

// TestGarbageGoes: a deleted file's replica is deleted.
func TestGarbageGoes(t *testing.T) {
	s := serve(t, t.TempDir())
	c := s.as("root")
	c.write("/d/f", []byte("gone soon"))
	id := int64(c.locations("/d/f").Blocks[0].B.GetBlockId())
	path := "/d"
	ask[pb.DeleteResponseProto](c, "delete", &pb.DeleteRequestProto{Src: &path, Recursive: proto.Bool(true)})
	testkit.Await(t, "the replica to be deleted", func() bool { _, err := s.node.Blocks.Stat(id); return err != nil })
}

// TestLargeDirectory: a directory of several pages is listed whole, alone and among others.
func TestLargeDirectory(t *testing.T) {
	s := serve(t, t.TempDir())
	c := s.as("root")
	const many = 2500
	c.mkdir("/large", 0o755)
	c.mkdir("/small/one", 0o755)
	var all sync.WaitGroup
	for part := range 50 { // at once: they share commits
		all.Go(func() {
			for i := part; i < many; i += 50 {
				c.mkdir(fmt.Sprintf("/large/%04d", i), 0o755)
			}
		})
	}
	all.Wait()
	path, n := "/large", 0
	for after := []byte{}; after != nil; {
		l := ask[pb.GetListingResponseProto](c, "getListing", &pb.GetListingRequestProto{Src: &path, StartAfter: after, NeedLocation: proto.Bool(true)}).DirList
		after = nil
		for _, e := range l.PartialListing {
			if string(e.Path) != fmt.Sprintf("%04d", n) {
				t.Fatalf("%s is where %d should be", e.Path, n)
			}
			n++
		}
		if l.GetRemainingEntries() > 0 {
			after = l.PartialListing[len(l.PartialListing)-1].Path
		}
	}
	if n != many {
		t.Errorf("%d entries", n)
	}
	listed := map[uint32]int{}
	for after, more := []byte{}, true; more; {
		r := ask[pb.GetBatchedListingResponseProto](c, "getBatchedListing", &pb.GetBatchedListingRequestProto{Paths: []string{"/small", "/large", "/nowhere", "/small"},
			StartAfter: after, NeedLocation: proto.Bool(false)})
		for _, l := range r.Listings {
			listed[l.GetParentIdx()] += len(l.PartialListing)
			if (l.Exception != nil) != (l.GetParentIdx() == 2) {
				t.Errorf("%v", l)
			}
		}
		after, more = r.StartAfter, r.GetHasMore()
	}
	if want := map[uint32]int{0: 1, 1: many, 2: 0, 3: 1}; !maps.Equal(listed, want) {
		t.Errorf("%v, want %v", listed, want)
	}
}

// TestAppendAfterConcat: a client appends to a file whose last block was that of a file with smaller ones.
func TestAppendAfterConcat(t *testing.T) {
	s := serve(t, t.TempDir())
	c := s.as("root")
	c.write("/f", pattern(0, 2048))
	q := c.createRequest("/small")
	q.BlockSize = proto.Uint64(1024)
	id := ask[pb.CreateResponseProto](c, "create", q).GetFs().GetFileId()
	more := func(path string, id uint64, data []byte) {
		t.Helper()
		b := c.addBlock(path, id, nil)
		p, err := c.begin(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.send(p, 0, data)
		b.B.NumBytes = proto.Uint64(uint64(len(data)))
		c.complete(path, id, b.B)
	}
	more("/small", id, pattern(2048, 3072))
	ask[pb.ConcatResponseProto](c, "concat", &pb.ConcatRequestProto{Trg: proto.String("/f"), Srcs: []string{"/small"}})
	a := ask[pb.AppendResponseProto](c, "append", &pb.AppendRequestProto{Src: proto.String("/f"), ClientName: &c.name})
	if a.Block != nil {
		t.Fatalf("%v is to take more than it can", a.Block)
	}
	more("/f", a.GetStat().GetFileId(), pattern(3072, 5000))
	if got := c.read("/f"); string(got) != string(pattern(0, 5000)) {
		t.Errorf("%d bytes, or others", len(got))
	}
}

// TestCountsGoOn: who asks for what takes a look at all blocks does not wait for one that takes long, and is told what is known.
func TestCountsGoOn(t *testing.T) {
	s := serve(t, t.TempDir())
	h := &s.g.health
	h.counts, h.running, h.began = counts{missing: 3, known: true}, make(chan struct{}), time.Now().Add(-time.Hour)
	r := ask[pb.GetFsStatsResponseProto](s.as("root"), "getFsStats", &pb.GetFsStatusRequestProto{})
	if r.GetMissingBlocks() != 3 || r.GetCapacity() == 0 {
		t.Errorf("%v", r)
	}
	h.running = nil
	if c, err := h.of(s.node, healthTime); err != nil || c.missing != 0 || !c.known {
		t.Errorf("%+v, %v", c, err)
	}
	h.began, h.took = time.Time{}, time.Hour
	if h.count(s.node, 0) != nil {
		t.Error("what takes an hour is counted all the time")
	}
}
