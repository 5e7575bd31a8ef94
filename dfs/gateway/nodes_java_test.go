package gateway

import (
	"bufio"
	"crypto/md5"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headrace/hdfs/hdfstest"
	"headrace/hdfs/pb"
	"headrace/internal/testkit"
	"headrace/ring"
)

// jvm is a running headrace.cluster.HadoopShell, by which Hadoop's client is used.
type jvm struct {
	t   testing.TB
	in  io.Writer
	out *bufio.Reader
}

// javaClient starts one that is told of nodes, or skips the test.
func javaClient(t testing.TB, rpc string, properties map[string]string) *jvm {
	t.Helper()
	if testing.Short() {
		t.Skip("Java is not started in short tests")
	}
	conf := t.TempDir()
	cmd, err := hdfstest.Shell("../../java/cluster/target/hadoop", conf)
	if err != nil {
		t.Skip(err)
	}
	site := "<configuration><property><name>fs.defaultFS</name><value>hdfs://" + rpc + "</value></property>"
	for name, value := range properties {
		site += "<property><name>" + name + "</name><value>" + value + "</value></property>"
	}
	if err := os.WriteFile(filepath.Join(conf, "core-site.xml"), []byte(site+"</configuration>"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	ended := testkit.Start(t, cmd)
	t.Cleanup(func() { in.Close(); <-ended })
	j := &jvm{t, in, bufio.NewReader(out)}
	j.answer()
	return j
}

func (j *jvm) say(line string) { fmt.Fprintln(j.in, line) }

// answer returns what is said until the end of a command, and its exit code.
func (j *jvm) answer() (said, code string) {
	j.t.Helper()
	for {
		line, err := j.out.ReadString('\n')
		if err != nil {
			j.t.Fatalf("%v after %s%s", err, said, line)
		}
		if code, ends := strings.CutPrefix(line, "> "); ends {
			return said, strings.TrimSpace(code)
		}
		said += line
	}
}

// part waits until a writer has flushed a part, and returns how many bytes there are.
func (j *jvm) part() (said, n string) {
	j.t.Helper()
	for {
		line, err := j.out.ReadString('\n')
		if err != nil {
			j.t.Fatalf("%v after %s%s", err, said, line)
		}
		if n, ends := strings.CutPrefix(line, ">> "); ends {
			return said, strings.TrimSpace(n)
		}
		said += line
	}
}

func (j *jvm) done(what string) string {
	j.t.Helper()
	said, code := j.answer()
	if code != "0" {
		j.t.Fatalf("%s: exit code %s\n%s", what, code, said)
	}
	return said
}

// TestHadoopAndNodesThatAreKilled: Hadoop's client writes and reads on while nodes are killed, with its own recovery of pipelines: a node comes in
// the place of one that is gone (dfs.client.block.write.replace-datanode-on-failure).
func TestHadoopAndNodesThatAreKilled(t *testing.T) {
	c := startCluster(t, 5)
	leader := c.leading()
	j := javaClient(t, leader.rpc, map[string]string{"dfs.blocksize": "4194304", "dfs.replication": "3", "dfs.client.socket-timeout": "5000"})
	dir := t.TempDir()
	data := make([]byte, 48<<20)
	rand.NewChaCha8([32]byte{9}).Read(data)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	// A writer that flushes and waits: two nodes of its pipeline are killed, one after the other.
	j.say("root write /parts")
	var killed []*peerNode
	for part := range 4 {
		if said, n := j.part(); n != fmt.Sprint((part+1)*300_001) {
			t.Fatalf("part %d: %s\n%s", part, n, said)
		}
		if part > 0 && part < 3 {
			p := c.but(c.writing("/parts"), killed...)
			p.kill()
			killed = append(killed, p)
		}
		j.say("")
	}
	j.done("write")
	if nodes := c.located("/parts").Blocks[0].Nodes; len(nodes) > 0 && len(nodes) != 3 {
		t.Errorf("the last pipeline has %d nodes", len(nodes))
	}
	for _, p := range killed {
		p.start()
	}
	j.say("root -put " + file + " /f")
	j.done("-put")
	c.replicated("/parts", 3)
	c.replicated("/f", 3)
	j.say("root -checksum /f")
	sum := j.done("-checksum")
	// And a reader.
	other := filepath.Join(dir, "other")
	j.say("root -get /f " + other)
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
	j.done("-get")
	got, err := os.ReadFile(other)
	if err != nil || md5.Sum(got) != md5.Sum(data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	c.change(ring.Down{Node: second.name()})
	c.change(ring.Out{Node: second.name()})
	c.replicated("/f", 3)
	// A file that is appended to, on nodes where its blocks are now.
	j.say("root -appendToFile " + file + " /f")
	j.done("-appendToFile")
	j.say("root -checksum /f")
	if again := j.done("-checksum"); again == sum {
		t.Error("nothing was appended")
	}
	r := ask[pb.GetFileInfoResponseProto](leader.as("root"), "getFileInfo", &pb.GetFileInfoRequestProto{Src: str("/f")})
	if r.Fs.GetLength() != 2*uint64(len(data)) {
		t.Errorf("%d bytes", r.Fs.GetLength())
	}
}

func str(s string) *string { return &s }
