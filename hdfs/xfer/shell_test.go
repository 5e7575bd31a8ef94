package xfer

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headrace/hdfs/hdfstest"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
)

// TestHadoopsShell: hdfs dfs and Hadoop's client against servers of these packages: four data nodes, and a
// namespace in memory. One of three is killed while a file is written; the client has what there is copied to the fourth.
func TestHadoopsShell(t *testing.T) {
	n := &nameNode{entries: map[string]*entry{"/": {dir: true}}, called: map[string]int{}, last: 100}
	for range 4 {
		n.nodes = append(n.nodes, start(t, &Server{Check: func(_ context.Context, a Access) error {
			if string(a.Token.GetIdentifier()) != "token" || string(a.Token.GetPassword()) != "of a block" {
				return errors.New("no such token")
			}
			return nil
		}}, nil))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.ipc = uint32(l.Addr().(*net.TCPAddr).Port)
	s := &ipc.Server{Protocols: map[string]ipc.Handler{
		"org.apache.hadoop.hdfs.protocol.ClientProtocol":         ipc.NewService(pb.File_ClientNamenodeProtocol_proto.Services().ByName("ClientNamenodeProtocol"), n.serve),
		"org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol": ipc.NewService(pb.File_ClientDatanodeProtocol_proto.Services().ByName("ClientDatanodeProtocolService"), n.serve),
	}}
	go s.Serve(l)
	defer s.Close()

	conf, dir := t.TempDir(), t.TempDir()
	site := "<configuration><property><name>fs.defaultFS</name><value>hdfs://" + l.Addr().String() + "</value></property></configuration>"
	if err := os.WriteFile(filepath.Join(conf, "core-site.xml"), []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
	sh := hdfstest.StartShell(t, conf)
	run := func(words ...string) string {
		t.Helper()
		return sh.Run("anna", words...)
	}
	data := random(1, 2_500_000) // of three blocks
	file := filepath.Join(dir, "data")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	run("-mkdir", "/d")
	run("-put", file, "/d/data")
	if out := run("-ls", "/d"); !strings.Contains(out, "2500000") || !strings.Contains(out, "/d/data") {
		t.Errorf("-ls: %s", out)
	}
	run("-get", "/d/data", file+".got")
	if got, err := os.ReadFile(file + ".got"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("-get: %d bytes, %v", len(got), err)
	}
	run("-appendToFile", file, "/d/data")
	run("-get", "/d/data", file+".twice")
	if got, err := os.ReadFile(file + ".twice"); err != nil || !bytes.Equal(got, append(data[:len(data):len(data)], data...)) {
		t.Errorf("-get after -appendToFile: %d bytes, %v", len(got), err)
	}
	small := filepath.Join(dir, "small")
	if err := os.WriteFile(small, []byte("some words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("-put", small, "/d/small")
	if out := run("-cat", "/d/small"); !strings.HasSuffix(out, "some words\n") {
		t.Errorf("-cat: %q", out)
	}
	if out, want := run("crc", "/d/data"), fmt.Sprintf("%08x", crc32.Checksum(append(data[:len(data):len(data)], data...), castagnoli)); !strings.Contains(out, want) {
		t.Errorf("checksum %q, want %s", out, want)
	}
	var sums []byte // as HDFS has them: of the checksums of chunks of a block, and of those of all blocks
	for block := range slices.Chunk(append(data[:len(data):len(data)], data...), 1<<20) {
		sum := md5.Sum(AppendSums(nil, block))
		sums = append(sums, sum[:]...)
	}
	sums = append(sums, make([]byte, 128-len(sums))...) // the client digests all of its buffer, which has doubled from 32 bytes
	if out, want := run("-checksum", "/d/data"), fmt.Sprintf("MD5-of-2048MD5-of-512CRC32C\t000002000000000000000800%x", md5.Sum(sums)); !strings.Contains(out, want) {
		t.Errorf("-checksum: %q, want %s", out, want)
	}

	// A node dies between two parts of a file.
	sh.Tell("anna write /d/parts")
	for i := range 4 {
		if _, visible := sh.Part(); visible != fmt.Sprint((i+1)*300_001) {
			t.Errorf("after part %d another reader sees %s bytes", i, visible)
		}
		if i == 1 {
			n.nodes[1].Close()
		}
		sh.Tell("")
	}
	sh.Done("write")
	run("-get", "/d/parts", file+".parts")
	var want []byte
	for i := range 4 {
		want = append(want, bytes.Repeat([]byte{byte('a' + i)}, 300_001)...)
	}
	if got, err := os.ReadFile(file + ".parts"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("parts: %d bytes, %v", len(got), err)
	}
	if n.called["updatePipeline"] == 0 || n.called["getAdditionalDatanode"] == 0 {
		t.Errorf("the pipeline was not made again: %v", n.called)
	}
	for _, b := range n.entries["/d/parts"].blocks {
		if len(b.nodes) != 3 {
			t.Errorf("block %d has %d replicas", b.ID, len(b.nodes))
		}
		for _, d := range b.nodes {
			if r := d.memory.replica(b.ID); !r.final || int64(len(r.data)) != b.Length || r.stamp != b.Stamp {
				t.Errorf("a replica of block %d: %d of %d bytes, stamp %d of %d, final %v", b.ID, len(r.data), b.Length, r.stamp, b.Stamp, r.final)
			}
		}
	}
}
