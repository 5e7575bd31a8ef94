package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"headrace/dfs/dfstest"
	"headrace/internal/freeport"
	"headrace/internal/testkit"
)

// TestSoloWithFileSystem: the daemon of a machine is a node of a file system as well. That has failed at first, for somebody else has
// its directory, and tasks run; it comes up when that is over, and ends with the daemon.
func TestSoloWithFileSystem(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this starts daemons")
	}
	headrace, dir := testkit.Headrace(t), t.TempDir()
	fs := filepath.Join(dir, "fs")
	env := append(os.Environ(), "HEADRACE_STATE_DIR="+filepath.Join(dir, "state"))
	run := func(in string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), headrace, args...)
		cmd.Env, cmd.Stdin = env, strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("headrace %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	port := func() string {
		l, err := freeport.Listen("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	}
	other := dfstest.Launch(t, fs, "--http-port", port())
	run("before", "dfs", "put", "-", "/f", "--fs", other.HDFS)
	solo, _ := launch(t, env, "the file system has failed; it is started again", headrace, "solo", "--dfs", fs, "--dfs-port", "0", "--dfs-data-port", "0", "--dfs-http-port", port())
	testkit.Await(t, "the daemon to be up", func() bool {
		log, _ := solo.log.read()
		return strings.Contains(log, "the daemon is up")
	})
	run("", "run", "--wait", "--", "true")
	other.Cmd.Process.Signal(syscall.SIGTERM)
	<-other.Ended
	address, log := "", ""
	testkit.Await(t, "the file system to be up", func() bool {
		log, _ = solo.log.read()
		if m := regexp.MustCompile(`the file system is up" .*(hdfs://[0-9.:]+)`).FindStringSubmatch(log); m != nil {
			address = m[1]
		}
		return address != ""
	}, &log)
	if out := run("", "dfs", "cat", "/f", "--fs", address); out != "before" {
		t.Errorf("cat: %q", out)
	}
	solo.cmd.Process.Signal(syscall.SIGTERM)
	<-solo.ended
	log, _ = solo.log.read()
	if solo.cmd.ProcessState.ExitCode() != 0 || strings.Contains(log, "has not ended well") || strings.Contains(log, "panic") {
		t.Errorf("%v\n%s", solo.cmd.ProcessState, log)
	}
	last := dfstest.Launch(t, fs, "--http-port", port()) // it has given up the directory
	if out := run("", "dfs", "cat", "/f", "--fs", last.HDFS); out != "before" {
		t.Errorf("cat: %q", out)
	}
}
