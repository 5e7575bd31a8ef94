package solo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"headrace"
	"headrace/policy"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

const (
	callEnv   = "HEADRACE_TEST_CALL"
	daemonEnv = "HEADRACE_TEST_DAEMON"
)

// TestMain makes the test binary serve as another user's client and as a daemon
// that can be killed.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(callEnv) != "":
		callAsClient(os.Getenv(callEnv), os.Args[1:])
	case os.Getenv(daemonEnv) != "":
		runAsDaemon(os.Getenv(daemonEnv))
	default:
		code := m.Run()
		os.RemoveAll(builtDir)
		os.Exit(code)
	}
}

// callAsClient makes one call for each argument (VERB ID) and prints the code of
// each answer, "ok" or what Run or List gave.
func callAsClient(socket string, args []string) {
	client := wireconnect.NewTaskServiceClient(wire.NewHTTPClient(socket), wire.BaseURL)
	for _, a := range args {
		verb, id, _ := strings.Cut(a, " ")
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
	case "run", "runroot":
		r := &wire.RunRequest{Argv: []string{"/bin/sh", "-c", id}}
		if verb == "runroot" {
			r.User = "root"
		}
		var res *wire.RunResponse
		if res, err = client.Run(ctx, r); err == nil {
			answer = res.Id
		}
	case "list":
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
	case "resume":
		_, err = client.Resume(ctx, q)
	case "checkpoint":
		_, err = client.Checkpoint(ctx, q)
	case "kill":
		_, err = client.Kill(ctx, q)
	case "forget":
		_, err = client.Forget(ctx, q)
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
