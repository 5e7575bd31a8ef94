package gateway

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/dfs"
	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
)

func appendSums(data []byte) []byte { return xfer.AppendSums(nil, data) }

// TestForgedTokens: a block is not read or written without a token of its own for that.
func TestForgedTokens(t *testing.T) {
	s := serve(t, t.TempDir())
	c := s.as("root")
	c.write("/f", []byte("of f"))
	c.write("/g", []byte("of g"))
	f, g := c.locations("/f").Blocks[0], c.locations("/g").Blocks[0]
	w := c.addBlock("/w", c.create("/w"), nil)
	forge := func(change func(*pb.BlockTokenSecretProto)) *pb.TokenProto {
		var id pb.BlockTokenSecretProto
		if err := proto.Unmarshal(g.BlockToken.Identifier, &id); err != nil {
			t.Fatal(err)
		}
		change(&id)
		b, err := proto.Marshal(&id)
		if err != nil {
			t.Fatal(err)
		}
		return &pb.TokenProto{Identifier: b, Password: g.BlockToken.Password, Kind: proto.String(""), Service: proto.String("")}
	}
	for name, token := range map[string]*pb.TokenProto{
		"none":             nil,
		"of another block": g.BlockToken,
		"to write":         w.BlockToken,
		"changed":          forge(func(id *pb.BlockTokenSecretProto) { id.BlockId = f.B.BlockId }),
		"longer":           forge(func(id *pb.BlockTokenSecretProto) { id.ExpiryDate = proto.Uint64(1 << 62) }),
		"signed by nobody": {Identifier: f.BlockToken.Identifier, Password: []byte{}, Kind: proto.String(""), Service: proto.String("")},
	} {
		b := proto.CloneOf(f)
		b.BlockToken = token
		if got, err := c.readBlock(b, 0, 4); status(err) != pb.Status_ERROR_ACCESS_TOKEN {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
	}
	elsewhere := proto.CloneOf(f)
	elsewhere.B.PoolId = proto.String("BP-another")
	if got, err := c.readBlock(elsewhere, 0, 4); status(err) != pb.Status_ERROR_ACCESS_TOKEN {
		t.Errorf("another pool: %q, %v", got, err)
	}
	toRead := proto.CloneOf(w)
	toRead.BlockToken = s.g.tokens.Issue(w.B.GetBlockId(), pb.AccessModeProto_READ, "")
	if _, err := c.begin(toRead, nil); status(err) != pb.Status_ERROR_ACCESS_TOKEN {
		t.Errorf("written with a token to read: %v", err)
	}
	if got, err := c.readBlock(f, 0, 4); err != nil || string(got) != "of f" {
		t.Errorf("with the right token: %q, %v", got, err)
	}
	s.passed.Add(int64(dfs.TokenTime + time.Second))
	if got, err := c.readBlock(f, 0, 4); status(err) != pb.Status_ERROR_ACCESS_TOKEN {
		t.Errorf("expired: %q, %v", got, err)
	}
}

// TestWhatMayBeWritten: a token to write is of use while the file is open, and under stamps that were given.
func TestWhatMayBeWritten(t *testing.T) {
	s := serve(t, t.TempDir())
	c := s.as("root")
	id := c.create("/f")
	b := c.addBlock("/f", id, nil)
	if _, err := c.begin(b, func(q *pb.OpWriteBlockProto) { q.Header.BaseHeader.Block.GenerationStamp = proto.Uint64(1 << 40) }); status(err) != pb.Status_ERROR {
		t.Errorf("under a stamp of its own: %v", err)
	}
	if _, err := c.begin(b, func(q *pb.OpWriteBlockProto) { q.Stage = pb.OpWriteBlockProto_TRANSFER_RBW.Enum() }); status(err) != pb.Status_ERROR_ACCESS_TOKEN {
		t.Errorf("as another node: %v", err)
	}
	p, err := c.begin(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.send(p, 0, []byte("written"))
	b.B.NumBytes = proto.Uint64(7)
	c.complete("/f", id, b.B)
	for _, stage := range []pb.OpWriteBlockProto_BlockConstructionStage{pb.OpWriteBlockProto_PIPELINE_SETUP_APPEND, pb.OpWriteBlockProto_PIPELINE_SETUP_STREAMING_RECOVERY,
		pb.OpWriteBlockProto_PIPELINE_CLOSE_RECOVERY, pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE} {
		if _, err := c.begin(b, func(q *pb.OpWriteBlockProto) { q.Stage = stage.Enum() }); status(err) != pb.Status_ERROR {
			t.Errorf("%v of a closed file: %v", stage, err)
		}
	}
	if got := c.read("/f"); string(got) != "written" {
		t.Errorf("%q", got)
	}
}

// TestTokensAreOfUsers: a token to write that somebody was given earlier is of no use while another user writes.
func TestTokensAreOfUsers(t *testing.T) {
	s := serve(t, t.TempDir())
	root, alice := s.as("root"), s.as("alice")
	root.mkdir("/tmp", 0o1777)
	b := alice.addBlock("/tmp/f", alice.create("/tmp/f"), nil)
	if user := dfs.TokenUser(b.BlockToken); user != "alice" {
		t.Errorf("alice's token is for %q", user)
	}
	own := b.BlockToken
	b.BlockToken = s.g.tokens.Issue(b.B.GetBlockId(), pb.AccessModeProto_WRITE, "bob")
	if _, err := alice.begin(b, nil); status(err) != pb.Status_ERROR_ACCESS_TOKEN {
		t.Errorf("with a token of bob's: %v", err)
	}
	b.BlockToken = own
	if _, err := alice.begin(b, nil); err != nil {
		t.Errorf("with her own: %v", err)
	}
	w := root.addBlock("/w", root.create("/w"), nil)
	if user := dfs.TokenUser(w.BlockToken); user != "" {
		t.Errorf("who may do all has a token for %q only", user)
	}
}

// TestOthersFiles: who has no right to a file gets no blocks of it, and cannot take it.
func TestOthersFiles(t *testing.T) {
	s := serve(t, t.TempDir())
	root, alice, bob := s.as("root"), s.as("alice"), s.as("bob")
	root.mkdir("/tmp", 0o1777)
	alice.write("/tmp/f", []byte("hers")) // 0640
	f, g, who := "/tmp/f", "/tmp/g", "bob"
	bob.throws("AccessControlException", "getBlockLocations", bob.locationsRequest(f))
	bob.throws("AccessControlException", "delete", &pb.DeleteRequestProto{Src: &f, Recursive: proto.Bool(false)})
	bob.throws("AccessControlException", "rename2", &pb.Rename2RequestProto{Src: &f, Dst: &g, OverwriteDest: proto.Bool(false)})
	bob.throws("AccessControlException", "setPermission", &pb.SetPermissionRequestProto{Src: &f, Permission: permission(0o777)})
	bob.throws("AccessControlException", "append", &pb.AppendRequestProto{Src: &f, ClientName: &bob.name})
	bob.throws("AccessControlException", "recoverLease", func() *pb.RecoverLeaseRequestProto {
		alice.create("/tmp/open")
		open := "/tmp/open"
		return &pb.RecoverLeaseRequestProto{Src: &open, ClientName: &bob.name}
	}())
	id := alice.create("/tmp/hers")
	bob.throws("LeaseExpiredException", "complete", &pb.CompleteRequestProto{Src: &f, ClientName: &alice.name, FileId: &id})
	alice.throws("AccessControlException", "setOwner", &pb.SetOwnerRequestProto{Src: &f, Username: &who})
	for _, c := range []*client{alice, bob} {
		c.throws("AccessControlException", "listCorruptFileBlocks", &pb.ListCorruptFileBlocksRequestProto{Path: &f})
		c.throws("AccessControlException", "listOpenFiles", &pb.ListOpenFilesRequestProto{Id: proto.Int64(0)})
		c.throws("AccessControlException", "setSafeMode", &pb.SetSafeModeRequestProto{Action: pb.SafeModeActionProto_SAFEMODE_ENTER.Enum()})
	}
	// A listing with locations is for who may see that there is a file.
	dir := "/tmp"
	for _, e := range ask[pb.GetListingResponseProto](bob, "getListing", &pb.GetListingRequestProto{Src: &dir, StartAfter: []byte{}, NeedLocation: proto.Bool(true)}).DirList.PartialListing {
		for _, b := range e.Locations.GetBlocks() {
			if got, err := bob.readBlock(b, 0, 1); err == nil {
				t.Errorf("bob reads %q of %s by its listing", got, e.Path)
			}
		}
	}
	l := ask[pb.GetLocatedFileInfoResponseProto](bob, "getLocatedFileInfo", &pb.GetLocatedFileInfoRequestProto{Src: &f, NeedBlockToken: proto.Bool(true)})
	for _, b := range l.Fs.GetLocations().GetBlocks() {
		if got, err := bob.readBlock(b, 0, 1); err == nil {
			t.Errorf("bob reads %q by the status of the file", got)
		}
	}
	l = ask[pb.GetLocatedFileInfoResponseProto](alice, "getLocatedFileInfo", &pb.GetLocatedFileInfoRequestProto{Src: &f, NeedBlockToken: proto.Bool(true)})
	if got, err := alice.readBlock(l.Fs.Locations.Blocks[0], 0, 4); err != nil || string(got) != "hers" {
		t.Errorf("alice, by the status of the file: %q, %v", got, err)
	}
	if got := alice.read(f); string(got) != "hers" {
		t.Errorf("%q", got)
	}
}

// TestWritesAndMayNotRead: who may write a file, and not read it, is not told which bytes it has by sending some again.
func TestWritesAndMayNotRead(t *testing.T) {
	s := serve(t, t.TempDir())
	alice, bob := s.as("alice"), s.as("bob")
	s.as("root").mkdir("/drop", 0o777)
	path, secret := "/drop/log", random(1025) // two chunks, and a byte that could be guessed by its chunk's checksum
	alice.write(path, secret)
	ask[pb.SetPermissionResponseProto](alice, "setPermission", &pb.SetPermissionRequestProto{Src: &path, Permission: permission(0o622)})
	bob.throws("AccessControlException", "getBlockLocations", bob.locationsRequest(path))

	a := ask[pb.AppendResponseProto](bob, "append", &pb.AppendRequestProto{Src: &path, ClientName: &bob.name})
	stamped := ask[pb.UpdateBlockForPipelineResponseProto](bob, "updateBlockForPipeline", &pb.UpdateBlockForPipelineRequestProto{Block: a.Block.B, ClientName: &bob.name}).Block
	end, stage := uint64(len(secret)), pb.OpWriteBlockProto_PIPELINE_SETUP_APPEND
	open := func() *xfer.Pipeline {
		t.Helper()
		p, err := bob.begin(a.Block, func(q *pb.OpWriteBlockProto) {
			q.Stage, q.LatestGenerationStamp, q.MinBytesRcvd, q.MaxBytesRcvd = &stage, stamped.B.GenerationStamp, &end, proto.Uint64(1<<20)
			q.Header.BaseHeader.Token = stamped.BlockToken
		})
		if err != nil {
			t.Fatal(err)
		}
		stage = pb.OpWriteBlockProto_PIPELINE_SETUP_STREAMING_RECOVERY
		return p
	}
	sends := func(p *xfer.Pipeline, offset int, data []byte) error {
		if _, err := p.Send(int64(offset), data, false); err != nil {
			return err
		}
		_, err := p.Ack()
		return err
	}
	for _, offset := range []int{0, 3, 512, 1024} {
		for wrong := range byte(2) {
			if err := sends(open(), offset, []byte{secret[offset] ^ 1 ^ wrong}); err != nil {
				t.Errorf("the byte at %d, wrong by %d: %v", offset, 1^wrong, err)
			}
		}
	}
	// With bytes of his own behind it, which are compared when he sends them again, also after the pipeline broke.
	all := append(slices.Clone(secret), "and his own"...)
	for wrong := range byte(2) {
		guess := slices.Clone(all)
		guess[1024] ^= wrong
		if err := sends(open(), 1024, guess[1024:]); err != nil {
			t.Errorf("with more behind it, wrong by %d: %v", wrong, err)
		}
	}
	all[1030] ^= 1
	if err := sends(open(), 1024, all[1024:]); err == nil {
		t.Error("his own bytes were sent again as others, and taken")
	}
	all[1030] ^= 1
	b := stamped.B
	b.NumBytes = proto.Uint64(uint64(len(all)))
	ask[pb.UpdatePipelineResponseProto](bob, "updatePipeline", &pb.UpdatePipelineRequestProto{ClientName: &bob.name, OldBlock: a.Block.B, NewBlock: b,
		NewNodes: []*pb.DatanodeIDProto{a.Block.Locs[0].Id}})
	bob.send(open(), int64(len(all)), nil)
	bob.complete(path, a.Stat.GetFileId(), b)
	if got := alice.read(path); !bytes.Equal(got, all) {
		t.Errorf("%d bytes are there, or others than were written", len(got))
	}
}

// TestStrangePaths: a path that is none is refused by whatever is asked, and does no harm.
func TestStrangePaths(t *testing.T) {
	s := serve(t, t.TempDir())
	c := s.as("root")
	c.write("/d/f", []byte("kept"))
	for _, path := range []string{"", ".", "d", "..", "/..", "/d/..", "/d/../e", "/d/./e", "//d", "/a:b", "/d/f/g", "/" + strings.Repeat("n/", 1001), "/" + strings.Repeat("n", 256),
		"/" + strings.Repeat("n/", 8<<10), strings.Repeat("/", mostText+1), "/.reserved/.inodes/x", "/.reserved/.inodes/18446744073709551615", "/.reserved/raw/.reserved/raw"} {
		short := fmt.Sprintf("%.40q", path)
		for method, q := range map[string]proto.Message{
			"create": c.createRequest(path),
			"mkdirs": &pb.MkdirsRequestProto{Src: &path, Masked: permission(0o755), CreateParent: proto.Bool(false)},
			"append": &pb.AppendRequestProto{Src: &path, ClientName: &c.name},
			"concat": &pb.ConcatRequestProto{Trg: proto.String("/d/f"), Srcs: []string{path}},
		} {
			if err := c.Call(t.Context(), method, q, &pb.MsyncResponseProto{}); err == nil && !(method == "mkdirs" && path == "//d") {
				t.Errorf("%s %s succeeds", method, short)
			}
		}
		for method, q := range map[string]proto.Message{
			"getFileInfo": &pb.GetFileInfoRequestProto{Src: &path}, "getListing": &pb.GetListingRequestProto{Src: &path, StartAfter: []byte(path), NeedLocation: proto.Bool(true)},
			"getBlockLocations": &pb.GetBlockLocationsRequestProto{Src: &path, Offset: proto.Uint64(1 << 63), Length: proto.Uint64(1 << 63)},
			"setOwner":          &pb.SetOwnerRequestProto{Src: &path, Username: &path}, "getContentSummary": &pb.GetContentSummaryRequestProto{Path: &path},
			"rename": &pb.RenameRequestProto{Src: &path, Dst: &path}, "delete": &pb.DeleteRequestProto{Src: &path, Recursive: proto.Bool(true)},
		} {
			if path == "//d" && method != "getFileInfo" { // it is /d
				continue
			}
			if err := c.Call(t.Context(), method, q, &pb.MsyncResponseProto{}); err != nil && strings.Contains(err.Error(), "RuntimeException") {
				t.Errorf("%s %s: %v", method, short, err)
			}
		}
	}
	if got := c.read("/d/f"); string(got) != "kept" {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("c", mostHolder+1)
	q := c.createRequest("/e")
	q.ClientName = &long
	c.throws("IllegalArgumentException", "create", q)
}

// TestEnormousBlocks: a block size that no disk has is refused when the block is written, one that is beyond counting at once, and nobody else is hindered.
func TestEnormousBlocks(t *testing.T) {
	s := serve(t, t.TempDir())
	c := s.as("root")
	for i, size := range []uint64{1 << 40, 1<<40 + 1, 1 << 50, 1 << 62, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		path := fmt.Sprintf("/f%d", i)
		q := c.createRequest(path)
		q.BlockSize = &size
		var r pb.CreateResponseProto
		err := c.Call(t.Context(), "create", q, &r)
		if (err != nil) != (size > 1<<40) {
			t.Errorf("a block size of %d: %v", size, err)
		}
		if err != nil {
			continue
		}
		if p, err := c.begin(c.addBlock(path, r.Fs.GetFileId(), nil), nil); err == nil {
			if _, err = p.Send(0, []byte("x"), false); err == nil {
				_, err = p.Ack()
			}
			if err == nil {
				t.Errorf("a block of %d bytes is written", size)
			}
		}
	}
	c.write("/small", []byte("kept"))
	if got := c.read("/small"); string(got) != "kept" {
		t.Errorf("%q", got)
	}
}

// TestTokensOfOthers: who writes a file gets no token for a block of somebody else's, and has nothing copied to where no node is.
func TestTokensOfOthers(t *testing.T) {
	s := serve(t, t.TempDir())
	s.g.callers.Trust = true
	alice, bob := s.as("alice"), s.as("bob")
	root := s.as("root")
	for _, dir := range []string{"/alice", "/bob"} {
		root.mkdir(dir, 0o777)
	}
	hers := alice.addBlock("/alice/f", alice.create("/alice/f"), nil)
	id := bob.create("/bob/f")
	his := bob.addBlock("/bob/f", id, nil)
	q := func(b *pb.LocatedBlockProto) *pb.GetAdditionalDatanodeRequestProto {
		return &pb.GetAdditionalDatanodeRequestProto{Src: str("/bob/f"), FileId: &id, ClientName: &bob.name, Blk: b.B, NumAdditionalNodes: proto.Uint32(1)}
	}
	bob.throws("IOException", "getAdditionalDatanode", q(hers))
	ask[pb.GetAdditionalDatanodeResponseProto](bob, "getAdditionalDatanode", q(his))

	nc, err := s.g.dial(t.Context(), listen(t).Addr().String())
	if err == nil {
		nc.Close()
		t.Error("a stranger's address is taken for a node's")
	}
	if nc, err = s.g.dial(t.Context(), s.node.View().Members[s.node.Identity.Node].DataAddress()); err == nil {
		nc.Close()
	} else if strings.Contains(err.Error(), "no node's address") {
		t.Error(err)
	}
}
