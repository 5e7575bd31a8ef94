package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace/cli"
	"headrace/internal/testkit"
	"headrace/manager"
	"headrace/node"
	"headrace/policy"
	"headrace/wire"
	"headrace/wire/convert"
	"headrace/wire/wireconnect"
)

const (
	clusterToken    = "0123456789abcdef0123456789abcdef"
	clusterPatience = time.Minute
)

// machineRoom is the daemon of a machine with containers that do as they are told.
type machineRoom struct {
	mu      sync.Mutex
	tasks   map[string]*wire.Task
	changes chan struct{}
	fail    error
	done    map[uint64]int
	// takes is how long an order is on its way.
	takes time.Duration
	wrong []string
}

func newRoom(ids ...string) *machineRoom {
	h := &machineRoom{tasks: map[string]*wire.Task{}, changes: make(chan struct{}, 1), done: map[uint64]int{}}
	for _, id := range ids {
		h.tasks[id] = &wire.Task{
			Id: id, State: "running", User: "ada", Cpus: 1, Memory: 1 << 30, Priority: 2, Progress: -1, SinceMs: 1,
			Hosting: &wire.Hosting{Scheduler: "yarn", Application: "application_1", Queue: "low"},
			Usage:   &wire.Usage{Resident: 1 << 28, Dirty: 1 << 28, Running: 100, SinceSaveWall: 100},
		}
	}
	return h
}

func (h *machineRoom) Facts() (*wire.NodeInfo, []*wire.Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*wire.Task
	for _, t := range h.tasks {
		c := &wire.Task{
			Id: t.Id, State: t.State, Doing: t.Doing, User: t.User, Cpus: t.Cpus, Memory: t.Memory, Priority: t.Priority,
			Progress: t.Progress, SinceMs: t.SinceMs, Preemptions: t.Preemptions, Hosting: t.Hosting, Usage: t.Usage,
		}
		all = append(all, c)
	}
	return &wire.NodeInfo{
		Version: "v1", Slots: 4, Memory: 64 << 30, MemoryUsed: 1 << 30, SwapFree: 8 << 30, SwapTotal: 8 << 30, SwapOut: 1e9, SwapIn: 1e9,
		Stores: []*wire.Store{{Name: "disk", Write: 1e9, Read: 1e9, Free: 1 << 40}},
	}, all
}

func (h *machineRoom) Changed() <-chan struct{} { return h.changes }

func (h *machineRoom) change(do func()) {
	h.mu.Lock()
	do()
	h.mu.Unlock()
	select {
	case h.changes <- struct{}{}:
	default:
	}
}

func (h *machineRoom) Do(ctx context.Context, o *wire.NodeOrder) error {
	doing := map[string]string{"suspend": "suspending", "checkpoint": "checkpointing", "resume": "resuming"}[verb(o)]
	to := map[string]string{"suspend": "suspended", "checkpoint": "checkpointed", "resume": "running"}[verb(o)]
	var fail error
	h.change(func() {
		h.done[o.Number]++
		if h.done[o.Number] > 1 {
			h.wrong = append(h.wrong, fmt.Sprintf("order %d was done twice", o.Number))
		}
		t := h.tasks[o.Container]
		switch {
		case t == nil:
			fail = fmt.Errorf("there is no container %s", o.Container)
		case t.Doing != "":
			h.wrong = append(h.wrong, fmt.Sprintf("%s while %s is %s", verb(o), t.Id, t.Doing))
		case h.fail != nil:
			fail = h.fail
		default:
			t.Doing = doing
		}
	})
	if fail != nil {
		return fail
	}
	select {
	case <-time.After(h.takes):
	case <-ctx.Done():
		fail = ctx.Err()
	}
	h.change(func() {
		if t := h.tasks[o.Container]; t != nil {
			t.Doing = ""
			if fail == nil && t.State != to {
				t.State, t.SinceMs = to, time.Now().UnixMilli()
			}
		}
	})
	return fail
}

func (h *machineRoom) KeepPromises(map[string]float64) {}

// forget is for another agent: it may do again what the one before it has begun.
func (h *machineRoom) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.done)
}

func (h *machineRoom) state(id string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.tasks[id]; t != nil {
		return t.State
	}
	return ""
}

// started is something that runs until it is stopped.
type started struct {
	stop func()
	log  *output
}

func startCluster(t *testing.T, addr string) (*manager.Manager, *started) {
	t.Helper()
	s := &started{log: &output{}}
	m, err := manager.New(manager.Config{
		Listen: addr, Token: clusterToken, Version: "v1", Policy: policy.Config{Policy: policy.Suspend, MinRun: policy.None},
		Log: slog.New(slog.NewTextHandler(s.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- m.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	select {
	case <-m.Ready():
	case <-time.After(clusterPatience):
		t.Fatal("the manager does not come up")
	}
	return m, s
}

func startAgent(t *testing.T, addr, name string, h node.Host) *started {
	t.Helper()
	s := &started{log: &output{}}
	a, err := node.New(node.Config{
		Manager: "http://" + addr, Token: clusterToken, Name: name, Version: "v1", Log: slog.New(slog.NewTextHandler(s.log, nil)),
	}, h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		a.Run(ctx)
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-over
	})
	t.Cleanup(s.stop)
	return s
}

func clusterClient(t *testing.T, addr string) wireconnect.ManagerServiceClient {
	t.Helper()
	return clientWith(t, addr, clusterToken)
}

func clientWith(t *testing.T, addr, token string) wireconnect.ManagerServiceClient {
	t.Helper()
	c, err := node.NewClient("http://"+addr, token, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// awaitContainer polls as a scheduler's plug-in does, also while the manager is away.
func awaitContainer(t *testing.T, api wireconnect.ManagerServiceClient, id, what string, is func(*wire.Container) bool) *wire.Container {
	t.Helper()
	var version uint64
	var last *wire.Container
	var lastErr error
	for end := time.Now().Add(clusterPatience); time.Now().Before(end); {
		res, err := api.Containers(context.Background(), &wire.ContainersRequest{Version: version, Wait: 1})
		if lastErr = err; err != nil {
			version = 0
			time.Sleep(20 * time.Millisecond)
			continue
		}
		version, last = res.Version, nil
		for _, c := range res.Containers {
			if c.Id == id {
				last = c
			}
		}
		if is(last) {
			return last
		}
	}
	t.Fatalf("%s is not %s: %v, %v", id, what, last, lastErr)
	return nil
}

func inState(state string) func(*wire.Container) bool {
	return func(c *wire.Container) bool { return c != nil && c.State == state && c.Ordered == "" && !c.Away }
}

func preemptOne(t *testing.T, api wireconnect.ManagerServiceClient, id string) *wire.PreemptDecision {
	t.Helper()
	res, err := api.Preempt(context.Background(), &wire.PreemptRequest{Victims: []*wire.Victim{{Container: id}}})
	if err != nil {
		t.Fatal(err)
	}
	return res.Decisions[0]
}

// TestClusterRound: manager and agents over TCP: two nodes, there and back, and how
// long it takes.
func TestClusterRound(t *testing.T) {
	before := runtime.NumGoroutine()
	m, manager := startCluster(t, "127.0.0.1:0")
	addr := m.Addr().String()
	one, two := newRoom("c1"), newRoom("c2")
	agents := []*started{startAgent(t, addr, "n1", one), startAgent(t, addr, "n2", two)}
	api := clusterClient(t, addr)
	awaitContainer(t, api, "c1", "there", inState("running"))
	awaitContainer(t, api, "c2", "there", inState("running"))
	for range 10 {
		began := time.Now()
		if d := preemptOne(t, api, "c1"); convert.MechanismName(d) != "suspend" {
			t.Fatalf("%v", d)
		}
		awaitContainer(t, api, "c1", "suspended", inState("suspended"))
		took := time.Since(began)
		if _, err := api.Resume(context.Background(), &wire.ResumeRequest{Container: "c1"}); err != nil {
			t.Fatal(err)
		}
		awaitContainer(t, api, "c1", "running", inState("running"))
		t.Logf("suspended after %v, back after %v", took, time.Since(began))
	}
	if two.state("c2") != "running" || len(two.done) != 0 {
		t.Error("the other node did something")
	}
	for _, s := range append(agents, manager) {
		s.stop()
	}
	testkit.Await(t, "the end of what was started", func() bool { return runtime.NumGoroutine() <= before+2 }, testkit.Stacks) // +2: the client's connection
}

// TestClusterRestarts: manager and agents die and come back at any moment; what is
// ordered meanwhile is done once or seen not to be done, and all agree in the end.
func TestClusterRestarts(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this takes some seconds")
	}
	r := rand.New(rand.NewPCG(3, 4))
	m, manager := startCluster(t, "127.0.0.41:0") // where no connection of others takes the port while it is down
	addr := m.Addr().String()
	ids := []string{"c1", "c2", "c3", "c4", "c5"}
	h := newRoom(ids...)
	h.takes = 20 * time.Millisecond
	agent := startAgent(t, addr, "n1", h)
	api := clusterClient(t, addr)
	for round := range 12 {
		want := []string{"suspended", "running"}[round%2]
		for _, id := range ids {
			awaitContainer(t, api, id, "known", func(c *wire.Container) bool { return c != nil && !c.Away })
		}
		ask := func() (missing int) {
			for _, id := range ids {
				if h.state(id) == want {
					continue
				}
				missing++
				if want == "running" {
					api.Resume(context.Background(), &wire.ResumeRequest{Container: id})
				} else {
					api.Preempt(context.Background(), &wire.PreemptRequest{Victims: []*wire.Victim{{Container: id}}})
				}
			}
			return missing
		}
		ask()
		time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond) // wherever that is
		switch r.IntN(3) {
		case 0:
			manager.stop()
			_, manager = startCluster(t, addr)
		case 1:
			agent.stop()
			h.forget()
			agent = startAgent(t, addr, "n1", h)
		case 2:
			manager.stop()
			agent.stop()
			h.forget()
			agent = startAgent(t, addr, "n1", h)
			_, manager = startCluster(t, addr)
		}
		testkit.Await(t, fmt.Sprintf("all to be %s in round %d", want, round), func() bool { return ask() == 0 }, manager.log.text.String)
		for _, id := range ids {
			awaitContainer(t, api, id, want, inState(want))
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.wrong) > 0 {
		t.Error(h.wrong)
	}
}

// TestClusterVerb is what a person sees.
func TestClusterVerb(t *testing.T) {
	m, _ := startCluster(t, "127.0.0.1:0")
	addr := m.Addr().String()
	h := newRoom("container_1", "container_2")
	h.fail = errors.New("a process is traced")
	startAgent(t, addr, "n1", h)
	api := clusterClient(t, addr)
	awaitContainer(t, api, "container_2", "there", inState("running"))
	preemptOne(t, api, "container_1")
	awaitContainer(t, api, "container_1", "refused", func(c *wire.Container) bool { return c != nil && strings.Contains(c.Reason, "traced") })
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(clusterToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	show := func(args ...string) (int, string) {
		var out, errOut bytes.Buffer
		code := execute(context.Background(), append([]string{"cluster", "--manager", "http://" + addr, "--token-file", token}, args...), nil, &out, &errOut)
		return code, out.String() + errOut.String()
	}
	code, text := show()
	for _, want := range []string{`policy suspend, headrace v1`, `(?m)^n1 +here +2 +0 +0 `, `(?m)^container_1 +n1 +ada +low +2 +running .* suspend failed: a process is traced`, `container_2`} {
		if code != 0 || !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("exit code %d, no %s in\n%s", code, want, text)
		}
	}
	code, text = show("--format", "json")
	var list struct{ Nodes, Containers []map[string]any }
	if err := json.Unmarshal([]byte(text), &list); code != 0 || err != nil || len(list.Nodes) != 1 || len(list.Containers) != 2 {
		t.Errorf("exit code %d, %v:\n%s", code, err, text)
	}
	for application, want := range map[string]int{"application_1": 2, "application_2": 0} {
		if code, text = show("--application", application); code != 0 || strings.Count(text, "\ncontainer_") != want || strings.Contains(text, "policy") {
			t.Errorf("%s: exit code %d, want %d containers in\n%s", application, code, want, text)
		}
	}
	verb := func(args ...string) (int, string) {
		var out, errOut bytes.Buffer
		code := execute(context.Background(), append(append([]string{"cluster"}, args...), "--manager", "http://"+addr, "--token-file", token), nil, &out, &errOut)
		return code, out.String() + errOut.String()
	}
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"drain"}, 0, "all containers run, and none gives way"},
		{nil, 0, "draining: nothing gives way"},
		{[]string{"drain", "--end"}, 0, "containers give way again"},
		{[]string{"forget", "n1"}, cli.ExitFailure, "node n1 is here; stop its daemon first"},
		{[]string{"forget", "n2"}, cli.ExitNotFound, "there is no node of that name"},
	} {
		if code, text := verb(c.args...); code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("cluster %v: exit code %d, want %d and %q in\n%s", c.args, code, c.code, c.text, text)
		}
	}
	if err := os.WriteFile(token, []byte("another-token-of-this-length"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, text = show(); code != cli.ExitFailure || !strings.Contains(text, "the token of the cluster is missing or wrong") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// verb returns what a node is to do.
func verb(o *wire.NodeOrder) string {
	c, _ := convert.Command(o)
	return c.String()
}
