package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"headrace/cli"
	"headrace/hdfs/pb"
)

// startDFS runs headrace dfs start until the test ends, and returns its address.
func startDFS(t *testing.T, dir string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, to := io.Pipe()
	var log bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		defer to.Close()
		ended <- execute(ctx, []string{"dfs", "start", "--dir", dir, "--port", "0", "--data-port", "0"}, nil, to, &log)
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

// TestDFSVerbs: status, ls and fsck tell what there is, to people and to programs.
func TestDFSVerbs(t *testing.T) {
	t.Setenv("HADOOP_USER_NAME", "")
	dir := t.TempDir()
	fs := startDFS(t, dir)
	run := func(want int, args ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		if code := execute(t.Context(), append([]string{"dfs"}, args...), nil, &out, &errOut); code != want {
			t.Errorf("%v: exit code %d\n%s%s", args, code, &out, &errOut)
		}
		return out.String() + errOut.String()
	}
	contains := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("want %q in\n%s", want, text)
			}
		}
	}
	if err := (dfsVerbs{&app{}}).reach(t.Context(), fs, func(a asker) error {
		path, mode := "/d\nx", uint32(0o1750)
		return a.Call(a.ctx, "mkdirs", &pb.MkdirsRequestProto{Src: &path, Masked: &pb.FsPermissionProto{Perm: &mode}, CreateParent: proto.Bool(true)}, &pb.MkdirsResponseProto{})
	}); err != nil {
		t.Fatal(err)
	}

	contains(run(0, "ls", "--fs", fs), "supergroup", "d; x") // a name does not break the table
	var entries []dfsEntry
	if err := json.Unmarshal([]byte(run(0, "ls", "--fs", fs, "--format", "json", "/")), &entries); err != nil || len(entries) != 1 || entries[0].Name != "d\nx" || entries[0].Mode != "dtrwxr-x---" {
		t.Errorf("%+v, %v", entries, err)
	}
	contains(run(cli.ExitNotFound, "ls", "--fs", fs, "/none"), "there is no /none")
	contains(run(0, "status", "--fs", fs), "capacity", "without a good one")
	var s dfsStatus
	if err := json.Unmarshal([]byte(run(0, "status", "--fs", fs, "--format", "json")), &s); err != nil || s.Address != fs || s.Capacity == 0 || s.Missing != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	contains(run(0, "fsck", "--fs", fs), "all files below / have a good copy of each block")
	t.Setenv("HADOOP_USER_NAME", "anna")
	contains(run(1, "fsck", "--fs", fs), "Superuser privilege is required")

	for _, name := range []string{"meta.db", "LOCK", "blocks"} {
		if i, err := os.Stat(filepath.Join(dir, name)); err != nil || i.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, i.Mode(), err)
		}
	}
}
