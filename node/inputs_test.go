package node

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace/internal/testkit"
	"headrace/serve"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// fakeInputs is what a manager answers about inputs.
type fakeInputs struct {
	wireconnect.UnimplementedInputServiceHandler
	mu      sync.Mutex
	sees    uint64 // the session that it knows; 0: none
	number  uint64
	got     []*wire.ExchangeRequest
	arrived chan struct{}
	fail    int // so many requests fail
	users   []string
}

func newFakeInputs(t *testing.T) (*fakeInputs, *Agent) {
	f := &fakeInputs{arrived: make(chan struct{}, 1000)}
	mux := http.NewServeMux()
	mux.Handle(wireconnect.NewInputServiceHandler(f))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	a, err := New(Config{Manager: server.URL, Token: testToken, Name: "n1", timing: quick}, &fakeHost{})
	if err != nil {
		t.Fatal(err)
	}
	return f, a
}

func (f *fakeInputs) Exchange(_ context.Context, q *wire.ExchangeRequest) (*wire.ExchangeResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, q)
	defer func() {
		select {
		case f.arrived <- struct{}{}:
		default: // nobody counts any more
		}
	}()
	switch {
	case f.fail > 0:
		f.fail--
		return nil, errors.New("not now")
	case q.Session != f.sees && !q.Full:
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("tell everything"))
	}
	f.sees = q.Session
	f.number++
	r := &wire.ExchangeResponse{Read: &wire.BlocksToRead{Number: f.number, Full: q.Full}}
	if f.number%2 == 1 {
		r.Watch = &wire.BlocksToWatch{Number: 10 * f.number}
	}
	return r, nil
}

func (f *fakeInputs) Warm(_ context.Context, q *wire.WarmInputsRequest) (*wire.InputsStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users = append(f.users, q.User)
	return nil, connect.NewError(connect.CodeNotFound, errors.New("no such file"))
}

func (f *fakeInputs) CachedInputs(_ context.Context, q *wire.CachedInputsRequest, out *connect.ServerStream[wire.CachedInputsChunk]) error {
	for _, p := range q.Paths {
		if err := out.Send(&wire.CachedInputsChunk{Files: []*wire.CachedInput{{Path: q.User + " " + p}}}); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeInputs) await(t *testing.T, n int) []*wire.ExchangeRequest {
	t.Helper()
	for range n {
		select {
		case <-f.arrived:
		case <-time.After(patience):
			t.Fatal("no report")
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.got
}

// countedBlocks has a change for every report.
type countedBlocks struct {
	mu       sync.Mutex
	reports  []bool // whether all was asked for
	answered []*wire.ExchangeResponse
	silent   []time.Duration // as Abandoned was told
}

func (b *countedBlocks) Report(_ context.Context, all bool) *wire.ExchangeRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = append(b.reports, all)
	return &wire.ExchangeRequest{Budget: int64(len(b.reports))}
}

func (b *countedBlocks) Answered(r *wire.ExchangeResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered = append(b.answered, r)
}

func (b *countedBlocks) Abandoned(silent time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silent = append(b.silent, silent)
	return len(b.silent) == 1 // then there is nothing left
}

// TestAbandoned: where no report is taken for long blocks are let go, and then everything is told.
func TestAbandoned(t *testing.T) {
	f, a := newFakeInputs(t)
	a.cfg.Unclaimed = 2 * time.Second
	blocks := &countedBlocks{}
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() { a.Exchange(ctx, blocks) })
	f.await(t, 3)
	f.mu.Lock()
	from := len(f.got)
	f.fail = math.MaxInt
	f.mu.Unlock()
	testkit.Await(t, "that they are let go", func() bool {
		blocks.mu.Lock()
		defer blocks.mu.Unlock()
		return len(blocks.silent) > 2
	})
	f.mu.Lock()
	f.fail = 0
	refused := len(f.got)
	f.mu.Unlock()
	testkit.Await(t, "another report", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.got) > refused+1
	})
	cancel()
	working.Wait()
	f.mu.Lock() // the handler of the last report may still run: only its caller was told to stop
	defer f.mu.Unlock()
	if q := f.got[from]; q.Full {
		t.Error("the first that is refused is told in full already")
	}
	if q := f.got[refused]; !q.Full || q.Watched+q.Ordered != 0 {
		t.Errorf("the first that is taken: %v", q)
	}
	if blocks.silent[0] < a.cfg.Unclaimed {
		t.Errorf("they were let go after %v", blocks.silent[0])
	}
}

// TestExchange: everything is told first, and again to a manager that was started since;
// what failed is told again.
func TestExchange(t *testing.T) {
	f, a := newFakeInputs(t)
	f.fail = 2
	blocks := &countedBlocks{}
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() { a.Exchange(ctx, blocks) })
	got := f.await(t, 5)
	for i, q := range got[:5] {
		if want := i <= 2; q.Full != want || q.Node != "n1" || q.Session == 0 || q.Session != got[0].Session {
			t.Errorf("report %d: %v, full should be %v", i, q, want)
		}
	}
	for i, want := range [][2]uint64{3: {10, 1}, 4: {10, 2}} { // the second answer has nothing to watch
		if q := got[i]; want != [2]uint64{q.Watched, q.Ordered} {
			t.Errorf("report %d: took in %d and %d, want %d", i, q.Watched, q.Ordered, want)
		}
	}
	f.mu.Lock()
	f.sees, f.number = 0, 0 // another manager
	from := len(f.got)
	f.mu.Unlock()
	f.await(t, len(f.arrived)+3)
	cancel()
	working.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	again := f.got[from:]
	if again[0].Full || !again[1].Full || again[1].Ordered != 0 || again[1].Watched != 0 || again[2].Full {
		t.Errorf("to another manager: %v, %v, %v", again[0], again[1], again[2])
	}
	if !blocks.answered[0].Read.Full || blocks.answered[1].Read.Full {
		t.Errorf("answers: %v", blocks.answered[:2])
	}
}

// TestForward: what users ask is asked in their name, whatever they say, and answers and
// refusals come back.
func TestForward(t *testing.T) {
	f, a := newFakeInputs(t)
	inputs := a.Inputs()
	ctx := serve.WithCaller(t.Context(), serve.Caller{UID: 987654321})
	_, err := inputs.Warm(ctx, &wire.WarmInputsRequest{User: "root", Paths: []string{"hdfs://c/x"}})
	if connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("refusal of the manager: %v", err)
	}
	if len(f.users) != 1 || f.users[0] != "987654321" {
		t.Errorf("asked as %q", f.users)
	}
	if _, err := inputs.Exchange(ctx, &wire.ExchangeRequest{}); !errors.Is(err, serve.ErrDenied) {
		t.Errorf("a user reports blocks: %v", err)
	}

	mux := http.NewServeMux()
	mux.Handle(wireconnect.NewInputServiceHandler(inputs))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(serve.WithCaller(r.Context(), serve.Caller{UID: 987654321})))
	}))
	defer server.Close()
	stream, err := wireconnect.NewInputServiceClient(server.Client(), server.URL).CachedInputs(t.Context(), &wire.CachedInputsRequest{User: "x", Paths: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var paths []string
	for stream.Receive() {
		paths = append(paths, stream.Msg().Files[0].Path)
	}
	if stream.Err() != nil || len(paths) != 2 || paths[0] != "987654321 a" {
		t.Errorf("%q, %v", paths, stream.Err())
	}

	gone, err := New(Config{Manager: "http://127.0.0.1:1", Token: testToken, Name: "n1", timing: quick}, &fakeHost{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Inputs().Inputs(ctx, &wire.InputsRequest{}); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("no manager: %v", err)
	}
}
