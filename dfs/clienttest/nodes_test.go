package clienttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"headrace/dfs/dfstest"
	"headrace/hdfs/hdfstest"
	"headrace/internal/testkit"
)

// ring is what headrace dfs ring tells of nodes.
type ring struct {
	Moves int
	Nodes []struct {
		Address, Peer, State string
		Leads, Votes         bool
	}
}

func askRing(t *testing.T, fs string) (r ring) {
	t.Helper()
	out, err := exec.Command(testkit.Headrace(t), "dfs", "ring", "--format", "json", "--fs", fs).Output()
	if err != nil {
		return r
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Error(err)
	}
	return r
}

// TestTwoNodesLost: Hadoop's client, as client-config has told it of five nodes, writes and reads while the one that leads and one that is not its
// neighbour are killed, and sees no error. They come back, and all is there.
func TestTwoNodesLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hadoopShell(t, dir)                    // else there is no use in starting nodes
	nodes := map[string]*dfstest.Process{} // by their addresses of RPC
	numbers := map[string]int{}
	fs, args := "", []string{}
	begin := func(i int) {
		t.Helper()
		p := dfstest.Launch(t, filepath.Join(dir, fmt.Sprint(i)), append([]string{"--listen", fmt.Sprintf("127.0.0.%d", 41+i), "--http-port", "0",
			"--peer-port", "0", "--token-file", filepath.Join(dir, "token")}, args...)...)
		fs = p.HDFS
		nodes[fs], numbers[fs] = p, i
		if i == 0 {
			args = []string{"--join", askRing(t, fs).Nodes[0].Peer}
		}
	}
	const count = 5
	for i := range count {
		begin(i)
	}
	var lost []string // in this order
	whole := func() bool {
		r := askRing(t, fs)
		up := 0
		for i, n := range r.Nodes {
			if n.State == "up" && n.Votes {
				up++
			}
			if n.Leads {
				lost = []string{"hdfs://" + n.Address, "hdfs://" + r.Nodes[(i+2)%count].Address}
			}
		}
		return up == count && r.Moves == 0
	}
	testkit.Await(t, "five nodes that vote", whole)

	run(t, dir, testkit.Headrace(t), "dfs", "client-config", "--fs", fs, "conf")
	shell := hdfstest.StartShell(t, filepath.Join(dir, "conf"))
	files := map[string][]byte{}
	const many = 10
	for i := range many { // all are told at once: it goes on without a pause
		data := make([]byte, 20<<20)
		rand.NewChaCha8([32]byte{byte(i)}).Read(data)
		name := filepath.Join(dir, fmt.Sprint("file", i))
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		files[fmt.Sprint("file", i)] = data
	}
	commands := []string{"-mkdir -p /d/e"}
	for i := range many {
		commands = append(commands, fmt.Sprintf("-put %s/file%d /d/file%d", dir, i, i), fmt.Sprintf("-mv /d/file%d /d/e/file%d", i, i))
	}
	for i := range many {
		commands = append(commands, fmt.Sprintf("-get /d/e/file%d %s/got%d", i, dir, i))
	}
	go func() {
		for _, c := range commands {
			shell.Tell(me(t) + " " + c)
		}
	}()
	for i, c := range commands {
		shell.Done(c)
		if i == 4 || i == 9 { // the next one has begun
			p := nodes[lost[i/5]]
			p.Cmd.Process.Kill()
			<-p.Ended
		}
	}
	for name, data := range files {
		got, err := os.ReadFile(filepath.Join(dir, "got"+strings.TrimPrefix(name, "file")))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s has %d bytes that are not those that were written, %v", name, len(got), err)
		}
	}
	for _, p := range lost {
		begin(numbers[p])
	}
	testkit.Await(t, "all to have what they missed", whole)
	testkit.Await(t, "a clean fsck", func() bool {
		return exec.Command(testkit.Headrace(t), "dfs", "fsck", "--fs", fs).Run() == nil
	})
}
