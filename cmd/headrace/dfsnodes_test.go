package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/cli"
	"headrace/cmd/headrace/filesystem"
	"headrace/dfs/dfstest"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/internal/testkit"
)

// dfsProcess is a running headrace dfs start.
type dfsProcess struct {
	*dfstest.Process
	t  *testing.T
	fs string
}

func startNode(t *testing.T, dir, address string, args ...string) *dfsProcess {
	t.Helper()
	p := dfstest.Launch(t, dir, append([]string{"--listen", address, "--http-port", "0", "--peer-port", "0", "--token-file", filepath.Join(filepath.Dir(dir), "token")}, args...)...)
	return &dfsProcess{p, t, p.HDFS}
}

func (n *dfsProcess) kill(sig syscall.Signal) {
	n.t.Helper()
	n.Cmd.Process.Signal(sig)
	<-n.Ended
	if code := n.Cmd.ProcessState.ExitCode(); sig != syscall.SIGKILL && code != 0 {
		n.t.Errorf("the node ends with %d", code)
	}
}

func dfsRun(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	if code := execute(t.Context(), append([]string{"dfs"}, args...), nil, &out, &errOut); code != want {
		t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, want, &out, &errOut)
	}
	return out.String() + errOut.String()
}

// ring asks a node for all.
func (n *dfsProcess) ring() (r filesystem.Ring) {
	n.t.Helper()
	var out, errOut bytes.Buffer
	if code := execute(n.t.Context(), []string{"dfs", "ring", "--fs", n.fs, "--format", "json"}, nil, &out, &errOut); code != 0 {
		n.t.Logf("ring: %d, %s", code, &errOut)
		return r
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		n.t.Error(err)
	}
	return r
}

// nodeOf is one in a ring, by its address of RPC.
func nodeOf(r filesystem.Ring, fs string) filesystem.Node {
	for _, n := range r.Nodes {
		if "hdfs://"+n.Address == fs {
			return n
		}
	}
	return filesystem.Node{}
}

// as calls a method as a user.
func (n *dfsProcess) as(user string, id ipc.ClientID, call int32, method string, q, a proto.Message) error {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	c, err := ipc.Dial(ctx, strings.TrimPrefix(n.fs, "hdfs://"), ipc.Options{Protocol: "org.apache.hadoop.hdfs.protocol.ClientProtocol", User: ipc.User{Name: user}, ID: id})
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Retry(ctx, call, 0, method, q, a)
}

func (n *dfsProcess) mkdir(user, path string) error {
	mode := uint32(0o755)
	var id ipc.ClientID
	rand.Read(id[:])
	return n.as(user, id, 1, "mkdirs", &pb.MkdirsRequestProto{Src: &path, Masked: &pb.FsPermissionProto{Perm: &mode}, CreateParent: proto.Bool(true)}, &pb.MkdirsResponseProto{})
}

func (n *dfsProcess) rename(id ipc.ClientID, call int32, from, to string) (bool, error) {
	var a pb.RenameResponseProto
	err := n.as("root", id, call, "rename", &pb.RenameRequestProto{Src: &from, Dst: &to}, &a)
	return a.GetResult(), err
}

// TestDFSNodes: three processes are one file system. Each answers everybody, and lets a user do no more than the others do; one is
// killed and comes back elsewhere; one is drained and leaves.
func TestDFSNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("programs are not built in short tests")
	}
	if os.Geteuid() != 0 {
		t.Skip("the test is several users, which only root may be")
	}
	t.Setenv("HADOOP_USER_NAME", "root")
	dir, whole := t.TempDir(), t
	at := func(name string) string { return filepath.Join(dir, name) }
	dfsRun(t, cli.ExitUsage, "start", "--dir", at("x"), "--join", "127.0.0.31")
	dfsRun(t, cli.ExitUsage, "start", "--dir", at("x"), "--rack", "/dc1//r1")

	a := startNode(t, at("a"), "127.0.0.31")
	if i, err := os.Stat(at("token")); err != nil || i.Mode().Perm() != 0o600 {
		t.Fatal(i.Mode(), err)
	}
	first := a.ring()
	b := startNode(t, at("b"), "127.0.0.32", "--join", first.Nodes[0].Peer, "--host-name", "b.test")
	c := startNode(t, at("c"), "127.0.0.33", "--join", first.Nodes[0].Peer)
	all := []*dfsProcess{a, b, c}
	complete := func() {
		t.Helper()
		for _, n := range all {
			testkit.Await(t, "all nodes, three that vote, and nothing to be moved", func() bool {
				r := n.ring()
				votes := 0
				for _, m := range r.Nodes {
					if m.State == "up" && m.Votes {
						votes++
					}
				}
				return len(r.Nodes) == len(all) && votes == 3 && r.Moves == 0
			})
		}
	}
	complete()

	t.Run("names of machines", func(t *testing.T) {
		own, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"127.0.0.31": own, "127.0.0.32": "b.test", "127.0.0.33": own}
		for _, n := range all {
			var got map[string]string
			testkit.Await(t, "names of all machines", func() bool {
				var r pb.GetDatanodeReportResponseProto
				if err := n.as("root", ipc.ClientID{}, 1, "getDatanodeReport", &pb.GetDatanodeReportRequestProto{Type: pb.DatanodeReportTypeProto_ALL.Enum()}, &r); err != nil {
					t.Fatal(err)
				}
				got = map[string]string{}
				for _, d := range r.Di {
					got[d.GetId().GetIpAddr()] = d.GetId().GetHostName()
				}
				return maps.Equal(got, want)
			}, &got)
		}
	})

	t.Run("strangers", func(t *testing.T) {
		if err := os.Mkdir(at("other"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at("other/token"), []byte("another-token-as-long-as-it-is-to-be\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		text := dfsRun(t, 1, "start", "--dir", at("other/d"), "--port", "0", "--data-port", "0", "--http-port", "0", "--peer-port", "0", "--token-file", at("other/token"),
			"--join", first.Nodes[0].Peer)
		if !strings.Contains(text, "it has another token") {
			t.Error(text)
		}
		alone := startNode(whole, at("alone"), "127.0.0.35")
		alone.kill(syscall.SIGTERM)
		text = dfsRun(t, 1, "start", "--dir", at("alone"), "--port", "0", "--data-port", "0", "--http-port", "0", "--peer-port", "0", "--token-file", at("token"),
			"--join", first.Nodes[0].Peer)
		if !strings.Contains(text, "the node belongs to another file system") {
			t.Error(text)
		}
		nc, err := net.Dial("tcp", first.Nodes[0].Peer)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(20 * time.Second))
		nc.Write([]byte("hrquorum1\n\x00\x00\x00\x00\x00\x00\x00\x00"))
		if got, _ := io.ReadAll(nc); len(got) > 10 { // an alert
			t.Errorf("%q", got)
		}
	})

	t.Run("users", func(t *testing.T) {
		if err := b.mkdir("root", "/home"); err != nil {
			t.Fatal(err)
		}
		for _, n := range all {
			if err := n.mkdir("anna", "/home/anna"); err == nil || !strings.Contains(err.Error(), "Permission denied: user=anna, access=WRITE") {
				t.Errorf("%s: %v", n.fs, err)
			}
			t.Setenv("HADOOP_USER_NAME", "anna")
			if text := dfsRun(t, 1, "drain", "--fs", n.fs, "127.0.0.33"); !strings.Contains(text, "Superuser privilege is required") {
				t.Error(text)
			}
			t.Setenv("HADOOP_USER_NAME", "root")
			// What nodes say to each other is no protocol for clients.
			cl, err := ipc.Dial(t.Context(), strings.TrimPrefix(n.fs, "hdfs://"), ipc.Options{Protocol: "headrace.v1.RingService", User: ipc.User{Name: "anna"}})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if err := cl.Call(t.Context(), "Pass", &pb.MsyncRequestProto{}, &pb.MsyncResponseProto{}); err == nil || !strings.Contains(err.Error(), "Unknown protocol") {
				t.Error(err)
			}
		}
	})

	var id ipc.ClientID
	rand.Read(id[:])
	t.Run("a leader dies", func(t *testing.T) {
		var lead, left, other *dfsProcess
		r := a.ring()
		for _, n := range all {
			if nodeOf(r, n.fs).Leads {
				lead = n
			} else if left == nil {
				left = n
			} else {
				other = n
			}
		}
		if err := left.mkdir("root", "/from"); err != nil {
			t.Fatal(err)
		}
		for i, n := range []*dfsProcess{left, other, lead} {
			if ok, err := n.rename(id, 7, "/from", "/to"); !ok || err != nil {
				t.Errorf("time %d: %v, %v", i, ok, err)
			}
		}
		if ok, err := left.rename(id, 8, "/from", "/to"); ok || err != nil {
			t.Errorf("another call: %v, %v", ok, err)
		}
		lead.kill(syscall.SIGKILL)
		for i, n := range []*dfsProcess{left, other} {
			if ok, err := n.rename(id, 7, "/from", "/to"); !ok || err != nil {
				t.Errorf("after it, time %d: %v, %v", i, ok, err)
			}
			if err := n.mkdir("root", "/after"); err != nil {
				t.Error(err)
			}
		}
		testkit.Await(t, "it to be down", func() bool { return nodeOf(left.ring(), lead.fs).State == "down" })
		name := map[*dfsProcess]string{a: "a", b: "b", c: "c"}[lead]
		again := startNode(whole, at(name), strings.Split(strings.TrimPrefix(lead.fs, "hdfs://"), ":")[0])
		testkit.Await(t, "it to be back, at another port", func() bool { return nodeOf(left.ring(), again.fs).State == "up" })
		testkit.Await(t, "it to know so", func() bool { return nodeOf(again.ring(), again.fs).State == "up" })
		if err := again.mkdir("root", "/back"); err != nil {
			t.Error(err)
		}
		*lead = *again
	})

	t.Run("client-config", func(t *testing.T) {
		dfsRun(t, 0, "client-config", "--fs", b.fs, at("conf"))
		dfsRun(t, cli.ExitUsage, "client-config", "--fs", b.fs, "--name", "my_fs", at("conf")) // to Java that is no host
		site, err := os.ReadFile(at("conf/hdfs-site.xml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range all {
			if !bytes.Contains(site, []byte("<value>"+strings.TrimPrefix(n.fs, "hdfs://")+"</value>")) {
				t.Errorf("%s is not in\n%s", n.fs, site)
			}
			if address := strings.TrimPrefix(n.fs, "hdfs://"); nodeOf(b.ring(), n.fs).Leads && !bytes.Contains(site, []byte(".n1</name><value>"+address+"<")) {
				t.Errorf("%s leads, and is not the first in\n%s", n.fs, site)
			}
		}
	})

	d := startNode(t, at("d"), "127.0.0.34", "--join", nodeOf(b.ring(), b.fs).Peer)
	all = append(all, d)
	complete()
	t.Run("not where it says", func(t *testing.T) {
		text := dfsRun(t, 1, "start", "--dir", at("unreached"), "--listen", "127.0.0.36", "--advertise", "127.0.0.99", "--port", "0", "--data-port", "0", "--http-port", "0", "--peer-port", "0",
			"--token-file", at("token"), "--join", nodeOf(b.ring(), b.fs).Peer)
		if !strings.Contains(text, "does not reach the one that is to join at 127.0.0.99:") || !strings.Contains(text, "--advertise") {
			t.Error(text)
		}
		if r := b.ring(); len(r.Nodes) != len(all) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("another rack", func(t *testing.T) {
		for _, c := range []struct{ says, stands string }{{"r2", "r2"}, {"", "r2"}} {
			d.kill(syscall.SIGTERM)
			flags := []string{}
			if c.says != "" {
				flags = []string{"--rack", c.says}
			}
			*d = *startNode(whole, at("d"), "127.0.0.34", flags...)
			testkit.Await(t, "it to stand there", func() bool { n := nodeOf(b.ring(), d.fs); return n.State == "up" && n.Rack == c.stands })
			complete()
		}
		dfsRun(t, 0, "fsck", "--fs", b.fs)
	})
	t.Run("a node leaves", func(t *testing.T) {
		dfsRun(t, 1, "remove", "--fs", b.fs, "127.0.0.33")
		dfsRun(t, 1, "drain", "--fs", b.fs, "127.0.0.99")
		dfsRun(t, 0, "drain", "--fs", b.fs, "127.0.0.33")
		dfsRun(t, 0, "fill", "--fs", b.fs, "127.0.0.33")
		dfsRun(t, 0, "drain", "--fs", b.fs, "127.0.0.33")
		testkit.Await(t, "it to hold nothing, and to vote no more", func() bool {
			n := nodeOf(b.ring(), c.fs)
			return n.Leaving && n.Holds == 0 && !n.Votes
		})
		c.kill(syscall.SIGTERM)
		testkit.Await(t, "it to be off the ring", func() bool { // its seat goes after its vote
			var out bytes.Buffer
			return execute(t.Context(), []string{"dfs", "remove", "--fs", b.fs, "127.0.0.33"}, nil, &out, &out) == 0
		})
		if r := d.ring(); len(r.Nodes) != 3 || r.Missing != 0 {
			t.Errorf("%+v", r)
		}
		dfsRun(t, 0, "fsck", "--fs", a.fs+","+strings.TrimPrefix(b.fs, "hdfs://"))
	})
	d.kill(syscall.SIGTERM)
	b.kill(syscall.SIGTERM)
	a.kill(syscall.SIGTERM)
}

// TestDFSDemo: the demonstration shows what it says, and leaves nothing.
func TestDFSDemo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("programs are not built in short tests")
	}
	temp := t.TempDir()
	cmd := exec.Command(testkit.Headrace(t), "dfs", "demo", "--nodes", "3", "--any-ports")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "HADOOP_USER_NAME=")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("all files are read by all nodes: all bytes are right")) {
		t.Errorf("%v\n%s", err, out)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	dfsRun(t, cli.ExitUsage, "demo", "--nodes", "2")
}

// TestDFSFoundedAgain: the first of three nodes has lost its directory and is started as at first, at the same address. That is a file system
// of its own, and the two others go on without it; as it says, it joins them with an empty directory.
func TestDFSFoundedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("programs are not built in short tests")
	}
	t.Setenv("HADOOP_USER_NAME", "root")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	a := startNode(t, at("a"), "127.0.0.41")
	peer := a.ring().Nodes[0].Peer
	_, port, err := net.SplitHostPort(peer)
	if err != nil {
		t.Fatal(err)
	}
	b := startNode(t, at("b"), "127.0.0.42", "--join", peer)
	c := startNode(t, at("c"), "127.0.0.43", "--join", peer)
	votes := func(n *dfsProcess) (up int) {
		for _, m := range n.ring().Nodes {
			if m.Votes && m.State == "up" {
				up++
			}
		}
		return up
	}
	testkit.Await(t, "three that vote", func() bool { return votes(c) == 3 })
	if err := b.mkdir("root", "/kept"); err != nil {
		t.Fatal(err)
	}
	lost := func(n *dfsProcess) {
		n.kill(syscall.SIGKILL)
		if err := os.RemoveAll(at("a")); err != nil {
			t.Fatal(err)
		}
	}
	lost(a)
	again := startNode(t, at("a"), "127.0.0.41", "--peer-port", port)
	testkit.Await(t, "the lost one to be down", func() bool { return votes(b) == 2 && nodeOf(b.ring(), a.fs).State == "down" })
	for _, n := range []*dfsProcess{b, c} {
		if err := n.mkdir("root", "/kept/on"); err != nil {
			t.Error(err)
		}
	}
	if err := again.mkdir("root", "/own"); err != nil {
		t.Error(err)
	}
	if r := again.ring(); len(r.Nodes) != 1 || !r.Nodes[0].Leads {
		t.Errorf("%+v", r)
	}
	if r := c.ring(); len(r.Nodes) != 3 {
		t.Errorf("%+v", r)
	}

	lost(again)
	d := startNode(t, at("a"), "127.0.0.41", "--peer-port", port, "--join", nodeOf(b.ring(), b.fs).Peer)
	testkit.Await(t, "it to be one of them, beside the one that it was", func() bool {
		r := c.ring()
		return len(r.Nodes) == 4 && nodeOf(r, d.fs).State == "up" && nodeOf(r, a.fs).State == "down"
	})
	if err := d.mkdir("root", "/kept/on/and"); err != nil {
		t.Error(err)
	}
	for _, n := range []*dfsProcess{d, c, b} {
		n.kill(syscall.SIGTERM)
	}
}
