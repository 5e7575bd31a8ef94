package manager

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"headrace/policy"
	"headrace/wire"
	"headrace/wire/convert"
	"headrace/wire/wireconnect"
)

const (
	testToken = "0123456789abcdef0123456789abcdef"
	patience  = 2 * time.Minute
	gb        = 1 << 30
)

var quick = timing{
	alive: 50 * time.Millisecond, send: patience, request: patience, prove: patience, away: 150 * time.Millisecond, silent: patience,
	forget: time.Hour, look: 20 * time.Millisecond, gather: time.Millisecond, claim: patience, patience: patience, busy: time.Hour, unasked: time.Hour, spare: time.Minute,
	doubt: time.Hour, remember: time.Hour, fresh: time.Hour, weigh: 20 * time.Millisecond,
}

// site is a manager that serves, and its log.
type site struct {
	*Manager
	t    *testing.T
	log  *logged
	stop func()
	api  wireconnect.ManagerServiceClient
}

type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) count(s string) int { return strings.Count(l.String(), s) }

func start(t *testing.T, change func(*Config)) *site {
	t.Helper()
	s := &site{t: t, log: &logged{}}
	cfg := Config{
		Listen: "127.0.0.1:0", Token: testToken, Version: "v1", timing: quick, Policy: policy.Config{Policy: policy.Suspend},
		Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if s.Manager, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- s.Run(ctx) }()
	var once sync.Once
	s.stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-over:
				if err != nil {
					t.Errorf("the manager ended: %v", err)
				}
			case <-time.After(patience):
				t.Error("the manager does not end")
			}
		})
	}
	t.Cleanup(s.stop)
	select {
	case <-s.Ready():
	case err := <-over:
		t.Fatalf("the manager did not come up: %v", err)
	case <-time.After(patience):
		t.Fatal("the manager does not come up")
	}
	s.api = s.client(testToken)
	return s
}

// client returns one with a transport of its own.
func (s *site) client(token string) wireconnect.ManagerServiceClient {
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	s.t.Cleanup(transport.CloseIdleConnections)
	return wireconnect.NewManagerServiceClient(tokenClient{&http.Client{Transport: transport}, token}, s.url(), connect.WithReadMaxBytes(1<<30))
}

func (s *site) url() string { return "http://" + s.Addr().String() }

// get returns the code and the body of what the manager answers.
func (s *site) get(path string) string {
	s.t.Helper()
	res, err := http.Get(s.url() + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return fmt.Sprint(res.StatusCode, " ", string(b))
}

type tokenClient struct {
	*http.Client
	token string
}

func (c tokenClient) Do(r *http.Request) (*http.Response, error) {
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return c.Client.Do(r)
}

// machine is a node as the manager sees one: a stream that is read, and reports that
// are sent when a test says so.
type machine struct {
	s      *site
	name   string
	info   *wire.NodeInfo
	one    sync.Mutex // is held while a report is sent
	mu     sync.Mutex // guards tasks once keep was called
	tasks  []*wire.Task
	told   []*wire.ContainerProgress
	older  bool // it keeps no promises
	orders chan *wire.NodeOrder
	over   chan error
	leave  context.CancelFunc
}

func (s *site) machine(name string, tasks ...*wire.Task) *machine {
	s.t.Helper()
	m := &machine{s: s, name: name, tasks: tasks, info: &wire.NodeInfo{
		Slots: 8, Memory: 32 * gb, SwapFree: 16 * gb, SwapTotal: 16 * gb, SwapOut: 500e6, SwapIn: 500e6,
		Stores: []*wire.Store{{Name: "disk", Write: 100e6, Read: 100e6, Free: 100 * gb}},
	}}
	m.join()
	m.report()
	return m
}

func (m *machine) join() {
	m.s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m.leave = cancel
	m.s.t.Cleanup(cancel)
	stream, err := m.s.client(testToken).Join(ctx, &wire.JoinRequest{Node: m.name, Version: "v1"})
	if err != nil {
		m.s.t.Fatal(err)
	}
	m.orders, m.over = make(chan *wire.NodeOrder, 1000), make(chan error, 1)
	joined := make(chan struct{})
	go func(orders chan *wire.NodeOrder, over chan error) {
		for first := true; stream.Receive(); first = false {
			if first {
				close(joined)
			}
			if stream.Msg().Number != 0 {
				orders <- stream.Msg()
			}
		}
		over <- stream.Err()
		stream.Close()
	}(m.orders, m.over)
	select {
	case <-joined:
	case err := <-m.over:
		m.s.t.Fatalf("%s does not join: %v", m.name, err)
	case <-time.After(patience):
		m.s.t.Fatalf("%s does not join", m.name)
	}
}

func (m *machine) report(results ...*wire.OrderResult) {
	m.s.t.Helper()
	if err := m.tryReport(results...); err != nil {
		m.s.t.Fatalf("%s reports: %v", m.name, err)
	}
}

func (m *machine) tryReport(results ...*wire.OrderResult) error {
	m.one.Lock() // an agent sends one report after the other
	defer m.one.Unlock()
	m.mu.Lock()
	r := proto.CloneOf(&wire.NodeReport{Node: m.name, Info: m.info, Tasks: m.tasks, Results: results, Progress: m.told})
	m.mu.Unlock()
	res, err := m.s.api.Report(context.Background(), r)
	if err != nil || m.older {
		return err
	}
	for id, end := range res.Promised {
		m.set(id, func(t *wire.Task) { t.Promised = end })
	}
	return nil
}

// change has a machine say something else of itself from the next report on.
func (m *machine) change(of func(*wire.NodeInfo)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of(m.info)
}

// keep reports until the function that it returns is called.
func (m *machine) keep() (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
				m.tryReport()
			}
		}
	}()
	var once sync.Once
	stop = func() { once.Do(func() { close(over); <-ended }) }
	m.s.t.Cleanup(stop)
	return stop
}

func (m *machine) order() *wire.NodeOrder {
	m.s.t.Helper()
	select {
	case o := <-m.orders:
		return o
	case <-time.After(patience):
		m.s.t.Fatalf("%s gets no order\n%s", m.name, m.s.log)
		return nil
	}
}

// none checks that no order is on its way: another one, given now, comes first.
func (m *machine) none() {
	m.s.t.Helper()
	if n := len(m.s.outstandingOf(m.name)); n != 0 {
		m.s.t.Fatalf("%d orders are outstanding for %s", n, m.name)
	}
	select {
	case o := <-m.orders:
		m.s.t.Fatalf("%s got %v", m.name, o)
	default:
	}
}

func (s *site) outstandingOf(name string) []*order {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	var all []*order
	for k := range s.cluster.containers.of(s.cluster.members.all[name]) {
		all = append(all, k.outstanding()...)
	}
	return all
}

func (m *machine) set(id string, change func(*wire.Task)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tasks {
		if t.Id == id {
			change(t)
		}
	}
}

func task(id string) *wire.Task {
	return &wire.Task{
		Id: id, State: "running", User: "ada", Cpus: 1, Memory: gb, Priority: 2, Progress: -1,
		Hosting: &wire.Hosting{Scheduler: "yarn", Application: "application_1", Queue: "low"},
		SinceMs: time.Now().Add(-time.Hour).UnixMilli(),
		Usage:   &wire.Usage{Resident: gb / 2, Dirty: gb / 2, Running: 3600, SinceSaveWall: 3600, SinceSaveCpu: 3000},
	}
}

func (s *site) preempt(ids ...string) []*wire.PreemptDecision {
	s.t.Helper()
	q := &wire.PreemptRequest{}
	for _, id := range ids {
		q.Victims = append(q.Victims, &wire.Victim{Container: id})
	}
	res, err := s.api.Preempt(context.Background(), q)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(res.Decisions) != len(ids) {
		s.t.Fatalf("%d decisions for %d victims", len(res.Decisions), len(ids))
	}
	for i, d := range res.Decisions {
		if d.Container != ids[i] {
			s.t.Fatalf("decision %d is about %s", i, d.Container)
		}
	}
	return res.Decisions
}

func (s *site) containers(version uint64, wait float64) *wire.ContainersResponse {
	s.t.Helper()
	res, err := s.api.Containers(context.Background(), &wire.ContainersRequest{Version: version, Wait: wait})
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

func (s *site) container(id string) *wire.Container {
	s.t.Helper()
	for _, c := range s.containers(0, 0).Containers {
		if c.Id == id {
			return c
		}
	}
	return nil
}

// until waits for a container to be so.
func (s *site) until(id, what string, ok func(*wire.Container) bool) *wire.Container {
	s.t.Helper()
	end := time.Now().Add(patience)
	var version uint64
	for time.Now().Before(end) {
		res := s.containers(version, 1)
		version = res.Version
		var found *wire.Container
		for _, c := range res.Containers {
			if c.Id == id {
				found = c
			}
		}
		if ok(found) {
			return found
		}
	}
	s.t.Fatalf("%s is not %s: %v\n%s", id, what, s.container(id), s.log)
	return nil
}

func wantDecision(t *testing.T, d *wire.PreemptDecision, mechanism, reason string) {
	t.Helper()
	if convert.MechanismName(d) != mechanism || !strings.Contains(d.Reason, reason) {
		t.Fatalf("decision %v, want %s because of %q", d, mechanism, reason)
	}
}

// verb returns what a node is to do.
func verb(o *wire.NodeOrder) string {
	c, _ := convert.Command(o)
	return c.String()
}
