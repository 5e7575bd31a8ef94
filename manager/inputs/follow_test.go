package inputs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"headrace/wire"
	"headrace/wire/wireconnect"
)

func followed(first, n int64, hosts ...string) *wire.FollowedBlocks {
	return &wire.FollowedBlocks{Blocks: numbered(first, n), Hosts: hosts}
}

func numbered(first, n int64) *wire.BlockList {
	l := &wire.BlockList{Pool: testPool}
	for i := range n {
		l.Numbers = append(l.Numbers, first+i)
	}
	return l
}

// places returns on which machines an answer says that blocks are.
func places(r *wire.FollowResponse) map[int64]string {
	on := map[int64]string{}
	for _, b := range r.Blocks {
		var hosts []string
		for i, m := range b.Machines {
			if b.Resident[i] > 0 {
				hosts = append(hosts, r.Machines[m].Hosts[0])
			}
		}
		on[b.Number] = strings.Join(hosts, " ")
	}
	return on
}

// TestFollowAwaitsNodes: the answer to who follows further blocks has what nodes have of them,
// once they have told it, but not that of one that says nothing for too long.
func TestFollowAwaitsNodes(t *testing.T) {
	soon := idle
	soon.soon = patience
	in := newInputs(t, Config{timing: soon})
	a, b := newNode(t, in, "a"), newNode(t, in, "b")
	settle(a, b)
	a.memory[id(1)] = 50
	version := uint64(0)
	follow := func(first int64) <-chan *wire.FollowResponse {
		got := make(chan *wire.FollowResponse, 1)
		q := &wire.FollowRequest{User: "u", Application: "app", Version: version, Add: []*wire.FollowedBlocks{followed(first, 1, "a.example", "b.example")}}
		go func() {
			r, err := in.Follow(t.Context(), q)
			if err != nil {
				t.Error(err)
			}
			got <- r
		}()
		return got
	}
	for first, want := range []map[int64]string{1: {1: "a"}, 2: {}} {
		if want == nil {
			continue
		}
		got := follow(int64(first))
		for _, n := range []*madeUp{b, a} {
			for !n.watching[id(int64(first))] { // until it is told of the block
				n.exchange()
			}
			select {
			case r := <-got:
				t.Fatalf("block %d: answered before node %s has told: %v", first, n.name, r)
			default:
			}
		}
		settle(b)
		settle(a)
		r := <-got
		version = r.Version
		wantEqual(t, "answer", places(r), want)
	}
	in.cfg.timing.soon = time.Millisecond
	wantEqual(t, "of nodes that say nothing", places(<-follow(3)), map[int64]string{})
}

// TestFollow: an application registers, hears of what changes, lets go, and begins anew.
func TestFollow(t *testing.T) {
	in := newInputs(t, Config{})
	a, b := newNode(t, in, "a"), newNode(t, in, "b")
	settle(a, b)
	version := uint64(0)
	follow := func(q *wire.FollowRequest) *wire.FollowResponse {
		t.Helper()
		q.User, q.Application = "u", "app"
		r, err := in.Follow(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		version = r.Version
		return r
	}
	unknown := func(q *wire.FollowRequest) {
		t.Helper()
		q.User, q.Application = "u", "app"
		_, err := in.Follow(t.Context(), q)
		wantCode(t, "who is not known", err, connect.CodeNotFound, "register")
	}
	unknown(&wire.FollowRequest{})
	unknown(&wire.FollowRequest{Version: 77})
	unknown(&wire.FollowRequest{Version: 77, Add: []*wire.FollowedBlocks{followed(1, 1, "a.example")}})
	unknown(&wire.FollowRequest{Remove: []*wire.BlockList{numbered(1, 1)}})

	if r := follow(&wire.FollowRequest{Add: []*wire.FollowedBlocks{followed(1, 2, "a.example", "b.example"), {}}}); !r.Full || len(r.Blocks) != 0 {
		t.Errorf("at first: %v", r)
	}
	settle(a, b)
	wantEqual(t, "watched", len(a.watching)+len(b.watching), 4)
	a.memory[id(1)] = 50
	settle(a)
	if r := follow(&wire.FollowRequest{Version: version}); r.Full || places(r)[1] != "a" || len(r.Blocks) != 1 || r.Blocks[0].Bytes != 100 || r.Blocks[0].Resident[0] != 50 {
		t.Errorf("it comes: %v", r)
	}
	if r := follow(&wire.FollowRequest{Version: version, Wait: math.NaN()}); r.Full || len(r.Blocks) != 0 || r.Version != version {
		t.Errorf("no change: %v", r)
	}
	got := make(chan *wire.FollowResponse, 1)
	go func(q *wire.FollowRequest) {
		r, _ := in.Follow(t.Context(), q)
		got <- r
	}(&wire.FollowRequest{User: "u", Application: "app", Version: version, Wait: 1e9})
	b.memory[id(1)] = 100
	settle(b)
	select {
	case r := <-got:
		wantEqual(t, "it comes to another, too", places(r), map[int64]string{1: "a b"})
		old := version
		version = r.Version
		if again := follow(&wire.FollowRequest{Version: old}); places(again)[1] != "a b" { // the answer was lost
			t.Errorf("given again: %v", again)
		}
	case <-time.After(patience):
		t.Fatal("it goes on waiting")
	}
	a.memory[id(1)] = 0
	settle(a)
	wantEqual(t, "it goes", places(follow(&wire.FollowRequest{Version: version})), map[int64]string{1: "b"})
	r := follow(&wire.FollowRequest{Version: version, Add: []*wire.FollowedBlocks{followed(3, 1, "b.example")}, Remove: []*wire.BlockList{numbered(2, 1), {}}})
	settle(a, b)
	if r.Full || len(a.watching) != 1 || len(b.watching) != 2 {
		t.Errorf("others: %v; watched %v, %v", r, a.watching, b.watching)
	}
	if r := follow(&wire.FollowRequest{}); !r.Full || places(r)[1] != "b" || len(r.Blocks) != 1 {
		t.Errorf("everything: %v", r)
	}
	follow(&wire.FollowRequest{Add: []*wire.FollowedBlocks{followed(3, 1, "b.example")}}) // instead of the others
	settle(a, b)
	if len(a.watching) != 0 || len(b.watching) != 1 {
		t.Errorf("instead: watched %v, %v", a.watching, b.watching)
	}
	in.look(time.Now().Add(2 * time.Minute))
	unknown(&wire.FollowRequest{Version: version})
}

// TestAppendIsFollowed: a block is as long as the longest of its replicas, of which one is known to be longer first.
func TestAppendIsFollowed(t *testing.T) {
	in := newInputs(t, Config{})
	a, b := newNode(t, in, "a"), newNode(t, in, "b")
	settle(a, b)
	q := &wire.FollowRequest{User: "u", Application: "app", Add: []*wire.FollowedBlocks{followed(1, 1, "a.example", "b.example")}}
	if _, err := in.Follow(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	settle(a, b)
	for _, n := range []*madeUp{a, b} {
		r := n.request()
		size := map[string]int64{"a": 128, "b": 64}[n.name]
		r.Resident = []*wire.BlocksInMemory{{Blocks: numbered(1, 1), Resident: []int64{size}, Bytes: []int64{size}}}
		if _, err := in.Exchange(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	r, err := in.Follow(t.Context(), q)
	if err != nil || len(r.Blocks) != 1 || r.Blocks[0].Bytes != 128 || len(r.Blocks[0].Resident) != 2 {
		t.Errorf("%v, %v", r, err)
	}
}

// TestBadFollow: what cannot be meant is refused, and says why.
func TestBadFollow(t *testing.T) {
	in := newInputs(t, Config{})
	long := strings.Repeat("x", 1<<20)
	for what, q := range map[string]*wire.FollowRequest{
		"nobody":         {Application: "a"},
		"no application": {User: "u"},
		"an odd one":     {User: "u", Application: "look 1"},
		"a long one":     {User: "u", Application: long},
		"many hosts":     {User: "u", Application: "a", Add: []*wire.FollowedBlocks{{Hosts: make([]string, 17)}}},
		"a long host":    {User: "u", Application: "a", Add: []*wire.FollowedBlocks{followed(1, 1, long)}},
		"a long pool":    {User: "u", Application: "a", Add: []*wire.FollowedBlocks{{Blocks: &wire.BlockList{Pool: long, Numbers: []int64{1}}}}},
	} {
		_, err := in.Follow(t.Context(), q)
		wantCode(t, what, err, connect.CodeInvalidArgument)
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: the refusal has %d bytes", what, len(err.Error()))
		}
	}
}

// FuzzRequests has nodes and applications say whatever they like: nothing panics, and a
// well-meant report is taken afterwards.
func FuzzRequests(f *testing.F) {
	for seed := range uint64(20) {
		a, _ := proto.Marshal(randomExchange(rand.New(rand.NewPCG(seed, 1))))
		b, _ := proto.Marshal(randomFollow(rand.New(rand.NewPCG(seed, 2))))
		f.Add(a, b)
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		in, err := New(Config{timing: timing{away: time.Millisecond, look: time.Hour, settle: 1}})
		if err != nil {
			t.Fatal(err)
		}
		close(in.stopping) // nobody waits
		var q wire.ExchangeRequest
		var r wire.FollowRequest
		if proto.Unmarshal(a, &q) != nil || proto.Unmarshal(b, &r) != nil {
			return
		}
		say(t, in, &q, &r)
	})
}

// say has them say it, twice each.
func say(t *testing.T, in *Inputs, q *wire.ExchangeRequest, r *wire.FollowRequest) {
	t.Helper()
	check := func(m proto.Message, err error) {
		var c *connect.Error
		switch {
		case err == nil:
			if _, err := proto.Marshal(m); err != nil {
				t.Errorf("an answer that cannot be sent: %v", err)
			}
		case !errors.As(err, &c) || c.Code() == connect.CodeInternal:
			t.Errorf("%v", err)
		}
	}
	for range 2 {
		check(in.Exchange(t.Context(), q))
		check(in.Follow(t.Context(), r))
		in.look(time.Now())
		q.Full = !q.Full
	}
	check(in.Inputs(t.Context(), &wire.InputsRequest{User: privileged}))
	if _, err := in.Exchange(t.Context(), &wire.ExchangeRequest{Node: "well-meant", Session: 1, Full: true, Budget: 1 << 30}); err != nil && q.Node != "well-meant" {
		t.Errorf("a well-meant report: %v", err)
	}
}

// TestRandomRequests does it with messages that are nearly right, to one Inputs.
func TestRandomRequests(t *testing.T) {
	in := newInputs(t, Config{timing: timing{away: 2 * time.Millisecond, look: time.Hour, settle: 1}})
	r := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		say(t, in, randomExchange(r), randomFollow(r))
	}
}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func number(r *rand.Rand) int64 {
	return one(r, 0, 1, 2, 3, 100, -1, math.MinInt64, math.MaxInt64, 1<<47, r.Int64())
}

func randomList(r *rand.Rand) *wire.BlockList {
	if r.IntN(10) == 0 {
		return nil
	}
	return &wire.BlockList{Pool: one(r, testPool, "", "p"), Numbers: randomNumbers(r, r.IntN(4))}
}

func randomNumbers(r *rand.Rand, n int) (list []int64) {
	for range n {
		list = append(list, number(r))
	}
	return list
}

func randomRef(r *rand.Rand) *wire.JobRef {
	return one(r, nil, &wire.JobRef{}, &wire.JobRef{User: "u", Job: one(r, "j1", "j2", "")}, &wire.JobRef{User: "v", Job: "j1"})
}

func randomExchange(r *rand.Rand) *wire.ExchangeRequest {
	q := &wire.ExchangeRequest{
		Node: one(r, "a", "b", "c", ""), Session: one[uint64](r, 0, 1, 1, 1, 2, math.MaxUint64), Full: r.IntN(2) == 0, Hosts: one(r, nil, []string{"h1"}, []string{"h1", "h2"}, []string{"a", "b", "", ""}),
		Watched: r.Uint64N(3), Ordered: r.Uint64(), Wait: one(r, 0, math.NaN(), math.Inf(1), -1), Budget: number(r), Speed: one(r, 0, 1e8, math.NaN(), math.Inf(1), -1), Refusal: one(r, "", "no"),
	}
	for range r.IntN(4) {
		l := randomList(r)
		n := len(l.GetNumbers()) + r.IntN(10)/9
		q.Resident = append(q.Resident, &wire.BlocksInMemory{Blocks: l, Resident: randomNumbers(r, n), Bytes: randomNumbers(r, n)})
	}
	for range r.IntN(4) {
		l := randomList(r)
		n := len(l.GetNumbers()) + r.IntN(10)/9
		places := make([]uint32, n)
		for i := range places {
			places[i] = one[uint32](r, 0, 1, 2, math.MaxUint32)
		}
		q.Kept = append(q.Kept, &wire.KeptBlocks{
			Job: randomRef(r), State: wire.KeptState(r.IntN(9)), Reason: one(r, "", "why", strings.Repeat("ü", 600)),
			Blocks: &wire.BlocksToKeep{Blocks: l, Generations: randomNumbers(r, n), Bytes: randomNumbers(r, n), Places: places},
		})
		q.Jobs = append(q.Jobs, &wire.JobFacts{Job: randomRef(r), Input: number(r), SubmittedMs: number(r), Budget: number(r), Hold: r.IntN(2) == 0, Implicit: r.IntN(2) == 0, Lease: float64(number(r))})
		q.Reads = append(q.Reads, &wire.JobReads{Job: randomRef(r), Memory: number(r), Disk: number(r)})
	}
	return q
}

func randomFollow(r *rand.Rand) *wire.FollowRequest {
	q := &wire.FollowRequest{User: one(r, "u", "v", ""), Application: one(r, "j1", "j2", "a b"), Version: one(r, 0, 1, r.Uint64()), Wait: one(r, 0, math.NaN(), -1)}
	for range r.IntN(4) {
		q.Add = append(q.Add, &wire.FollowedBlocks{Blocks: randomList(r), Hosts: one(r, nil, []string{"a", "h1"}, []string{"h1", "h1", ""})})
		q.Remove = append(q.Remove, randomList(r))
		if q.Remove[len(q.Remove)-1] == nil {
			q.Remove[len(q.Remove)-1] = &wire.BlockList{}
		}
	}
	return q
}

// TestCachedForWhom: of a file it is told what is kept and for whom; of others only that they are there, but to root.
func TestCachedForWhom(t *testing.T) {
	in, _, a, b := warmTwo(t)
	warmJob(t, in, "bob", "j2", "hdfs://c/data/x")
	settle(a, b)
	told := func(user string) *wire.CachedInput {
		f, done, err := in.find(t.Context(), user, []string{"hdfs://c/data/x"})
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		return in.cached(user, f.files)[0]
	}
	for user, want := range map[string][]string{"alice": {"j1 of alice", "others"}, "bob": {"j2 of bob", "others"}, "carol": {"others"}, "root": {"j1 of alice", "j2 of bob"}} {
		if c := told(user); c.Pinned != 400 || !slices.Equal(c.PinnedBy, want) {
			t.Errorf("%s is told of %d of %d bytes for %q; want %q", user, c.Pinned, c.Size, c.PinnedBy, want)
		}
	}
	jobs := []string{"j1", "j2"}
	for i := range 20 {
		jobs = append(jobs, fmt.Sprint("k", 10+i))
		warmJob(t, in, "alice", jobs[len(jobs)-1], "hdfs://c/data/x")
	}
	settle(a, b)
	if by := told("root").PinnedBy; len(by) != 11 || by[9] != "k17 of alice" || by[10] != "12 more" {
		t.Errorf("22 jobs: %q", by)
	}
	if _, err := in.Cool(t.Context(), &wire.CoolInputsRequest{User: "root", Paths: []string{"hdfs://c/data/x"}, Jobs: jobs}); err != nil {
		t.Fatal(err)
	}
	settle(a, b)
	if c := told("root"); c.Pinned != 0 || len(c.PinnedBy) != 0 {
		t.Errorf("after their end: %d bytes for %q", c.Pinned, c.PinnedBy)
	}
}

// cachedInputs asks a server what of a path is in memory; got is called with each part of the answer.
func cachedInputs(t *testing.T, in *Inputs, path string, got func(*wire.CachedInputsChunk)) error {
	mux := http.NewServeMux()
	mux.Handle(wireconnect.NewInputServiceHandler(in))
	server := httptest.NewUnstartedServer(mux)
	server.Config.ConnState = func(c net.Conn, s http.ConnState) { // who sends much waits for who reads it
		if s == http.StateNew {
			c.(*net.TCPConn).SetWriteBuffer(16 << 10)
		}
	}
	server.Start()
	defer server.Close()
	narrow := &http.Transport{DialContext: func(ctx context.Context, network, at string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, at)
		if err == nil {
			c.(*net.TCPConn).SetReadBuffer(16 << 10)
		}
		return c, err
	}}
	defer narrow.CloseIdleConnections()
	client := wireconnect.NewInputServiceClient(&http.Client{Transport: narrow}, server.URL)
	stream, err := client.CachedInputs(t.Context(), &wire.CachedInputsRequest{User: "alice", Paths: []string{path}})
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		got(stream.Msg())
	}
	return stream.Err()
}

// TestCachedInputsAwaitsTheirNodes: who asks for files waits for the nodes that may have them, and not until these have nothing
// to hear of what others ask.
func TestCachedInputsAwaitsTheirNodes(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{"/a": {blocks: blocksOf(1, 1, "a.example")}}}
	slow := idle
	slow.settle = 20 * time.Second
	in := newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}, timing: slow})
	a, b := newNode(t, in, "a"), newNode(t, in, "b")
	settle(a, b)
	a.memory[id(1)] = 60
	other := func(block int64, host string) {
		q := &wire.FollowRequest{User: "other", Application: "app", Add: []*wire.FollowedBlocks{followed(block, 1, host)}}
		if _, err := in.Follow(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	other(100, "b.example")
	if _, err := b.exchange(); err != nil { // it is told of the block, and does not come back
		t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		var resident int64
		err := cachedInputs(t, in, "hdfs://c/a", func(m *wire.CachedInputsChunk) {
			for _, p := range m.Problems {
				t.Errorf("%v", p)
			}
			for _, c := range m.Files {
				resident += c.Resident
			}
		})
		if err != nil || resident != 60 {
			t.Errorf("%d bytes are in memory, %v", resident, err)
		}
	}()
	for block := int64(101); ; block++ {
		select {
		case <-answered:
			return
		default:
		}
		other(block, "a.example") // each time when it comes it is told of one
		if _, err := a.exchange(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCachedInputsTakenSlowly: the last part of a long answer is as true as the first, however slowly the caller takes it.
func TestCachedInputsTakenSlowly(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{}}
	const n = 1200
	for i := range int64(n) {
		f.files[fmt.Sprintf("/%d%s", i, strings.Repeat("x", 400))] = nameFile{blocks: blocksOf(i, 1, "a.example")}
	}
	slow := idle
	slow.settle = patience
	in := newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}, timing: slow})
	a := newNode(t, in, "a")
	settle(a)
	for i := range int64(n) {
		a.memory[id(i)] = 100
	}
	a.wait = 0.05
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := a.exchange(); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	files, resident := 0, int64(0)
	err := cachedInputs(t, in, "hdfs://c/", func(m *wire.CachedInputsChunk) {
		if files == 0 && len(m.Files) > 0 {
			in.look(time.Now().Add(2 * time.Minute))
			in.tidy()
		}
		for _, p := range m.Problems {
			t.Errorf("%v", p)
		}
		for _, c := range m.Files {
			files++
			resident += c.Resident
		}
	})
	close(stop)
	<-stopped
	if err != nil || files != n || resident != 100*n {
		t.Errorf("%d files with %d bytes in memory, %v", files, resident, err)
	}
}
