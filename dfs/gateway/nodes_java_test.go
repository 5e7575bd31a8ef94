package gateway

import (
	"crypto/md5"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"headrace/hdfs/hdfstest"
	"headrace/hdfs/pb"
	"headrace/internal/testkit"
	"headrace/ring"
)

// javaClient starts a client that is told of nodes, or skips the test.
func javaClient(t testing.TB, rpc string, properties map[string]string) *hdfstest.Shell {
	t.Helper()
	conf := t.TempDir()
	site := "<configuration><property><name>fs.defaultFS</name><value>hdfs://" + rpc + "</value></property>"
	for name, value := range properties {
		site += "<property><name>" + name + "</name><value>" + value + "</value></property>"
	}
	if err := os.WriteFile(filepath.Join(conf, "core-site.xml"), []byte(site+"</configuration>"), 0o600); err != nil {
		t.Fatal(err)
	}
	return hdfstest.StartShell(t, conf)
}

// TestHadoopAndNodesThatAreKilled: Hadoop's client writes and reads on while nodes are killed, with its own recovery of pipelines: a node comes in
// the place of one that is gone (dfs.client.block.write.replace-datanode-on-failure).
func TestHadoopAndNodesThatAreKilled(t *testing.T) {
	c := startCluster(t, 5)
	leader := c.leading()
	j := javaClient(t, leader.rpc, map[string]string{"dfs.blocksize": "4194304", "dfs.replication": "3", "dfs.client.socket-timeout": "60000"})
	dir := t.TempDir()
	data := make([]byte, 48<<20)
	rand.NewChaCha8([32]byte{9}).Read(data)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	// A writer that flushes and waits: two nodes of its pipeline are killed, one after the other.
	j.Tell("root write /parts")
	var killed []*peerNode
	for part := range 4 {
		if said, n := j.Part(); n != fmt.Sprint((part+1)*300_001) {
			t.Fatalf("part %d: %s\n%s", part, n, said)
		}
		if part > 0 && part < 3 {
			p := c.but(c.writing("/parts"), killed...)
			p.kill()
			killed = append(killed, p)
		}
		j.Tell("")
	}
	j.Done("write")
	if nodes := c.located("/parts").Blocks[0].Nodes; len(nodes) > 0 && len(nodes) != 3 {
		t.Errorf("the last pipeline has %d nodes", len(nodes))
	}
	for _, p := range killed {
		p.start()
	}
	j.Run("root", "-put", file, "/f")
	c.replicated("/parts", 3)
	c.replicated("/f", 3)
	sum := j.Run("root", "-checksum", "/f")
	// And a reader.
	other := filepath.Join(dir, "other")
	j.Tell("root -get /f " + other)
	testkit.Await(t, "some bytes to be read", func() bool {
		i, err := os.Stat(other + "._COPYING_")
		if err != nil {
			i, err = os.Stat(other)
		}
		return err == nil && i.Size() > 1<<20
	})
	second := c.but(c.nodes)
	second.kill()
	if i, err := os.Stat(other); err == nil && i.Size() == int64(len(data)) {
		t.Log("the reader was faster")
	}
	j.Done("-get")
	got, err := os.ReadFile(other)
	if err != nil || md5.Sum(got) != md5.Sum(data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	c.change(ring.Down{Node: second.name()})
	c.change(ring.Out{Node: second.name()})
	c.replicated("/f", 3)
	// A file that is appended to, on nodes where its blocks are now.
	j.Run("root", "-appendToFile", file, "/f")
	if again := j.Run("root", "-checksum", "/f"); again == sum {
		t.Error("nothing was appended")
	}
	r := ask[pb.GetFileInfoResponseProto](leader.as("root"), "getFileInfo", &pb.GetFileInfoRequestProto{Src: str("/f")})
	if r.Fs.GetLength() != 2*uint64(len(data)) {
		t.Errorf("%d bytes", r.Fs.GetLength())
	}
}

func str(s string) *string { return &s }
