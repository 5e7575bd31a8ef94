package ipc

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/internal/budget"
)

// clientProtocol is the interface that the tests serve.
const clientProtocol = "org.apache.hadoop.hdfs.protocol.ClientProtocol"

// start serves a protocol until the test ends.
func start(t testing.TB, s *Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.init()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if n := s.crowd.Members(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		for _, m := range []*budget.SharedTiers{&s.memory.all, &s.memory.long} {
			if all, owners := m.Taken(); all != 0 || owners != 0 {
				t.Errorf("%d %s of %d owners are left", all, m.Tiers.What, owners)
			}
		}
	})
	return l.Addr().String()
}

// serving is a server of getFileInfo and what else the function knows.
func serving(f func(ctx context.Context, c *Call, q proto.Message) (proto.Message, error)) *Server {
	return &Server{Protocols: map[string]Handler{
		clientProtocol: NewService(pb.File_ClientNamenodeProtocol_proto.Services().ByName("ClientNamenodeProtocol"), f)}}
}

// sized answers getFileInfo with the length of the path.
func sized(_ context.Context, _ *Call, q proto.Message) (proto.Message, error) {
	return size(len(q.(*pb.GetFileInfoRequestProto).GetSrc())), nil
}

func size(n int) *pb.GetFileInfoResponseProto {
	return &pb.GetFileInfoResponseProto{Fs: &pb.HdfsFileStatusProto{
		FileType: pb.HdfsFileStatusProto_IS_FILE.Enum(), Path: []byte{}, Length: proto.Uint64(uint64(n)),
		Permission: &pb.FsPermissionProto{Perm: proto.Uint32(0o644)}, Owner: proto.String("o"), Group: proto.String("g"),
		ModificationTime: proto.Uint64(1), AccessTime: proto.Uint64(1),
	}}
}

func dial(t testing.TB, address string, o Options) *Client {
	t.Helper()
	if o.Protocol == "" {
		o.Protocol = clientProtocol
	}
	if o.User.Name == "" {
		o.User.Name = "anna"
	}
	c, err := Dial(t.Context(), address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// lengthOf asks for the length of a file.
func lengthOf(ctx context.Context, c *Client, path string) (int, error) {
	var a pb.GetFileInfoResponseProto
	err := c.Call(ctx, "getFileInfo", &pb.GetFileInfoRequestProto{Src: &path}, &a)
	return int(a.GetFs().GetLength()), err
}

// wantLength asks, and wants an answer.
func wantLength(t testing.TB, c *Client, path string) {
	t.Helper()
	if n, err := lengthOf(t.Context(), c, path); n != len(path) || err != nil {
		t.Errorf("%d, %v; want %d", n, err, len(path))
	}
}

func wantClass(t testing.TB, err error, class, text string) {
	t.Helper()
	if e := (*Exception)(nil); !errors.As(err, &e) || e.Class != class || !strings.Contains(e.Message, text) {
		t.Errorf("%v, want %s with %q", err, class, text)
	}
}

// raw is a connection that sends what it likes.
func raw(t testing.TB, address string, bytes ...byte) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Write(bytes); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(2 * time.Minute)) // the machine may be busy
	return c
}

// wantEnd wants the other end to close a connection, and returns what it has said before.
func wantEnd(t testing.TB, c net.Conn) []byte {
	t.Helper()
	b, err := io.ReadAll(c)
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection goes on: %v", err)
	}
	return b
}

var hello = []byte{'h', 'r', 'p', 'c', version, 0, authNone}

func frame(t testing.TB, messages ...proto.Message) []byte {
	t.Helper()
	b, err := encode(messages...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func head(id int32) *pb.RpcRequestHeaderProto {
	return (&Client{}).header(id, 0)
}

// introduced is a stranger who has said who it is.
func introduced(t testing.TB) []byte {
	return append(hello[:len(hello):len(hello)], frame(t, head(callContext),
		&pb.IpcConnectionContextProto{UserInfo: &pb.UserInformationProto{EffectiveUser: proto.String("eve")}})...)
}

func length(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
