package solo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"headrace"
	"headrace/data/datatest"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

const (
	callEnv = "HEADRACE_TEST_CALL"
	// metricsEnv tells a client where the daemon serves its metrics.
	metricsEnv = "HEADRACE_TEST_METRICS"
)

// TestMain makes the test binary serve as another user's client.
func TestMain(m *testing.M) {
	if os.Getenv(callEnv) != "" {
		callAsClient(os.Getenv(callEnv), os.Args[1:])
		return
	}
	testkit.M{M: m}.Run()
}

// callAsClient makes one call for each argument (VERB ID) and prints the code of
// each answer, "ok" or what Run or List gave.
func callAsClient(socket string, args []string) {
	client := wireconnect.NewTaskServiceClient(wire.NewHTTPClient(socket), wire.BaseURL)
	for _, a := range args {
		verb, id, _ := strings.Cut(a, " ")
		if verb == "application" {
			fmt.Println(callApplication(socket, id))
			continue
		}
		if verb == "attack" {
			attack(socket, id)
			return
		}
		if answer, is := callData(socket, verb, id); is {
			fmt.Println(answer)
			continue
		}
		fmt.Println(callOnce(client, verb, id))
	}
}

func callOnce(client wireconnect.TaskServiceClient, verb, id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	q := &wire.VerbRequest{Id: id}
	var err error
	answer := "ok"
	switch verb {
	case "run", "runroot", "runat", "runlarge", "runpaths":
		r := &wire.RunRequest{Argv: []string{"/bin/sh", "-c", id}}
		switch n, _ := strconv.Atoi(id); verb {
		case "runroot":
			r.User = "root"
		case "runat":
			r.Priority = uint32(n)
		case "runlarge":
			r.Env = []string{"X=" + strings.Repeat("x", n)}
		case "runpaths": // one file, many times
			path := "/etc" + strings.Repeat("/", 90) + "passwd"
			r.Input = &wire.Input{NoWarm: true, Paths: slices.Repeat([]string{path}, n/len(path))}
		}
		var res *wire.RunResponse
		if res, err = client.Run(ctx, r); err == nil {
			answer = res.Id
		}
	case "input", "stream": // a task that reads a file itself, or has it dealt
		r := &wire.RunRequest{Argv: []string{"cat"}, Input: &wire.Input{Paths: []string{id}}}
		if verb == "stream" {
			r.Input.Split = wire.Split_SPLIT_RAW
		}
		var res *wire.RunResponse
		if res, err = client.Run(ctx, r); err == nil {
			answer = res.Id
		}
	case "list", "why":
		var res *wire.ListResponse
		if res, err = client.List(ctx, &wire.ListRequest{All: true}); err == nil {
			answer = ""
			for _, t := range res.Tasks {
				answer += t.Id + ":" + t.User + " "
			}
		}
	case "wait":
		answer, err = waitFor(ctx, client, id)
	case "get":
		_, err = client.Get(ctx, &wire.GetRequest{Id: id})
	case "logs":
		answer, err = allLogs(ctx, client, id)
	case "suspend":
		_, err = client.Suspend(ctx, q)
	case "suspend-slowly", "kill-slowly": // with a grace beyond the limit of users
		q.Grace = 61
		if verb == "kill-slowly" {
			_, err = client.Kill(ctx, q)
		} else {
			_, err = client.Suspend(ctx, q)
		}
	case "resume":
		_, err = client.Resume(ctx, q)
	case "checkpoint":
		_, err = client.Checkpoint(ctx, q)
	case "kill":
		_, err = client.Kill(ctx, q)
	case "forget":
		_, err = client.Forget(ctx, q)
	}
	if err != nil && verb == "why" {
		return err.Error()
	}
	if err != nil {
		return connect.CodeOf(err).String()
	}
	return answer
}

// waitFor returns the state in which a task ends.
func waitFor(ctx context.Context, client wireconnect.TaskServiceClient, id string) (string, error) {
	stream, err := client.Watch(ctx, &wire.WatchRequest{Id: id})
	if err != nil {
		return "", err
	}
	defer stream.Close()
	state := ""
	for stream.Receive() {
		for _, t := range stream.Msg().Tasks {
			state = t.State
		}
	}
	return state, stream.Err()
}

func allLogs(ctx context.Context, client wireconnect.TaskServiceClient, id string) (string, error) {
	stream, err := client.Logs(ctx, &wire.LogsRequest{Id: id, Follow: true})
	if err != nil {
		return "", err
	}
	defer stream.Close()
	var b strings.Builder
	for stream.Receive() {
		b.Write(stream.Msg().Data)
	}
	return strings.TrimSpace(b.String()), stream.Err()
}

// asUser makes calls as another user; the test must be run by root.
func asUser(t *testing.T, uid uint32, socket string, calls ...string) []string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", calls...)
	cmd.Env = append(os.Environ(), callEnv+"="+socket, exitAtOnce)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("client as user %d: %v: %s", uid, err, out)
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n")
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can call as several users")
	}
}

func TestUsersAreApart(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Cost)
	b.cfg.Slots = 4
	b.start()
	socket := wire.SocketPath(b.cfg.StateDir)
	mine := asUser(t, 4001, socket, "run work")[0]
	theirs := asUser(t, 4002, socket, "run work")[0]
	roots := b.run(headrace.Normal)
	b.awaitState(headrace.TaskID(theirs), headrace.Running)
	var calls []string
	for _, id := range []string{theirs, string(roots)} {
		for _, verb := range []string{"get", "wait", "logs", "suspend", "resume", "checkpoint", "kill", "forget"} {
			calls = append(calls, verb+" "+id)
		}
	}
	for i, got := range asUser(t, 4001, socket, calls...) {
		if got != "not_found" {
			t.Errorf("%s as another user: %s, want not_found", calls[i], got)
		}
	}
	got := asUser(t, 4001, socket, "list", "get "+mine, "runroot work", "suspend "+mine, "kill "+mine, "forget "+mine)
	want := []string{mine + ":4001 ", "ok", "permission_denied", "ok", "ok", "ok"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("own tasks, call %d: %q, want %q", i, got[i], want[i])
		}
	}
	res, err := b.tasks.List(b.ctx(), &wire.ListRequest{})
	if err != nil || len(res.Tasks) != 2 {
		t.Errorf("root sees %v, %v; want both other tasks", res, err)
	}
	if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: theirs}); err != nil {
		t.Error("root may touch every task:", err)
	}
}

// TestNobodyReadsThroughTheDaemon: a file that the daemon has open, and that others
// may read but cannot reach, is not reached through the daemon's own descriptors.
// TestSubordinateIdsAreNoUsers: whoever may have processes with numbers beside the own one is one user all the same.
func TestSubordinateIdsAreNoUsers(t *testing.T) {
	userFiles(t)("guest:x:4001:4001::/:/bin/sh\nnamed:x:104099:104099::/:/bin/sh\n", "", "guest:100000:65536\n")
	b := newBed(t, policy.Wait)
	b.cfg.UserConnections = 8
	b.start()
	socket := wire.SocketPath(b.cfg.StateDir)
	for uid, want := range map[uint32]string{4001: "t", 104099: "t", 100006: "permission_denied", 4002: "t"} {
		if got := asUser(t, uid, socket, "run work"); !strings.HasPrefix(got[0], want) {
			t.Errorf("user %d: %q, want %q", uid, got, want)
		}
	}
	var notes []string
	for uid := range uint32(4) {
		note, end := startAttack(t, 100001+uid, socket, "connections")
		defer end()
		notes = append(notes, note)
	}
	if got := asUser(t, 4002, socket, "list"); !strings.HasPrefix(got[0], "t") {
		t.Errorf("another user gets %q while four numbers of one hold %q", got, notes)
	}
}

func TestNobodyReadsThroughTheDaemon(t *testing.T) {
	needRoot(t)
	b := newBed(t, policy.Cost)
	b.start()
	dir := testkit.OpenDir(t)
	if err := os.Mkdir(filepath.Join(dir, "closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(testkit.File(t, dir, "closed/secret", 12345, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close() // the daemon is in this process
	own := fmt.Sprintf("/proc/self/fd/%d", held.Fd())
	if err := os.Symlink(own, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	var calls []string
	for _, path := range []string{own, "/proc/self/fd/*", "/dev/fd/*", dir + "/link", "/proc/self/root/" + dir + "/closed/secret"} {
		for _, verb := range []string{"cache", "warm", "evict", "input", "stream"} {
			calls = append(calls, verb+" "+path)
		}
	}
	for i, got := range asUser(t, 4001, wire.SocketPath(b.cfg.StateDir), calls...) {
		refused := got == "invalid_argument" || strings.Contains(got, "link of /proc") ||
			strings.Contains(got, "no file matches it") || strings.Contains(got, " 1 failed")
		if !refused || strings.Contains(got, "12345") {
			t.Errorf("%s: %s", calls[i], got)
		}
	}
}

// TestCacheNamesNobodyElse: who keeps a file in memory is told to those who may see
// that user's tasks.
func TestCacheNamesNobodyElse(t *testing.T) {
	needRoot(t)
	datatest.NeedCachestat(t)
	b := newBed(t, policy.Cost)
	b.start()
	socket := wire.SocketPath(b.cfg.StateDir)
	path := testkit.ColdFile(t, testkit.OpenDir(t), "shared", datatest.FileSize, 0o644)
	if s := b.calls().Warm(&wire.WarmRequest{Paths: []string{path}}); s.State != "done" {
		t.Fatalf("warmed: %v", s)
	}
	asUser(t, 4001, socket, "warm "+path)
	for uid, want := range map[uint32]string{4001: "somebody else, w2 of 4001", 4002: "somebody else", 0: "w1 of root, w2 of 4001"} {
		if got := asUser(t, uid, socket, "holders "+path); got[0] != want {
			t.Errorf("user %d is told %q, want %q", uid, got, want)
		}
	}
}

// TestWatchTellsInPieces: much news comes in several messages, and completely.
func TestWatchTellsInPieces(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.start()
	want := map[string]bool{}
	for range 2*watchTasks + 1 {
		want[string(b.run(headrace.Normal, held))] = true
	}
	watch, err := b.tasks.Watch(b.ctx(), &wire.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	for len(want) > 0 && watch.Receive() {
		tasks := watch.Msg().Tasks
		if len(tasks) > watchTasks {
			t.Errorf("a message tells of %d tasks, want at most %d", len(tasks), watchTasks)
		}
		for _, task := range tasks {
			delete(want, task.Id)
		}
	}
	if len(want) > 0 {
		t.Errorf("of %d tasks nothing is told: %v", len(want), watch.Err())
	}
}
