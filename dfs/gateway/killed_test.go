package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
	"headrace/internal/testkit"
)

// startProcess starts headrace dfs start, and returns what knows where it is.
func startProcess(t *testing.T, dir string) (*site, *exec.Cmd, <-chan struct{}) {
	t.Helper()
	cmd := exec.Command(testkit.Headrace(t), "dfs", "start", "--dir", dir, "--port", "0", "--data-port", "0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := testkit.Start(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, rpc: u.Host}
	n := ask[pb.GetDatanodeReportResponseProto](s.as(rootName(t)), "getDatanodeReport", &pb.GetDatanodeReportRequestProto{Type: pb.DatanodeReportTypeProto_LIVE.Enum()}).Di[0].Id
	s.data = net.JoinHostPort(n.GetIpAddr(), strconv.Itoa(int(n.GetXferPort())))
	return s, cmd, ended
}

func rootName(t *testing.T) string {
	out, err := exec.Command("id", "-un").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// acked is what a worker was told is done.
type acked struct {
	names []string
	path  string // of the file that it writes
	bytes int64  // of that, flushed
}

// pattern are bytes that say where in a file they are.
func pattern(from, to int64) []byte {
	b := make([]byte, to-from)
	for i := range b {
		at := from + int64(i)
		b[i] = byte(at ^ at>>8 ^ at>>16)
	}
	return b
}

// work makes directories and writes a file until the node is gone, and counts.
func work(s *site, user, dir string, count *atomic.Int64) (a acked) {
	a.path = dir + "/file"
	c, err := ipc.Dial(context.Background(), s.rpc, ipc.Options{Protocol: clientProtocol, User: ipc.User{Name: user}})
	if err != nil {
		return a
	}
	defer c.Close()
	w := &client{Client: c, s: s, name: "writer of " + dir}
	q := w.createRequest(a.path)
	q.BlockSize = proto.Uint64(1 << 20)
	var made pb.CreateResponseProto
	var added pb.AddBlockResponseProto
	if c.Call(context.Background(), "create", q, &made) != nil ||
		c.Call(context.Background(), "addBlock", &pb.AddBlockRequestProto{Src: &a.path, ClientName: &w.name, FileId: made.Fs.FileId}, &added) != nil {
		return a
	}
	nc, err := net.Dial("tcp", s.data)
	if err != nil {
		return a
	}
	defer nc.Close()
	b := added.Block
	p, err := xfer.Write(nc, &pb.OpWriteBlockProto{Header: xfer.Header(extended(b.B), w.name, b.BlockToken), Stage: pb.OpWriteBlockProto_PIPELINE_SETUP_CREATE.Enum(),
		PipelineSize: proto.Uint32(1), MinBytesRcvd: proto.Uint64(0), MaxBytesRcvd: proto.Uint64(0), LatestGenerationStamp: b.B.GenerationStamp})
	if err != nil {
		return a
	}
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s/%d", dir, i)
		if c.Call(context.Background(), "mkdirs", &pb.MkdirsRequestProto{Src: &name, Masked: permission(0o755), CreateParent: proto.Bool(true)}, &pb.MkdirsResponseProto{}) != nil {
			return a
		}
		a.names = append(a.names, name)
		// A client sends the bytes of a chunk that is not full again.
		if _, err := p.Send(a.bytes/xfer.Chunk*xfer.Chunk, pattern(a.bytes/xfer.Chunk*xfer.Chunk, a.bytes+999), false); err != nil {
			return a
		}
		if _, err := p.Ack(); err != nil {
			return a
		}
		a.bytes += 999
		count.Add(1)
	}
}

// TestKilledAgainAndAgain: the process is killed while four clients make directories and write files. The next one has all that
// they were told of.
func TestKilledAgainAndAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("programs are not built in short tests")
	}
	dir, user := t.TempDir(), rootName(t)
	var all []acked
	for round := range 4 {
		s, cmd, ended := startProcess(t, dir)
		var count atomic.Int64
		var workers sync.WaitGroup
		done := make([]acked, 4)
		for i := range done {
			workers.Go(func() { done[i] = work(s, user, fmt.Sprintf("/round%d/worker%d", round, i), &count) })
		}
		enough := int64(40 + 37*round)
		testkit.Await(t, "the clients to have done something", func() bool { return count.Load() >= enough })
		cmd.Process.Kill()
		<-ended
		workers.Wait()
		all = append(all, done...)
	}
	s, _, _ := startProcess(t, dir)
	c := s.as(user)
	names, flushed := 0, int64(0)
	for _, a := range all {
		for _, name := range a.names {
			if f := ask[pb.GetFileInfoResponseProto](c, "getFileInfo", &pb.GetFileInfoRequestProto{Src: &name}); f.Fs == nil {
				t.Errorf("%s was acknowledged and is not there", name)
			}
			names++
		}
		testkit.Await(t, "the file to be closed", func() bool {
			return ask[pb.RecoverLeaseResponseProto](c, "recoverLease", &pb.RecoverLeaseRequestProto{Src: &a.path, ClientName: &c.name}).GetResult()
		})
		if got := c.read(a.path); int64(len(got)) < a.bytes || !bytes.Equal(got, pattern(0, int64(len(got)))) {
			t.Errorf("%s has %d bytes, and %d were flushed; or others", a.path, len(got), a.bytes)
		}
		flushed += a.bytes
	}
	if names < 300 || flushed < 300*999 {
		t.Errorf("%d names and %d bytes were to be looked for", names, flushed)
	}
	t.Logf("%d names and %d bytes", names, flushed)
}
