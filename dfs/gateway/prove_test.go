package gateway

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/internal/linux"
	"headrace/wire"
)

// credentialsOfNobody skips the test where it cannot be another user than root.
func credentialsOfNobody(t *testing.T) linux.Credentials {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	return linux.Credentials{UID: uint32(uid), GID: uint32(uid)}
}

// TestWhoCalls: the kernel knows whose connection it is; nobody but root is somebody else.
func TestWhoCalls(t *testing.T) {
	nobody := credentialsOfNobody(t)
	s := serve(t, t.TempDir())
	root := "/"
	asNobody := func(name string) error {
		return linux.AsUser(nobody, func() error {
			c, err := ipc.Dial(context.Background(), s.rpc, ipc.Options{Protocol: clientProtocol, User: ipc.User{Name: name}})
			if err != nil {
				return err
			}
			defer c.Close()
			return c.Call(context.Background(), "getFileInfo", &pb.GetFileInfoRequestProto{Src: &root}, &pb.GetFileInfoResponseProto{})
		})
	}
	for name, want := range map[string]string{"nobody": "", "root": "user nobody is not root", "hdfs": "user nobody is not hdfs"} {
		err := asNobody(name)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("nobody as %s: %v", name, err)
		}
	}
	s.g.callers.Trust = true
	if err := asNobody("root"); err != nil {
		t.Errorf("believed: %v", err)
	}
}

// TestWhoReadsWhatIsWritten: Hadoop's client asks for the length of an open block in the name of the block, whoever its user is.
func TestWhoReadsWhatIsWritten(t *testing.T) {
	nobody := credentialsOfNobody(t)
	s := serve(t, t.TempDir())
	writer := s.as("root")
	b := writer.addBlock("/f", writer.create("/f"), nil)
	p, err := writer.begin(b, nil)
	if err == nil {
		_, err = p.Send(0, pattern(0, 700), false)
	}
	if err == nil {
		_, err = p.Ack()
	}
	if err != nil {
		t.Fatal(err)
	}
	var length pb.GetReplicaVisibleLengthResponseProto
	err = linux.AsUser(nobody, func() error {
		c, err := ipc.Dial(context.Background(), s.rpc, ipc.Options{Protocol: dataNodeProtocol, User: ipc.User{Name: "blk_1_1"}})
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Call(context.Background(), "getReplicaVisibleLength", &pb.GetReplicaVisibleLengthRequestProto{Block: b.B}, &length)
	})
	if err != nil || length.GetLength() != 700 {
		t.Errorf("%d bytes, %v", length.GetLength(), err)
	}
}

// TestWhoChangesTheRing: a caller of another machine, who is whoever it says, may ask about nodes, and have none leave, whatever its port.
func TestWhoChangesTheRing(t *testing.T) {
	s := serve(t, t.TempDir())
	name := s.node.Identity.Node
	served := s.g.rpc.Protocols[RingProtocol]
	all, err := net.Listen("tcp", ":0") // root's, here
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	_, port, _ := net.SplitHostPort(all.Addr().String())
	for method, q := range map[string]proto.Message{"Ring": &wire.RingRequest{}, "Drain": &wire.RingDrainRequest{Node: name}, "Fill": &wire.RingFillRequest{Node: name},
		"Remove": &wire.RingRemoveRequest{Node: name}} {
		b, err := proto.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range []string{"1", port} {
			_, err = served.Serve(t.Context(), &ipc.Call{Protocol: RingProtocol, Version: 1, Method: method, Request: b, User: ipc.User{Name: "root"},
				Remote: netip.MustParseAddrPort("192.0.2.1:" + port), Local: netip.MustParseAddrPort(s.rpc)})
			if refused := err != nil && strings.Contains(err.Error(), "nothing proves"); refused != (method != "Ring") {
				t.Errorf("%s from port %s of another machine: %v", method, port, err)
			}
		}
		here := s.dial("root", ipc.Options{Protocol: RingProtocol, User: ipc.User{Name: "root"}})
		err = here.Call(t.Context(), method, q, &wire.RingChangeResponse{})
		if err != nil && strings.Contains(err.Error(), "nothing proves") {
			t.Errorf("%s from this machine: %v", method, err)
		}
	}
}

// TestWhoIsToldWhereBlocksLie: processes of root and of who runs the node are, whatever names are believed.
func TestWhoIsToldWhereBlocksLie(t *testing.T) {
	nobody := credentialsOfNobody(t)
	s := serve(t, t.TempDir())
	s.g.callers.Trust = true
	c := s.as("root")
	c.write("/f", []byte("text"))
	b := c.locations("/f").Blocks[0].B
	where := func(pool string) (*wire.ExtentResponse, error) {
		c, err := ipc.Dial(context.Background(), s.rpc, ipc.Options{Protocol: "headrace.v1.LocalBlocks", User: ipc.User{Name: "root"}})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		a := &wire.ExtentResponse{}
		return a, c.Call(context.Background(), "Extent", &wire.ExtentRequest{Pool: pool, Block: b.GetBlockId()}, a)
	}
	err := linux.AsUser(nobody, func() error { _, err := where(b.GetPoolId()); return err })
	if err == nil || !strings.Contains(err.Error(), "neither root") {
		t.Errorf("nobody as root: %v", err)
	}
	a, err := where(b.GetPoolId())
	if err != nil || a.Copy.GetState() != wire.BlockCopy_FINAL || a.Copy.Length != 4 || a.Size <= 4 {
		t.Fatalf("%v, %v", a, err)
	}
	f, err := os.ReadFile(a.Path)
	if err != nil || !strings.HasSuffix(string(f[a.Offset:a.Offset+a.Size]), "text") {
		t.Errorf("%d bytes at %d of %s, %v", a.Size, a.Offset, a.Path, err)
	}
	if a, err := where("BP-another"); err != nil || a.Copy.GetState() != wire.BlockCopy_NONE || a.Path != "" {
		t.Errorf("of another pool: %v, %v", a, err)
	}
}
