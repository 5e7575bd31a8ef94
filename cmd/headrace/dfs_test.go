package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"headrace/cli"
	"headrace/cmd/headrace/filesystem"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
	"headrace/internal/freeport"
	"headrace/internal/testkit"
)

// startDFS runs headrace dfs start until the test ends, and returns its address.
func startDFS(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, to := io.Pipe()
	var log bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		defer to.Close()
		ended <- execute(ctx, append([]string{"dfs", "start", "--dir", dir, "--port", "0", "--data-port", "0"}, flags...), nil, to, &log)
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 && code != cli.ExitInterrupted {
			t.Errorf("exit code %d\n%s", code, &log)
		}
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	return strings.TrimSpace(line)
}

// TestDFSService: a node starts, and starts again, with the flags of the service and of the example beside it.
func TestDFSService(t *testing.T) {
	t.Setenv("HADOOP_USER_NAME", "")
	state := t.TempDir()
	var words []string
	for file, before := range map[string]string{"headrace-dfs.service": "ExecStart=", "dfs.env": "HEADRACE_DFS="} {
		text, err := os.ReadFile(filepath.Join("../../systemd", file))
		if err != nil {
			t.Fatal(err)
		}
		_, line, found := strings.Cut(string(text), "\n"+before)
		line, _, _ = strings.Cut(line, "\n")
		if !found || !strings.Contains(line, "/var/lib/headrace-dfs") {
			t.Fatalf("no directory in %s of %s", before, file)
		}
		words = append(words, strings.Fields(strings.ReplaceAll(line, "/var/lib/headrace-dfs", state))...)
	}
	flag := func(name string) string {
		t.Helper()
		i := slices.Index(words, name)
		if i < 0 || i+1 == len(words) {
			t.Fatalf("no %s in %q", name, words)
		}
		return words[i+1]
	}
	for range 2 {
		t.Run("start", func(t *testing.T) {
			startDFS(t, flag("--dir"), "--token-file", flag("--token-file"), "--peer-port", "0", "--http-port", "0")
		})
	}
}

func whoami(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

// TestDFSVerbs: status, ls and fsck tell what there is, to people and to programs.
func TestDFSVerbs(t *testing.T) {
	t.Setenv("HADOOP_USER_NAME", "")
	dir := t.TempDir()
	fs := startDFS(t, dir)
	contains := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("want %q in\n%s", want, text)
			}
		}
	}
	path, mode := "/d\nx", uint32(0o1750)
	n := dfsProcess{t: t, fs: fs}
	if err := n.as(whoami(t), ipc.ClientID{}, 1, "mkdirs", &pb.MkdirsRequestProto{Src: &path, Masked: &pb.FsPermissionProto{Perm: &mode}, CreateParent: proto.Bool(true)}, &pb.MkdirsResponseProto{}); err != nil {
		t.Fatal(err)
	}

	contains(dfsRun(t, 0, "ls", "--fs", fs), "supergroup", "d; x") // a name does not break the table
	var entries []filesystem.Entry
	if err := json.Unmarshal([]byte(dfsRun(t, 0, "ls", "--fs", fs, "--format", "json", "/")), &entries); err != nil || len(entries) != 1 || entries[0].Name != "d\nx" || entries[0].Mode != "dtrwxr-x---" {
		t.Errorf("%+v, %v", entries, err)
	}
	contains(dfsRun(t, 0, "ls", "--fs", fs, "../."), "d; x")
	contains(dfsRun(t, cli.ExitNotFound, "ls", "--fs", fs, "/none"), "there is no /none")
	contains(dfsRun(t, 0, "status", "--fs", fs), "capacity", "without a good one")
	var s filesystem.Status
	if err := json.Unmarshal([]byte(dfsRun(t, 0, "status", "--fs", fs, "--format", "json")), &s); err != nil || s.Address != fs || s.Capacity == 0 || s.Missing != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	contains(dfsRun(t, 0, "fsck", "--fs", fs), "all files below / have a good copy of each block")
	contains(dfsRun(t, cli.ExitNotFound, "fsck", "--fs", fs, "/none"), "there is no /none")
	contains(dfsRun(t, cli.ExitNotFound, "fsck", "--fs", fs, "none"), "there is no /none")
	contains(dfsRun(t, 0, "fsck", "--fs", fs, "none/.."), "all files below / have")
	t.Setenv("HADOOP_USER_NAME", "anna")
	contains(dfsRun(t, 1, "fsck", "--fs", fs), "Superuser privilege is required: user "+whoami(t)+", or group supergroup")

	for _, name := range []string{"meta.db", "LOCK", "blocks"} {
		if i, err := os.Stat(filepath.Join(dir, name)); err != nil || i.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, i.Mode(), err)
		}
	}
}

// TestDFSGaps: status and fsck tell of parts of disks that could not be read, and where they are.
func TestDFSGaps(t *testing.T) {
	t.Setenv("HADOOP_USER_NAME", "")
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("before", func(t *testing.T) {
		fs := startDFS(t, dir)
		dfsRun(t, 0, "put", "--fs", fs, file, "/f")
		if said := dfsRun(t, 0, "fsck", "--fs", fs); strings.Contains(said, "could not be read") {
			t.Error(said)
		}
	})
	blocks, err := filepath.Glob(filepath.Join(dir, "blocks", "files", "*", "*"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("%v, %v", blocks, err)
	}
	// A file that cannot be read, whoever reads it.
	if err := errors.Join(os.Remove(filepath.Join(dir, "blocks", "index")), os.Remove(blocks[0]), os.Mkdir(blocks[0], 0o700)); err != nil {
		t.Fatal(err)
	}
	fs := startDFS(t, dir)
	said := dfsRun(t, 1, "fsck", "--fs", fs)
	for _, want := range []string{"/f\n", "disk " + filepath.Join(dir, "blocks") + ": the blocks of file ", " from byte 0 to its end could not be read at its start (", "is a directory", "); that is /f\n", "1 files cannot be read whole"} {
		if !strings.Contains(said, want) {
			t.Errorf("want %q in\n%s", want, said)
		}
	}
	dfsRun(t, 0, "put", "--fs", fs, file, "/g") // beside it
	if said := dfsRun(t, 0, "fsck", "--fs", fs, "/g"); strings.Contains(said, "/f") {
		t.Error(said)
	}
	dfsRun(t, 1, "fsck", "--fs", fs, "/f")
	c, err := ipc.Dial(t.Context(), strings.TrimPrefix(fs, "hdfs://"), ipc.Options{Protocol: "org.apache.hadoop.hdfs.protocol.ClientProtocol", User: ipc.User{Name: whoami(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Call(t.Context(), "delete", &pb.DeleteRequestProto{Src: proto.String("/f"), Recursive: proto.Bool(false)}, &pb.DeleteResponseProto{}); err != nil {
		t.Fatal(err)
	}
	if said := dfsRun(t, 1, "fsck", "--fs", fs); !strings.Contains(said, "that is a file that is not there any more") || !strings.Contains(said, "have a good copy of each block, but there are parts of disks") {
		t.Error(said)
	}
	if said := dfsRun(t, 0, "status", "--fs", fs); !strings.Contains(said, "1 parts of files of blocks cannot be read: headrace dfs fsck says which") {
		t.Error(said)
	}
	var s filesystem.Status
	if err := json.Unmarshal([]byte(dfsRun(t, 0, "status", "--fs", fs, "--format", "json")), &s); err != nil || s.Gaps != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	var r filesystem.Ring
	if err := json.Unmarshal([]byte(dfsRun(t, 0, "ring", "--fs", fs, "--format", "json")), &r); err != nil || r.Nodes[0].Gaps != 1 || len(r.Nodes[0].SomeGaps) != 1 || r.Nodes[0].SomeGaps[0].Disk != filepath.Join(dir, "blocks") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestDFSFailedDisk: a disk that a node does not use is named by what an operator looks at, with what can be done.
func TestDFSFailedDisk(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "link", "2")
	if err := os.Symlink(filepath.Join(dir, "nothing"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	fs := startDFS(t, filepath.Join(dir, "node"), "--disk", filepath.Join(dir, "1"), "--disk", bad)
	for verb, c := range map[string]struct {
		exit int
		want string
	}{
		"ring":   {0, "disk " + bad + ": it is out of use ("},
		"status": {0, "1 disks are out of use: headrace dfs ring says which"},
		"fsck":   {1, "start the node once with --new-disk " + bad},
	} {
		if said := dfsRun(t, c.exit, verb, "--fs", fs); !strings.Contains(said, c.want) {
			t.Errorf("%s: no %q in\n%s", verb, c.want, said)
		}
	}
	var r filesystem.Ring
	if err := json.Unmarshal([]byte(dfsRun(t, 0, "ring", "--fs", fs, "--format", "json")), &r); err != nil || len(r.Nodes) != 1 || len(r.Nodes[0].Failed) != 1 || r.Nodes[0].Failed[0].Disk != bad {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestDFSFiles: files come and go whole, are not replaced unasked, and nothing half is left.
func TestDFSFiles(t *testing.T) {
	t.Setenv("HADOOP_USER_NAME", "")
	l, err := freeport.Listen("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	address := startDFS(t, t.TempDir(), "--http-port", port)
	dir := t.TempDir()
	here, back := filepath.Join(dir, "a b%"), filepath.Join(dir, "back")
	text := strings.Repeat("0123456789abcde\n", 200_000) // more than a block
	if err := os.WriteFile(here, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		in, err := os.Open(here)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		var out, errOut bytes.Buffer
		if code := execute(t.Context(), append(append([]string{"dfs"}, args...), "--fs", address), in, &out, &errOut); code != want {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out.String()[:min(out.Len(), 1000)], &errOut)
		}
		return out.String() + errOut.String()
	}
	run(0, "put", here, "/")
	if got := run(0, "cat", "/a b%"); got != text {
		t.Errorf("%d bytes", len(got))
	}
	run(1, "put", here, "/")
	run(0, "put", here, "/", "--force")
	run(1, "put", "-", "/")
	run(0, "put", "-", "/in")
	run(cli.ExitNotFound, "put", here, "/nowhere/")
	run(cli.ExitNotFound, "cat", "/nowhere")
	run(1, "cat", "/")
	run(0, "get", "in", back)
	run(1, "get", "/in", back)
	run(0, "get", "/in", back, "-f")
	run(0, "get", "/in", dir)
	run(cli.ExitNotFound, "get", "/nowhere", dir)
	for _, name := range []string{"back", "in"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != text {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if all, _ := os.ReadDir(dir); len(all) != 3 {
		t.Errorf("left here: %v", all)
	}

	// WebHDFS has the checksum that HDFS has: of those of the blocks, with which the client's buffer of 32 bytes is filled.
	resp, err := http.Get("http://127.0.0.1:" + port + "/webhdfs/v1/in?op=GETFILECHECKSUM&user.name=" + whoami(t))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	block := md5.Sum(xfer.AppendSums(nil, []byte(text)))
	if want := fmt.Sprintf("000002000000000000000000%x", md5.Sum(append(block[:], make([]byte, 16)...))); err != nil || !strings.Contains(string(answer), want) {
		t.Errorf("%s, want %s, %v", answer, want, err)
	}

	// Directories come and go with all that is in them.
	tree, copied := filepath.Join(t.TempDir(), "tree"), filepath.Join(t.TempDir(), "copied")
	for name, text := range map[string]string{"a": "1", "d/é b": "2", "d/e/.c": ""} {
		name = filepath.Join(tree, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(tree, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	run(0, "put", tree, "/t")
	run(0, "put", tree, "/")
	run(1, "put", tree, "/")
	run(0, "put", tree, "/", "--force")
	run(1, "put", tree, "/in", "--force")
	for _, from := range []string{"/t", "/tree"} {
		run(0, "get", from, copied, "--force") // the second time in copied/tree
	}
	run(1, "get", "/tree", copied)
	for _, to := range []string{copied, filepath.Join(copied, "tree")} {
		if b, err := exec.Command("diff", "-r", "--exclude=tree", tree, to).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", to, err, b)
		}
	}
	if err := os.Symlink(".", filepath.Join(tree, "round")); err != nil {
		t.Fatal(err)
	}
	run(1, "put", tree, "/round")

	// Whoever is interrupted leaves nothing that looks like a file.
	ctx, cancel := context.WithCancel(t.Context())
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, []string{"dfs", "put", "-", "/half", "--fs", address}, in, io.Discard, io.Discard)
	}()
	out.WriteString(text)
	testkit.Await(t, "a part of the file", func() bool {
		l := run(0, "ls", "/")
		return strings.Contains(l, "half.") && strings.Contains(l, "._COPYING_")
	})
	cancel()
	out.Close()
	if code := <-ended; code != cli.ExitInterrupted {
		t.Errorf("exit code %d of one that was interrupted", code)
	}
	if got := run(0, "ls", "/"); strings.Contains(got, "half") {
		t.Errorf("left there:\n%s", got)
	}
}
