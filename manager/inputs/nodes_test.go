package inputs

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"headrace/wire"
	"headrace/wire/wireconnect"
)

// warmTwo has four blocks of which both nodes have replicas read for a job of alice.
func warmTwo(t *testing.T) (in *Inputs, f *nameNode, a, b *madeUp) {
	t.Helper()
	f = &nameNode{files: map[string]nameFile{"/data/x": {blocks: blocksOf(1, 4, "a.example", "b.example")}}}
	in = newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}})
	a, b = newNode(t, in, "a"), newNode(t, in, "b")
	settle(a, b)
	warmJob(t, in, "alice", "j1", "hdfs://c/data/x")
	settle(a, b)
	return in, f, a, b
}

func warmJob(t *testing.T, in *Inputs, user, job string, paths ...string) *wire.InputsStatus {
	t.Helper()
	st, err := in.Warm(t.Context(), &wire.WarmInputsRequest{User: user, Job: job, Paths: paths})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// standing returns how a job stands; nil: there is none, or it has ended.
func standing(t *testing.T, in *Inputs, user, job string) *wire.InputsStatus {
	t.Helper()
	res, err := in.Inputs(t.Context(), &wire.InputsRequest{User: user, Jobs: []string{job}, Paths: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range res.Inputs {
		if (st.User == user || user == privileged) && st.State != "ended" {
			return st
		}
	}
	return nil
}

func keptByBoth(t *testing.T, when, job string, a, b *madeUp) {
	t.Helper()
	seen := map[int64]int{}
	for _, n := range append(a.kept(job), b.kept(job)...) {
		seen[n]++
	}
	wantEqual(t, when+": blocks of "+job, seen, map[int64]int{1: 1, 2: 1, 3: 1, 4: 1})
}

// TestJoin: nodes are told what to read and to watch, each block on one.
func TestJoin(t *testing.T) {
	in, _, a, b := warmTwo(t)
	keptByBoth(t, "at first", "alice/j1", a, b)
	st := standing(t, in, "alice", "j1")
	if st.State != "done" || st.Pinned != 400 || st.Blocks != 4 || st.Left != 0 {
		t.Errorf("%v", st)
	}
	for _, n := range []*madeUp{a, b} {
		for o := range n.keeping {
			if !n.watching[o.id] {
				t.Errorf("%s keeps %v without watching it", n.name, o.id)
			}
		}
	}
}

// TestRestarts: whoever is started anew is told, or tells, everything.
func TestRestarts(t *testing.T) {
	in, f, a, b := warmTwo(t)
	before := a.kept("alice/j1")
	a.restart()
	settle(a, b)
	wantEqual(t, "a node that was started again keeps", a.kept("alice/j1"), before)
	keptByBoth(t, "after a restart of a node", "alice/j1", a, b)

	again := newInputs(t, Config{FileSystems: in.cfg.FileSystems})
	a.in, b.in = again, again
	_, err := a.exchange()
	wantCode(t, "a manager that was started again", err, connect.CodeFailedPrecondition, "everything")
	settle(a, b)
	keptByBoth(t, "after a restart of the manager", "alice/j1", a, b)
	st := standing(t, again, "alice", "j1")
	if st == nil || st.State != "adopted" || st.Pinned != 400 || len(st.Paths) != 0 {
		t.Fatalf("adopted: %v", st)
	}
	if st := warmJob(t, again, "alice", "j1", "hdfs://c/data/x"); st.State != "done" || st.Pinned != 400 || st.Files != 1 {
		t.Errorf("asked for again: %v", st)
	}
	// An adopted job ends as others do.
	third := newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}})
	a.in, b.in = third, third
	settle(a, b)
	third.Running(map[string]*wire.Application{"j1": {}, "other": {}})
	third.Running(map[string]*wire.Application{"other": {}})
	settle(a, b)
	if st := standing(t, third, "alice", "j1"); st != nil || len(a.keeping)+len(b.keeping) > 0 {
		t.Errorf("it goes on after its end: %v, %v, %v", st, a.keeping, b.keeping)
	}
}

// TestLostAnswer: what was not taken in is given again.
func TestLostAnswer(t *testing.T) {
	in, f, a, b := warmTwo(t)
	f.mu.Lock()
	f.files["/data/y"] = nameFile{blocks: blocksOf(5, 1, "a.example")}
	f.mu.Unlock()
	warmJob(t, in, "alice", "j2", "hdfs://c/data/y")
	for range 3 {
		answer, err := in.Exchange(t.Context(), a.request())
		if err != nil || answer.Read == nil || answer.Watch == nil || answer.Read.Full || answer.Watch.Full || len(answer.Read.Keep) != 1 {
			t.Fatalf("%v, %v", answer, err)
		}
	}
	settle(a, b)
	wantEqual(t, "kept", a.kept("alice/j2"), []int64{5})
}

// TestOlderSession: of two nodes with one name the later one counts.
func TestOlderSession(t *testing.T) {
	_, _, a, b := warmTwo(t)
	old := *a
	a.restart()
	settle(a, b)
	for _, full := range []bool{false, true} {
		old.all = full
		_, err := old.exchange()
		wantCode(t, "an older session", err, connect.CodeAborted, "--name")
	}
	settle(a)
}

// TestReadMeanwhile: what a job has read while the node was not known is not read again.
func TestReadMeanwhile(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{"/x": {blocks: blocksOf(1, 1, "a.example", "b.example")}}}
	in := newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}})
	a := newNode(t, in, "a")
	settle(a)
	if _, err := in.Warm(t.Context(), &wire.WarmInputsRequest{User: "u", Job: "j", Paths: []string{"hdfs://c/x"}, Implicit: true}); err != nil {
		t.Fatal(err)
	}
	settle(a)
	for o := range a.keeping {
		a.keeping[o] = wire.KeptState_KEPT_STATE_READ
	}
	a.all = true
	a.state = wire.KeptState_KEPT_STATE_PLANNED
	settle(a)
	if st := standing(t, in, "u", "j"); st.Left != 0 || st.Pinned != 0 || len(a.keeping) != 0 {
		t.Errorf("it is read again: %v, %v", st, a.keeping)
	}
}

// TestSilentNode: of a node that is silent others read the blocks, and it is asked for
// everything when it comes back.
func TestSilentNode(t *testing.T) {
	in, _, a, b := warmTwo(t)
	in.mu.Lock()
	in.nodes["a"].heard = time.Now().Add(-2 * in.cfg.timing.away)
	in.mu.Unlock()
	in.look(time.Now())
	settle(b)
	wantEqual(t, "kept by the other", b.kept("alice/j1"), []int64{1, 2, 3, 4})
	_, err := a.exchange()
	wantCode(t, "it comes back", err, connect.CodeFailedPrecondition)
	settle(a, b)
	keptByBoth(t, "after it has come back", "alice/j1", a, b)
}

// TestNoReplica: what a node cannot read another one does; what none can has failed, and
// says why.
func TestNoReplica(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{"/x": {blocks: blocksOf(1, 3, "a.example", "b.example")}}}
	in := newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}})
	a, b := newNode(t, in, "a"), newNode(t, in, "b")
	a.state = wire.KeptState_KEPT_STATE_FAILED
	settle(a, b)
	warmJob(t, in, "u", "j", "hdfs://c/x")
	turn := func() {
		for range 4 {
			settle(a, b)
			in.look(time.Now())
		}
		settle(a, b)
	}
	turn()
	wantEqual(t, "kept by the other", b.kept("u/j"), []int64{1, 2, 3})
	if st := standing(t, in, "u", "j"); st.Failed != 0 || st.State != "done" {
		t.Errorf("another replica was read: %v", st)
	}
	if _, err := in.Cool(t.Context(), &wire.CoolInputsRequest{User: "u", Jobs: []string{"j"}}); err != nil {
		t.Fatal(err)
	}
	b.state = a.state
	turn()
	clear(b.memory)
	warmJob(t, in, "u", "j2", "hdfs://c/x")
	turn()
	st := standing(t, in, "u", "j2")
	if st.Failed != 3 || len(st.Failures) == 0 || st.Failures[0].Path != "hdfs://c/x" || !strings.Contains(st.Failures[0].Reason, "a reason") {
		t.Errorf("no replica can be read: %v", st)
	}
}

// TestReason: half a character of a long reason is not told, or nothing could be.
func TestReason(t *testing.T) {
	in, _, a, _ := warmTwo(t)
	q := a.request()
	for _, k := range q.Kept {
		k.State, k.Reason = wire.KeptState_KEPT_STATE_FAILED, "x"+strings.Repeat("ü", maxText)
	}
	if _, err := in.Exchange(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	st := standing(t, in, "alice", "j1")
	if len(st.Failures) == 0 || !utf8.ValidString(st.Failures[0].Reason) || len(st.Failures[0].Reason) > maxText+20 {
		t.Errorf("%q", st.Failures)
	}
	if _, err := proto.Marshal(st); err != nil {
		t.Error(err)
	}
}

// TestLongPoll: who waits hears of a change at once, and of none when the time is over.
func TestLongPoll(t *testing.T) {
	in, f, a, _ := warmTwo(t)
	f.mu.Lock()
	f.files["/z"] = nameFile{blocks: blocksOf(9, 1, "a.example")}
	f.mu.Unlock()
	type result struct {
		a   *wire.ExchangeResponse
		err error
	}
	got := make(chan result, 1)
	q := a.request()
	q.Wait = math.Inf(1)
	go func() { r, err := in.Exchange(t.Context(), q); got <- result{r, err} }()
	warmJob(t, in, "alice", "j3", "hdfs://c/z")
	select {
	case r := <-got:
		if r.err != nil || r.a.Read == nil && r.a.Watch == nil { // what is watched is known before what is read
			t.Errorf("%v, %v", r.a, r.err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on waiting")
	}
	settle(a)
	for _, wait := range []float64{0, -1, math.NaN(), 0.01} {
		q := a.request()
		q.Wait = wait
		if r, err := in.Exchange(t.Context(), q); err != nil || r.Read != nil || r.Watch != nil {
			t.Errorf("wait %v: %v, %v", wait, r, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q = a.request()
	q.Wait = 10
	_, err := in.Exchange(ctx, q)
	wantCode(t, "a caller that has gone", err, connect.CodeCanceled)
}

// TestLongWait: a node that waits for as long as it may is not taken for silent.
func TestLongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newInputs(t, Config{timing: timing{away: 400 * time.Millisecond, look: 10 * time.Millisecond, settle: time.Millisecond}})
		a := newNode(t, in, "a")
		settle(a)
		a.wait = 1e9
		for range 4 {
			if _, err := a.exchange(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestStop ends those who wait.
func TestStop(t *testing.T) {
	in, err := New(Config{timing: idle})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	go in.Watch(stop)
	a := newNode(t, in, "a")
	settle(a)
	app := &wire.FollowRequest{User: "u", Application: "app", Add: []*wire.FollowedBlocks{{Blocks: &wire.BlockList{Pool: testPool, Numbers: []int64{1}}}}}
	res, err := in.Follow(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 2)
	q := a.request()
	q.Wait = 1e9
	go func() { _, err := in.Exchange(t.Context(), q); got <- err }()
	go func() {
		_, err := in.Follow(t.Context(), &wire.FollowRequest{User: "u", Application: "app", Version: res.Version, Wait: 1e9})
		got <- err
	}()
	close(stop)
	for range 2 {
		select {
		case err := <-got:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("it goes on waiting")
		}
	}
}

// TestOverHTTP: all of it works between processes.
func TestOverHTTP(t *testing.T) {
	in, _, a, b := warmTwo(t)
	mux := http.NewServeMux()
	mux.Handle(wireconnect.NewInputServiceHandler(in))
	server := httptest.NewServer(mux)
	defer server.Close()
	client := wireconnect.NewInputServiceClient(server.Client(), server.URL)
	c := newNode(t, client, "c")
	settle(c)
	a.restart()
	a.in, b.in = client, client
	settle(a, b)
	keptByBoth(t, "over HTTP", "alice/j1", a, b)
	stream, err := client.CachedInputs(t.Context(), &wire.CachedInputsRequest{User: "alice", Paths: []string{"hdfs://c/data"}})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() {
		for _, f := range stream.Msg().Files {
			if f.Path != "hdfs://c/data/x" || f.Size != 400 || f.Resident != 400 || len(f.Nodes) == 0 {
				t.Errorf("%v", f)
			}
		}
	}
	if err := stream.Err(); err != nil {
		t.Error(err)
	}
}

// TestBadReports: what cannot be meant is refused, and says why.
func TestBadReports(t *testing.T) {
	in := newInputs(t, Config{})
	long := strings.Repeat("x", 1<<20)
	list := func(n int) *wire.BlockList { return &wire.BlockList{Pool: testPool, Numbers: make([]int64, n)} }
	whole := func(n int) *wire.BlocksToKeep {
		return &wire.BlocksToKeep{Blocks: list(n), Generations: make([]int64, n), Bytes: make([]int64, n), Places: make([]uint32, n)}
	}
	for what, c := range map[string]struct {
		change func(*wire.ExchangeRequest)
		words  string
	}{
		"no name":     {func(q *wire.ExchangeRequest) { q.Node = "" }, "name of a node"},
		"a long name": {func(q *wire.ExchangeRequest) { q.Node = long }, "name of a node"},
		"an odd name": {func(q *wire.ExchangeRequest) { q.Node = "a b" }, "name of a node"},
		"no session":  {func(q *wire.ExchangeRequest) { q.Session = 0 }, "session 0"},
		"many hosts":  {func(q *wire.ExchangeRequest) { q.Hosts = make([]string, maxHosts+1) }, "17 names"},
		"a long host": {func(q *wire.ExchangeRequest) { q.Hosts = []string{long} }, "1048576 bytes"},
		"many jobs":   {func(q *wire.ExchangeRequest) { q.Jobs = make([]*wire.JobFacts, maxBlocks+1) }, "jobs"},
		"a long job":  {func(q *wire.ExchangeRequest) { q.Jobs = []*wire.JobFacts{{Job: &wire.JobRef{Job: long}}} }, "bytes"},
		"unequal lengths": {func(q *wire.ExchangeRequest) {
			q.Resident = []*wire.BlocksInMemory{{Blocks: list(2), Resident: []int64{1}, Bytes: []int64{1, 2}}}
		}, "2 blocks with 1 and 2 sizes"},
		"sizes of none": {func(q *wire.ExchangeRequest) { q.Resident = []*wire.BlocksInMemory{{Resident: []int64{1}}} }, "0 blocks"},
		"a long pool": {func(q *wire.ExchangeRequest) {
			q.Resident = []*wire.BlocksInMemory{{Blocks: &wire.BlockList{Pool: long}}}
		}, "bytes"},
		"kept, unequal": {func(q *wire.ExchangeRequest) {
			q.Kept = []*wire.KeptBlocks{{Blocks: &wire.BlocksToKeep{Blocks: list(2), Generations: make([]int64, 2)}}}
		}, "not all is said"},
		"kept, long": {func(q *wire.ExchangeRequest) {
			q.Kept = []*wire.KeptBlocks{{Job: &wire.JobRef{User: long}, Blocks: whole(1)}}
		}, "bytes"},
		"too many": {func(q *wire.ExchangeRequest) {
			q.Kept = []*wire.KeptBlocks{{Blocks: whole(4*maxBlocks + 1)}}
		}, "at most 800000"},
	} {
		q := &wire.ExchangeRequest{Node: "a", Session: 1, Full: true}
		c.change(q)
		_, err := in.Exchange(t.Context(), q)
		wantCode(t, what, err, connect.CodeInvalidArgument, c.words)
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: the refusal has %d bytes", what, len(err.Error()))
		}
	}
	odd := &wire.ExchangeRequest{
		Node: "a", Session: math.MaxUint64, Full: true, Budget: math.MinInt64, Speed: math.NaN(), Refusal: long, Wait: math.NaN(),
		Resident: []*wire.BlocksInMemory{{}, {Blocks: list(1), Resident: []int64{-5}, Bytes: []int64{math.MinInt64}}},
		Kept: []*wire.KeptBlocks{
			{}, {State: 99, Blocks: whole(1)}, {State: wire.KeptState_KEPT_STATE_PINNED, Blocks: whole(1)},
			{Job: &wire.JobRef{User: "u", Job: "j"}, State: wire.KeptState_KEPT_STATE_PINNED, Blocks: &wire.BlocksToKeep{
				Blocks: list(2), Generations: []int64{-1, math.MinInt64}, Bytes: []int64{-1, math.MaxInt64}, Places: []uint32{0, math.MaxUint32}}},
		},
		Jobs:  []*wire.JobFacts{{}, {Job: &wire.JobRef{User: "u", Job: "j"}, Input: math.MinInt64, SubmittedMs: math.MinInt64, Budget: -1}},
		Reads: []*wire.JobReads{{}, {Memory: -1, Disk: math.MinInt64}},
	}
	if _, err := in.Exchange(t.Context(), odd); err != nil {
		t.Errorf("odd numbers: %v", err)
	}
	in.look(time.Now())
	res, err := in.Inputs(t.Context(), &wire.InputsRequest{User: "root"})
	if err != nil || len(res.Inputs) != 0 {
		t.Errorf("odd numbers are believed: %v, %v", res, err)
	}
}

// TestManyNodes: there is an end to how many are taken.
func TestManyNodes(t *testing.T) {
	in := newInputs(t, Config{})
	in.mu.Lock()
	for i := range maxNodes {
		in.nodes[string(rune(i+1<<15))] = &node{}
	}
	in.mu.Unlock()
	_, err := in.Exchange(t.Context(), &wire.ExchangeRequest{Node: "a", Session: 1, Full: true})
	wantCode(t, "one more", err, connect.CodeResourceExhausted)
}

// TestLateReports: one that its node has given up, or that comes after a later one, changes nothing.
func TestLateReports(t *testing.T) {
	in, _, a, b := warmTwo(t)
	n := a
	if len(b.keeping) > len(a.keeping) {
		n = b
	}
	report := func(ctx context.Context, number uint64, s wire.KeptState) error {
		q := n.request()
		q.Report = number
		for _, k := range q.Kept {
			k.State = s
		}
		_, err := in.Exchange(ctx, q)
		return err
	}
	if err := report(t.Context(), 2, wire.KeptState_KEPT_STATE_PINNED); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "an earlier one", report(t.Context(), 1, wire.KeptState_KEPT_STATE_PLANNED), connect.CodeAborted, "report 1")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	wantCode(t, "one that was given up", report(gone, 3, wire.KeptState_KEPT_STATE_PLANNED), connect.CodeCanceled)
	if st := standing(t, in, "alice", "j1"); st.Left != 0 {
		t.Errorf("it counts: %v", st)
	}
	if err := report(t.Context(), 4, wire.KeptState_KEPT_STATE_PLANNED); err != nil {
		t.Fatal(err)
	}
	if st := standing(t, in, "alice", "j1"); st.Left == 0 {
		t.Errorf("a later one does not count: %v", st)
	}
	part := func(number uint32) error {
		q := n.request()
		q.Report, q.Part, q.More = 5, number, number < 2
		_, err := in.Exchange(t.Context(), q)
		return err
	}
	for number := range uint32(3) {
		if err := part(number); err != nil {
			t.Errorf("part %d: %v", number, err)
		}
	}
	wantCode(t, "a part again", part(1), connect.CodeAborted, "report 5")
}
