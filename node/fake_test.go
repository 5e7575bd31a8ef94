package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace/wire"
	"headrace/wire/convert"
	"headrace/wire/wireconnect"
)

const (
	testToken = "0123456789abcdef"
	patience  = 2 * time.Minute
)

var quick = timing{
	every: 50 * time.Millisecond, call: patience, silent: patience,
	retry: 5 * time.Millisecond, most: 50 * time.Millisecond, fresh: 50 * time.Millisecond, stale: 300 * time.Millisecond,
}

// fakeManager answers as the protocol says, and as a test tells.
type fakeManager struct {
	wireconnect.UnimplementedManagerServiceHandler
	t      *testing.T
	addr   string
	server *http.Server
	served chan struct{}

	mu      sync.Mutex
	changed chan struct{}
	joins   int
	session uint64               // of the newest stream
	orders  chan *wire.NodeOrder // of the newest stream
	end     chan error           // ends it
	mute    bool                 // send nothing at all
	reports []*wire.NodeReport
	refuse  error // of Report
	joining error // of Join
	asked   int
	older   bool     // it does not know of Ended
	names   []string // of applications that were asked about
	told    int      // containers, in all answers
	have    []*wire.Container
	slow    chan struct{} // Report waits for it
	hold    chan struct{} // Containers waits for it
	ends    map[string]float64
}

// newManager has an address where no connection of others takes the port while it is stopped.
func newManager(t *testing.T) *fakeManager {
	f := &fakeManager{t: t, addr: "127.0.0.45:0", changed: make(chan struct{})}
	f.start()
	t.Cleanup(f.stop)
	return f
}

func (f *fakeManager) start() {
	f.t.Helper()
	var l net.Listener
	var err error
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if l, err = net.Listen("tcp", f.addr); err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.addr = l.Addr().String()
	mux := http.NewServeMux()
	path, handler := wireconnect.NewManagerServiceHandler(f)
	mux.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+testToken {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	f.server, f.served = &http.Server{Handler: mux}, make(chan struct{})
	go func() {
		defer close(f.served)
		f.server.Serve(l)
	}()
}

// stop is the death of the manager.
func (f *fakeManager) stop() {
	f.server.Close()
	<-f.served
}

func (f *fakeManager) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

// until waits for what is true of the manager.
func (f *fakeManager) until(what string, is func() bool) {
	f.t.Helper()
	end := time.After(patience)
	for {
		f.mu.Lock()
		ok, changed := is(), f.changed
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-end:
			f.t.Fatalf("not %s", what)
		}
	}
}

func (f *fakeManager) Join(ctx context.Context, q *wire.JoinRequest, out *connect.ServerStream[wire.NodeOrder]) error {
	orders, end := make(chan *wire.NodeOrder, 10000), make(chan error, 1)
	var refused error
	mute := false
	f.change(func() {
		f.joins++
		f.session = q.Session
		f.orders, f.end, refused, mute = orders, end, f.joining, f.mute
	})
	if refused != nil {
		return refused
	}
	if mute {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := out.Send(&wire.NodeOrder{}); err != nil {
		return err
	}
	alive := time.NewTicker(100 * time.Millisecond)
	defer alive.Stop()
	for {
		var o *wire.NodeOrder
		select {
		case o = <-orders:
		case <-alive.C:
			o = &wire.NodeOrder{}
		case err := <-end:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		f.mu.Lock()
		mute = f.mute
		f.mu.Unlock()
		if mute && o.Number == 0 {
			continue
		}
		if err := out.Send(o); err != nil {
			return err
		}
	}
}

func (f *fakeManager) Report(ctx context.Context, r *wire.NodeReport) (*wire.NodeReportResponse, error) {
	var err error
	var slow chan struct{}
	f.change(func() {
		err, slow = f.refuse, f.slow
		if err == nil {
			f.reports = append(f.reports, r)
		}
	})
	if slow != nil {
		select {
		case <-slow:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	return &wire.NodeReportResponse{Promised: f.ends}, nil
}

// Ended tells that application_1 has ended.
func (f *fakeManager) Ended(ctx context.Context, q *wire.EndedRequest) (*wire.EndedResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.older {
		return f.UnimplementedManagerServiceHandler.Ended(ctx, q)
	}
	res := &wire.EndedResponse{}
	if slices.Contains(q.Applications, "application_1") {
		res.Applications = []string{"application_1"}
	}
	return res, nil
}

func (f *fakeManager) Containers(ctx context.Context, q *wire.ContainersRequest) (*wire.ContainersResponse, error) {
	var hold chan struct{}
	f.change(func() { f.asked++; f.names = append(f.names, q.Application); hold = f.hold })
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	res := &wire.ContainersResponse{Version: uint64(f.asked)}
	for _, c := range f.have {
		if q.Application == "" || c.Hosting.Application == q.Application {
			res.Containers = append(res.Containers, c)
		}
	}
	f.told += len(res.Containers)
	return res, nil
}

func (f *fakeManager) Preempt(context.Context, *wire.PreemptRequest) (*wire.PreemptResponse, error) {
	return nil, errors.ErrUnsupported
}

func (f *fakeManager) Resume(context.Context, *wire.ResumeRequest) (*wire.ResumeResponse, error) {
	return nil, errors.ErrUnsupported
}

func (f *fakeManager) Nodes(context.Context, *wire.NodesRequest) (*wire.NodesResponse, error) {
	return nil, errors.ErrUnsupported
}

// last returns the newest report; f.mu must be held.
func (f *fakeManager) last() *wire.NodeReport {
	if len(f.reports) == 0 {
		return &wire.NodeReport{}
	}
	return f.reports[len(f.reports)-1]
}

// resultOf returns what was reported of an order, and how often; f.mu must be held.
func (f *fakeManager) resultOf(number uint64) (res *wire.OrderResult, times int) {
	for _, r := range f.reports {
		for _, o := range r.Results {
			if o.Number == number {
				res, times = o, times+1
			}
		}
	}
	return res, times
}

func (f *fakeManager) send(orders ...*wire.NodeOrder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range orders {
		f.orders <- o
	}
}

// fakeHost has containers that do what an order says, at once or when told.
type fakeHost struct {
	mu      sync.Mutex
	tasks   map[string]*wire.Task
	changes chan struct{}
	done    map[uint64]int
	hold    chan struct{} // orders wait for it
	fail    error
	stopped int // orders that were ended by the end of the agent

	holds    map[string]chan struct{} // orders for these containers wait for another; see hang
	finished int                      // orders that were carried out
}

func newHost(ids ...string) *fakeHost {
	h := &fakeHost{tasks: map[string]*wire.Task{}, changes: make(chan struct{}, 1), done: map[uint64]int{}}
	for _, id := range ids {
		h.tasks[id] = &wire.Task{Id: id, State: "running", Hosting: &wire.Hosting{Scheduler: "yarn", Application: "a1"}}
	}
	return h
}

func (h *fakeHost) Facts() (*wire.NodeInfo, []*wire.Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*wire.Task
	for _, t := range h.tasks {
		all = append(all, &wire.Task{Id: t.Id, State: t.State, Hosting: t.Hosting, Promised: t.Promised})
	}
	return &wire.NodeInfo{Slots: 2}, all
}

func (h *fakeHost) Changed() <-chan struct{} { return h.changes }

func (h *fakeHost) set(id, state string) {
	h.mu.Lock()
	h.tasks[id].State = state
	h.mu.Unlock()
	select {
	case h.changes <- struct{}{}:
	default:
	}
}

func (h *fakeHost) Do(ctx context.Context, o *wire.NodeOrder) error {
	h.mu.Lock()
	h.done[o.Number]++
	hold, fail := h.hold, h.fail
	own, held := h.holds[o.Container]
	h.mu.Unlock()
	if held {
		hold = own
	}
	if hold != nil || held {
		select {
		case <-hold:
		case <-ctx.Done():
			h.mu.Lock()
			h.stopped++
			h.mu.Unlock()
			return ctx.Err()
		}
	}
	if fail != nil {
		return fail
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tasks[o.Container]
	if t == nil {
		return fmt.Errorf("no container %s", o.Container)
	}
	t.State = map[string]string{"suspend": "suspended", "checkpoint": "checkpointed", "resume": "running"}[verb(o)]
	h.finished++
	return nil
}

// hang has orders for containers wait until hold is closed; nil: for ever.
func (h *fakeHost) hang(hold chan struct{}, ids ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = map[string]chan struct{}{}
	for _, id := range ids {
		h.holds[id] = hold
	}
}

func (h *fakeHost) KeepPromises(ends map[string]float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, end := range ends {
		h.tasks[id].Promised = end
	}
}

func (h *fakeHost) times(number uint64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.done[number]
}

type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) count(s string) int { return strings.Count(l.String(), s) }

// run starts an agent; the function that it returns ends it.
func run(t *testing.T, f *fakeManager, h Host, change func(*Config)) (a *Agent, log *lines, stop func()) {
	t.Helper()
	log = &lines{}
	cfg := Config{Manager: "http://" + f.addr, Token: testToken, Name: "n1", Version: "v1", timing: quick,
		Log: slog.New(slog.NewTextHandler(log, nil))}
	if change != nil {
		change(&cfg)
	}
	a, err := New(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		a.Run(ctx)
	}()
	stop = func() {
		cancel()
		select {
		case <-over:
		case <-time.After(patience):
			t.Error("the agent does not end")
		}
	}
	t.Cleanup(stop)
	return a, log, stop
}

// verb returns what a node is to do.
func verb(o *wire.NodeOrder) string {
	c, _ := convert.Command(o)
	return c.String()
}
