package clienttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"headrace/dfs/dfstest"
	"headrace/hdfs/hdfstest"
	"headrace/internal/freeport"
	"headrace/internal/testkit"
)

// nodes are three of a file system, each with a program of its own, and with addresses that stay.
type nodes struct {
	t         *testing.T
	dir       string
	old, new  string       // programs
	first     int          // the last byte of the first one's address
	ports     [3][4]string // of RPC, data transfer, WebHDFS, and of other nodes
	processes [3]*dfstest.Process
}

// begin starts three nodes of the first version.
func begin(t *testing.T, dir string, first int) *nodes {
	t.Helper()
	n := &nodes{t: t, dir: dir, first: first, old: testkit.HeadraceWith(t, "headrace/dfs/names.understood=1"), new: testkit.Headrace(t)}
	for i := range n.processes {
		for p := range n.ports[i] {
			l, err := freeport.Listen(n.host(i))
			if err != nil {
				t.Fatal(err)
			}
			_, n.ports[i][p], _ = net.SplitHostPort(l.Addr().String())
			l.Close()
		}
	}
	for i := range n.processes {
		n.start(i, n.old)
	}
	testkit.Await(t, "three nodes that vote", n.whole)
	return n
}

func (n *nodes) host(i int) string { return fmt.Sprintf("127.0.0.%d", n.first+i) }

func (n *nodes) flags(i int) []string {
	f := []string{"--listen", n.host(i), "--port", n.ports[i][0], "--data-port", n.ports[i][1], "--http-port", n.ports[i][2], "--peer-port", n.ports[i][3], "--token-file", filepath.Join(n.dir, "token")}
	if _, err := os.Stat(n.at(i)); i > 0 && err != nil {
		f = append(f, "--join", n.peer(0))
	}
	return f
}

func (n *nodes) peer(i int) string { return net.JoinHostPort(n.host(i), n.ports[i][3]) }

func (n *nodes) at(i int) string { return filepath.Join(n.dir, fmt.Sprint(i)) }

func (n *nodes) start(i int, program string) {
	n.t.Helper()
	n.processes[i] = dfstest.LaunchProgram(n.t, program, n.at(i), n.flags(i)...)
}

// stop ends a node as an operator does.
func (n *nodes) stop(i int) {
	n.t.Helper()
	p := n.processes[i]
	p.Cmd.Process.Signal(syscall.SIGTERM)
	<-p.Ended
	if code := p.Cmd.ProcessState.ExitCode(); code != 0 {
		n.t.Errorf("node %d ends with %d", i, code)
	}
}

// update stops a node, starts another program in its place, and waits until the node is one of three again.
func (n *nodes) update(i int, program string) {
	n.t.Helper()
	n.stop(i)
	n.start(i, program)
	testkit.Await(n.t, "it to be back", n.whole)
}

func (n *nodes) fs() string {
	var all []string
	for i := range n.processes {
		all = append(all, net.JoinHostPort(n.host(i), n.ports[i][0]))
	}
	return "hdfs://" + strings.Join(all, ",")
}

func (n *nodes) ring() ring { return askRing(n.t, n.fs()) }

func (n *nodes) whole() bool {
	r := n.ring()
	up := 0
	for _, m := range r.Nodes {
		if m.State == "up" && m.Votes {
			up++
		}
	}
	return up == len(n.processes) && r.Moves == 0 && n.status().said()
}

// status is what headrace dfs status tells of versions.
type status struct {
	Version  int
	Versions []struct {
		Address string
		Version int
	}
}

// said reports whether all nodes have said what they understand.
func (s status) said() bool {
	for _, v := range s.Versions {
		if v.Version == 0 {
			return false
		}
	}
	return len(s.Versions) > 0
}

func (n *nodes) status() (s status) {
	n.t.Helper()
	out, err := exec.Command(n.new, "dfs", "status", "--format", "json", "--fs", n.fs()).Output()
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err != nil {
		n.t.Logf("status: %v", err)
	}
	return s
}

// do runs a verb, which is to succeed or to fail, and returns what it says.
func (n *nodes) do(succeeds bool, verb ...string) string {
	n.t.Helper()
	out, err := exec.Command(n.new, append([]string{"dfs"}, verb...)...).CombinedOutput()
	if (err == nil) != succeeds {
		n.t.Errorf("%v: %v\n%s", verb, err, out)
	}
	return string(out)
}

// raise has a node raise the version in force, again while it has not heard from the others lately, as after an election, and returns what it says at last.
func (n *nodes) raise(succeeds bool, more ...string) (said string) {
	n.t.Helper()
	args := append([]string{"dfs", "raise", "--fs", "hdfs://" + net.JoinHostPort(n.host(0), n.ports[0][0])}, more...)
	var err error
	testkit.Await(n.t, "it to have heard from the others", func() bool {
		var out []byte
		out, err = exec.Command(n.new, args...).CombinedOutput()
		said = string(out)
		return !strings.Contains(said, "Ask again in some seconds")
	}, func() string { return said })
	if (err == nil) != succeeds {
		n.t.Errorf("%v: %v\n%s", args, err, said)
	}
	return said
}

// TestRaise: three nodes are updated one after the other, and one is taken back meanwhile. The version in force is raised when all understand it, and not before; then none goes
// back, and no older one joins.
func TestRaise(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("programs are not built in short tests")
	}
	n := begin(t, t.TempDir(), 51)
	here := func(i int) string { return "hdfs://" + net.JoinHostPort(n.host(i), n.ports[i][0]) }
	says := func(text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("want %q in\n%s", w, text)
			}
		}
	}
	file := filepath.Join(n.dir, "file")
	if err := os.WriteFile(file, bytes.Repeat([]byte("0123456789"), 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	written := 0
	write := func() {
		t.Helper()
		n.do(true, "put", "--fs", n.fs(), file, fmt.Sprint("/f", written))
		n.do(true, "cat", "--fs", n.fs(), fmt.Sprint("/f", written))
		written++
	}
	write()
	for i, to := range []string{n.new, n.old, n.new} { // the first one goes there, and back, and there
		n.update(0, to)
		if s := n.status(); s.Version != 1 {
			t.Errorf("time %d: %+v", i, s)
		}
		write()
	}
	n.update(1, n.new)
	write()
	says(n.do(true, "status", "--fs", n.fs()), "version 1 is in force", net.JoinHostPort(n.host(2), n.ports[2][0]))
	for _, more := range [][]string{nil, {"--despite-away"}} {
		says(n.raise(false, more...), "the version in force stays as it is: version 1 is all that these understand: node ", "("+n.host(2)+")")
	}
	n.stop(2)
	testkit.Await(t, "it to be missed", func() bool {
		for _, m := range n.ring().Nodes {
			if m.State == "down" {
				return true
			}
		}
		return false
	})
	says(n.raise(false), "these are away, and may be older: node ", "("+n.host(2)+")", "--despite-away")
	n.start(2, n.new)
	testkit.Await(t, "it to be back", n.whole)
	var said string
	testkit.Await(t, "word that it can be raised", func() bool { // a beat may be late
		said = n.do(true, "status", "--fs", n.fs())
		return strings.Contains(said, "version 1 is in force, and all nodes understand 2: headrace dfs raise")
	}, func() string { return said })
	says(n.raise(true), "version 2 is in force")
	says(n.raise(true), "version 2 is in force already")
	if s := n.status(); s.Version != 2 || len(s.Versions) != 3 {
		t.Errorf("%+v", s)
	}
	write()

	n.stop(1)
	back := exec.Command(n.old, append([]string{"dfs", "start", "--dir", n.at(1)}, n.flags(1)...)...)
	out, err := back.CombinedOutput()
	if err == nil {
		t.Error("a node of the first version is started")
	}
	says(string(out), "older than the one that is in force", "install the version of the other nodes here, and start again", "version 2 is in force, and this one understands 1")
	n.start(1, n.new)
	testkit.Await(t, "it to be back", n.whole)
	join := exec.Command(n.old, "dfs", "start", "--dir", filepath.Join(n.dir, "late"), "--listen", "127.0.0.54", "--port", "0", "--data-port", "0", "--http-port", "0", "--peer-port", "0",
		"--token-file", filepath.Join(n.dir, "token"), "--join", n.peer(0))
	out, err = join.CombinedOutput()
	if err == nil {
		t.Error("a node of the first version joins")
	}
	says(string(out), "the node is refused", "version 2 is in force, and this one understands 1")
	for i := range written {
		n.do(true, "cat", "--fs", n.fs(), fmt.Sprint("/f", i))
	}
	testkit.Await(t, "a clean fsck", func() bool { return exec.Command(n.new, "dfs", "fsck", "--fs", here(0)).Run() == nil })
}

// TestUpdateUnderHadoop: Hadoop's client writes and reads while three nodes are updated one after the other and the version is raised, and sees no error.
func TestUpdateUnderHadoop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hadoopShell(t, dir) // else there is no use in starting nodes
	n := begin(t, dir, 61)
	run(t, dir, n.new, "dfs", "client-config", "--fs", n.fs(), "conf")
	shell := hdfstest.StartShell(t, filepath.Join(dir, "conf"))
	const many = 12
	files := map[string][]byte{}
	commands := []string{"-mkdir -p /d/e"}
	for i := range many {
		data := make([]byte, 8<<20)
		rand.NewChaCha8([32]byte{byte(i)}).Read(data)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("file", i)), data, 0o600); err != nil {
			t.Fatal(err)
		}
		files[fmt.Sprint("got", i)] = data
		commands = append(commands, fmt.Sprintf("-put %s/file%d /d/file%d", dir, i, i), fmt.Sprintf("-mv /d/file%d /d/e/file%d", i, i), fmt.Sprintf("-get /d/e/file%d %s/got%d", i, dir, i))
	}
	updates := map[int]func(){3: func() { n.update(0, n.new) }, 10: func() { n.update(1, n.new) }, 17: func() { n.update(2, n.new) },
		24: func() { n.raise(true) }}
	go func() { // all are told at once: it goes on without a pause
		for _, c := range commands {
			shell.Tell(me(t) + " " + c)
		}
	}()
	for i, c := range commands {
		shell.Done(c)
		if update := updates[i]; update != nil {
			update()
		}
	}
	if s := n.status(); s.Version != 2 {
		t.Errorf("%+v", s)
	}
	for name, data := range files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s has %d bytes that are not those that were written, %v", name, len(got), err)
		}
	}
}
