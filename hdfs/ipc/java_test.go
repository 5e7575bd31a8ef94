package ipc

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
)

// tiny is a name node of a few files, by path, and their lengths; -1 is a directory.
type tiny struct {
	mu    sync.Mutex
	files map[string]int
	calls []Call
}

func (n *tiny) serve(_ context.Context, c *Call, q proto.Message) (proto.Message, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, *c)
	switch q := q.(type) {
	case *pb.GetServerDefaultsRequestProto:
		return &pb.GetServerDefaultsResponseProto{ServerDefaults: &pb.FsServerDefaultsProto{
			BlockSize: proto.Uint64(1 << 22), BytesPerChecksum: proto.Uint32(512), WritePacketSize: proto.Uint32(65536),
			Replication: proto.Uint32(1), FileBufferSize: proto.Uint32(4096)}}, nil
	case *pb.GetFileInfoRequestProto:
		r := &pb.GetFileInfoResponseProto{}
		if _, ok := n.files[q.GetSrc()]; ok {
			r.Fs = n.status(q.GetSrc(), "")
		}
		return r, nil
	case *pb.GetListingRequestProto:
		if _, ok := n.files[q.GetSrc()]; !ok {
			return nil, Throw("java.io.FileNotFoundException", "File %s does not exist.", q.GetSrc())
		}
		r := &pb.DirectoryListingProto{RemainingEntries: proto.Uint32(0)}
		for _, p := range slices.Sorted(maps.Keys(n.files)) {
			if path.Dir(p) == q.GetSrc() {
				r.PartialListing = append(r.PartialListing, n.status(p, path.Base(p)))
			}
		}
		return &pb.GetListingResponseProto{DirList: r}, nil
	case *pb.MkdirsRequestProto:
		switch {
		case q.GetSrc() == "/forbidden":
			return nil, Throw(ClassAccess, "Permission denied: user=%s", c.User.Name)
		case q.GetSrc() == "/again" && c.Retry == 0:
			return nil, Throw("org.apache.hadoop.ipc.RetriableException", "not yet")
		}
		n.files[q.GetSrc()] = -1
		return &pb.MkdirsResponseProto{Result: proto.Bool(true)}, nil
	}
	return nil, NoMethod(c)
}

func (n *tiny) status(file, name string) *pb.HdfsFileStatusProto {
	s := size(max(n.files[file], 0)).GetFs()
	s.Path = []byte(name)
	if n.files[file] < 0 {
		s.FileType = pb.HdfsFileStatusProto_IS_DIR.Enum()
	}
	return s
}

// hadoop returns a command that runs testdata/CLASS.java with the jars of Hadoop, or skips the test.
func hadoop(t *testing.T, class string, args ...string) *exec.Cmd {
	t.Helper()
	if testing.Short() {
		t.Skip("Java is not started in short tests")
	}
	jars, _ := filepath.Glob("../../java/cluster/target/hadoop/lib/hadoop-hdfs-client-[0-9]*.jar")
	java, err := exec.LookPath("java")
	if len(jars) == 0 || err != nil {
		t.Skip("there is no Hadoop to ask; make java gathers it:", err)
	}
	cmd := exec.Command(java, append([]string{"-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", filepath.Join(filepath.Dir(jars[0]), "*"),
		"testdata/" + class + ".java"}, args...)...)
	cmd.Env = append(cmd.Environ(), "HADOOP_USER_NAME=anna")
	return cmd
}

// TestHadoopsClient: Hadoop's own client, with two name nodes of which the first is a standby,
// understands answers, errors and retries.
func TestHadoopsClient(t *testing.T) {
	standby := serving(func(context.Context, *Call, proto.Message) (proto.Message, error) {
		return nil, Throw("org.apache.hadoop.ipc.StandbyException", "Operation category READ is not supported in state standby")
	})
	standby.Impersonate = func(context.Context, User, netip.Addr) error { return nil }
	n := &tiny{files: map[string]int{"/": -1, "/data": -1, "/data/a": 5, "/data/b": 7}}
	s := serving(n.serve)
	s.Impersonate = func(_ context.Context, u User, _ netip.Addr) error {
		if u.Real != "hive" {
			return fmt.Errorf("User: %s is not allowed to impersonate %s", u.Real, u.Name)
		}
		return nil
	}
	s.Protocols["org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol"] = NewService(
		pb.File_ClientDatanodeProtocol_proto.Services().ByName("ClientDatanodeProtocolService"),
		func(_ context.Context, _ *Call, q proto.Message) (proto.Message, error) {
			id := q.(*pb.GetReplicaVisibleLengthRequestProto).GetBlock().GetBlockId()
			return &pb.GetReplicaVisibleLengthResponseProto{Length: proto.Uint64(id * 6)}, nil
		})
	out, err := hadoop(t, "Calls", start(t, standby), start(t, s)).Output()
	var got []string
	for line := range strings.Lines(string(out)) { // others are the client's log
		if line, ok := strings.CutPrefix(line, "> "); ok {
			got = append(got, strings.TrimSpace(line))
		}
	}
	want := []string{
		"blocksize: 4194304", "status: a:5:o:rw-r--r--", "missing: java.io.FileNotFoundException File does not exist: /data/none",
		"list: a:5:o:rw-r--r-- b:7:o:rw-r--r--", "list missing: java.io.FileNotFoundException File /nowhere does not exist.",
		"mkdirs: true", "made: true", "forbidden: org.apache.hadoop.security.AccessControlException Permission denied: user=anna", "again: true",
		"unknown: " + ClassNoMethod + " Unknown method getContentSummary called on " + clientProtocol + " protocol.",
		"proxy: true", "no proxy: " + ClassUnauthorized + " User: eve is not allowed to impersonate root", "visible: 42", "threads: done",
	}
	if !slices.Equal(got, want) || err != nil {
		t.Errorf("%v: got\n%s\nwant\n%s", err, out, strings.Join(want, "\n"))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var again []Call
	for _, c := range n.calls {
		if c.Method == "mkdirs" && strings.Contains(string(c.Request), "/again") {
			again = append(again, c)
		}
		if strings.Contains(string(c.Request), "/data/alice") && c.User != (User{"alice", "hive"}) {
			t.Errorf("%+v", c.User)
		}
	}
	if len(again) < 2 || again[0].ID != again[1].ID || again[0].Client != again[1].Client || again[1].Retry <= again[0].Retry {
		t.Errorf("the call that came again: %+v", again)
	}
}
