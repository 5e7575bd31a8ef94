package inputs

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace/warm/master"
	"headrace/wire"
	"headrace/wire/convert"
	"headrace/wire/wireconnect"
)

// TestWarmWhat: files are found by their names, directories and patterns, each once, as the
// user who asks.
func TestWarmWhat(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{
		"/d/a": {blocks: blocksOf(1, 2, "a.example")}, "/d/b": {blocks: blocksOf(3, 1, "a.example")},
		"/d/secret": {blocks: blocksOf(4, 1, "a.example"), readers: []string{"bob"}}, "/empty/x": {},
	}}
	fs := f.start(t)
	in := newInputs(t, Config{FileSystems: []FileSystem{fs}})
	newNode(t, in, "a").settle()
	st := warmJob(t, in, "alice", "j", "hdfs://c/d", "hdfs://c/d/*", "hdfs://c/d/a/")
	if st.Files != 2 || st.Blocks != 3 || st.Bytes != 300 || st.Failed != 1 || len(st.Failures) != 1 || st.Failures[0].Path != "hdfs://c/d/secret" || st.State != "queued" {
		t.Errorf("%v", st)
	}
	if st := warmJob(t, in, "bob", "j", "hdfs://c/d"); st.Files != 3 || st.Failed != 0 {
		t.Errorf("of bob: %v", st)
	}
	again := warmJob(t, in, "alice", "j", "hdfs://c/d/a", "hdfs://c/d")
	if again.Files != 2 || again.Blocks != 3 {
		t.Errorf("again: %v", again)
	}
	if res, err := in.Inputs(t.Context(), &wire.InputsRequest{User: "alice", Jobs: []string{"j"}}); err != nil || len(again.Paths)+len(res.Inputs[0].Paths) != 0 {
		t.Errorf("paths for who does not ask for them: %v, %v", res, err)
	}
	wantEqual(t, "paths", standing(t, in, "alice", "j").Paths, []string{"hdfs://c/d", "hdfs://c/d/*", "hdfs://c/d/a/", "hdfs://c/d/a"})
	const elsewhere = "hdfs://other/d"
	part := warmJob(t, in, "alice", "part", elsewhere, "hdfs://c/d/b", "/d/b")
	if part.Files != 1 || part.Failed != 2 || part.Failures[0].Path != elsewhere || !strings.HasPrefix(part.Failures[0].Reason, "the manager knows no") {
		t.Errorf("with paths of which nothing can be asked: %v", part)
	}
	for what, c := range map[string]struct {
		q     *wire.WarmInputsRequest
		code  connect.Code
		words string
	}{
		"nobody":            {&wire.WarmInputsRequest{Paths: []string{"hdfs://c/d"}}, connect.CodeInvalidArgument, "no user"},
		"somebody long":     {&wire.WarmInputsRequest{User: strings.Repeat("x", 1000), Paths: []string{"hdfs://c/d"}}, connect.CodeInvalidArgument, "no user"},
		"an odd job":        {&wire.WarmInputsRequest{User: "u", Job: "a b", Paths: []string{"hdfs://c/d"}}, connect.CodeInvalidArgument, "name of a job"},
		"a negative budget": {&wire.WarmInputsRequest{User: "u", Job: "j", Budget: -1, Paths: []string{"hdfs://c/d"}}, connect.CodeInvalidArgument, "-1 bytes"},
		"an endless lease":  {&wire.WarmInputsRequest{User: "u", Job: "j", Lease: math.Inf(1), Paths: []string{"hdfs://c/d"}}, connect.CodeInvalidArgument, "lease"},
		"no path":           {&wire.WarmInputsRequest{User: "u"}, connect.CodeInvalidArgument, "no path"},
		"many paths":        {&wire.WarmInputsRequest{User: "u", Paths: make([]string, maxPaths+1)}, connect.CodeInvalidArgument, "10001 paths"},
		"a long path":       {&wire.WarmInputsRequest{User: "u", Paths: []string{"hdfs://c/d", "hdfs://c/" + strings.Repeat("A", 30_000) + "{/,,}x"}}, connect.CodeInvalidArgument, "a path of 30015 bytes, \"hdfs://c/AAA"},
		"no URL":            {&wire.WarmInputsRequest{User: "u", Paths: []string{"/d"}}, connect.CodeInvalidArgument, "hdfs://cluster/data"},
		"an odd URL":        {&wire.WarmInputsRequest{User: "u", Paths: []string{"hdfs://a@c/d"}}, connect.CodeInvalidArgument, "not the name"},
		"another one":       {&wire.WarmInputsRequest{User: "u", Paths: []string{"hdfs://other/d"}}, connect.CodeFailedPrecondition, "--hdfs other="},
		"upwards":           {&wire.WarmInputsRequest{User: "u", Paths: []string{"hdfs://c/../../etc"}}, connect.CodeNotFound, ""},
		"no file":           {&wire.WarmInputsRequest{User: "u", Paths: []string{"hdfs://c/none"}}, connect.CodeNotFound, "none"},
		"no match":          {&wire.WarmInputsRequest{User: "u", Paths: []string{"hdfs://c/d/z*"}}, connect.CodeNotFound, "no file matches"},
		"nothing in it":     {&wire.WarmInputsRequest{User: "u", Paths: []string{"hdfs://c/empty"}}, connect.CodeNotFound, "nothing in it"},
		"secret":            {&wire.WarmInputsRequest{User: "u", Paths: []string{"hdfs://c/d/secret"}}, connect.CodePermissionDenied, "secret"},
	} {
		_, err := in.Warm(t.Context(), c.q)
		wantCode(t, what, err, c.code, c.words)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := in.Warm(ctx, &wire.WarmInputsRequest{User: "u", Paths: []string{"hdfs://c/d"}})
	wantCode(t, "a caller that has gone", err, connect.CodeCanceled)
	none := newInputs(t, Config{})
	_, err = none.Warm(t.Context(), &wire.WarmInputsRequest{User: "u", Paths: []string{"hdfs://c/d"}})
	wantCode(t, "no file system", err, connect.CodeFailedPrecondition, "--hdfs")
	f.mu.Lock()
	for _, u := range f.users {
		if u != "alice+" && u != "bob+" && u != "u+" {
			t.Errorf("asked as %s", u)
		}
	}
	f.users = nil
	f.mu.Unlock()

	fs.Name, fs.Proxy = "", "headrace"
	proxy := newInputs(t, Config{FileSystems: []FileSystem{fs}})
	st = warmJob(t, proxy, "bob", "j", "hdfs://whatever/d/secret")
	wantEqual(t, "paths", standing(t, proxy, "bob", st.Job).Paths, []string{"hdfs://whatever/d/secret"})
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range f.users {
		wantEqual(t, "asked for another", u, "headrace+bob")
	}
	for what, list := range map[string][]FileSystem{"twice": {fs, fs}, "no name node": {{Name: "x"}}} {
		if _, err := New(Config{FileSystems: list}); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// TestWarmedWhereItIsInMemory: what is in memory is not read again on another node, also if nobody has followed it until then: nodes are asked
// first.
func TestWarmedWhereItIsInMemory(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{"/x": {blocks: blocksOf(1, 20, "a.example", "b.example")}}}
	patient := idle
	patient.place = patience
	in := newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}, timing: patient})
	a, b := newNode(t, in, "a"), newNode(t, in, "b")
	settle(a, b)
	for n := range int64(20) {
		b.memory[id(n+1)] = 100
	}
	b.state, a.wait, b.wait = wire.KeptState_KEPT_STATE_RESIDENT, 0.01, 0.01
	asked := make(chan error, 1)
	go func() {
		_, err := in.Warm(t.Context(), &wire.WarmInputsRequest{User: "u", Job: "j", Paths: []string{"hdfs://c/x"}})
		asked <- err
	}()
	for waits := true; waits; {
		select {
		case err := <-asked:
			if waits = false; err != nil {
				t.Fatal(err)
			}
		default:
			a.exchange()
			b.exchange()
		}
	}
	settle(a, b)
	if len(a.kept("u/j")) != 0 || len(b.kept("u/j")) != 20 {
		t.Errorf("a is to keep %v, and b, which has them, %v", a.kept("u/j"), b.kept("u/j"))
	}
	// One that goes is read again where the manager says.
	b.memory[id(7)] = 0
	a.memory[id(7)] = 100
	settle(a, b)
	in.look(time.Now())
	settle(a, b)
	wantEqual(t, "kept where it is", a.kept("u/j"), []int64{7})
}

// TestReadBesideWarming: what somebody reads is left to them, and nothing is read for the job there, but on the other node.
func TestReadBesideWarming(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{"/x": {blocks: blocksOf(1, 20, "a.example", "b.example")}}}
	in := newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}})
	a, b := newNode(t, in, "a"), newNode(t, in, "b")
	a.state, b.state = wire.KeptState_KEPT_STATE_PLANNED, wire.KeptState_KEPT_STATE_PLANNED
	settle(a, b)
	warmJob(t, in, "u", "j", "hdfs://c/x")
	settle(a, b)
	before := b.kept("u/j")
	if len(a.kept("u/j"))+len(before) != 20 || len(before) < 2 {
		t.Fatalf("%v and %v", a.kept("u/j"), before)
	}
	a.memory[id(before[0])] = 50
	settle(a, b)
	in.look(time.Now())
	settle(a, b)
	wantEqual(t, "where somebody reads", len(a.kept("u/j")), 0)
	if got := b.kept("u/j"); len(got) != 19 || slices.Contains(got, before[0]) {
		t.Errorf("elsewhere: %v, without %d", got, before[0])
	}
	if st := standing(t, in, "u", "j"); st.Left != 2000 || st.NotFit != 0 {
		t.Errorf("%v", st)
	}
}

// TestWhichFileSystem: the one of that name, wherever one without a name stands.
func TestWhichFileSystem(t *testing.T) {
	any, named := FileSystem{NameNodes: []string{"http://any:1"}}, FileSystem{Name: "b", NameNodes: []string{"http://b:1"}}
	for _, list := range [][]FileSystem{{any, named}, {named, any}} {
		in := newInputs(t, Config{FileSystems: list})
		for path, want := range map[string]string{"hdfs://b/x": "http://b:1", "hdfs://c/x": "http://any:1"} {
			if at, err := in.locate(path); err != nil || at.fs.NameNodes[0] != want {
				t.Errorf("%s of %v: %+v, %v", path, list, at, err)
			}
		}
	}
}

// TestTooManyBlocks: what is beyond the bounds is refused, and nothing stays of it.
func TestTooManyBlocks(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{"/x": {blocks: blocksOf(1, 20, "a.example")}}}
	c := Config{FileSystems: []FileSystem{f.start(t)}}
	c.Master.PerJob, c.Residency.PerApplication = 10, 10
	in := newInputs(t, c)
	_, err := in.Warm(t.Context(), &wire.WarmInputsRequest{User: "u", Job: "j", Paths: []string{"hdfs://c/x"}})
	wantCode(t, "many blocks", err, connect.CodeResourceExhausted, "10")
	_, err = in.Follow(t.Context(), &wire.FollowRequest{User: "u", Application: "j", Add: []*wire.FollowedBlocks{followed(1, 20, "a.example")}})
	wantCode(t, "many followed blocks", err, connect.CodeResourceExhausted, "10")
	if st := standing(t, in, "u", "j"); st != nil || len(in.paths.of) != 0 || in.memory.Totals().Applications != 0 {
		t.Errorf("it stays: %v, %v, %+v", st, in.paths.of, in.memory.Totals())
	}
}

// TestGoesOnAndOn: a job that lets go of what it has read has more read ahead than it may want at a time, file after file.
func TestGoesOnAndOn(t *testing.T) {
	const files, bound = 25, 5
	f := &nameNode{files: map[string]nameFile{}}
	for i := range files {
		f.files[fmt.Sprint("/x", i)] = nameFile{blocks: blocksOf(int64(2*i), 2, "a.example")}
	}
	c := Config{FileSystems: []FileSystem{f.start(t)}}
	c.Master.PerJob, c.Master.PerOwner = bound, bound
	in := newInputs(t, c)
	a := newNode(t, in, "a")
	a.settle()
	for i := range files {
		q := &wire.WarmInputsRequest{User: "alice", Job: "driver", Implicit: true, Paths: []string{fmt.Sprint("hdfs://c/x", i)}}
		if _, err := in.Warm(t.Context(), q); err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
		a.settle()
		wantEqual(t, "kept", a.kept("alice/driver"), []int64{int64(2 * i), int64(2*i + 1)})
		for o := range a.keeping {
			a.keeping[o] = wire.KeptState_KEPT_STATE_READ
		}
		a.settle()
		in.look(time.Now())
	}
	if st := standing(t, in, "alice", "driver"); st.Warmed != files*200 || st.Bytes != st.Warmed || st.Files != files || st.Pinned+st.Left+st.NotFit != 0 {
		t.Errorf("%v", st)
	}
}

// TestLookUpsAreBounded: the name node is asked no further when there are too many blocks, and of many
// requests of a user few are answered at a time, which nobody else waits for.
func TestLookUpsAreBounded(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{}}
	for i := range 500 {
		f.files[fmt.Sprint("/d/", i)] = nameFile{blocks: blocksOf(int64(10*i), 6, "a.example")}
	}
	c := Config{FileSystems: []FileSystem{f.start(t)}}
	c.Master.PerJob = 10
	in := newInputs(t, c)
	_, err := in.Warm(t.Context(), &wire.WarmInputsRequest{User: "u", Job: "j", Paths: []string{"hdfs://c/d"}})
	wantCode(t, "many blocks", err, connect.CodeResourceExhausted, "10 blocks")
	f.mu.Lock()
	if n := len(f.users); n > 100 {
		t.Errorf("the name node was asked %d times", n)
	}
	f.mu.Unlock()
	_, err = in.Warm(t.Context(), &wire.WarmInputsRequest{User: "u", Job: "j", Paths: slices.Repeat([]string{"hdfs://c/" + strings.Repeat("/", maxPathBytes/400)}, 400)})
	wantCode(t, "long paths", err, connect.CodeInvalidArgument, "bytes")

	var ends []func()
	for range userRequests {
		end, err := in.requests.Begin(t.Context(), "u")
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = in.Warm(soon, &wire.WarmInputsRequest{User: "u", Job: "j", Paths: []string{"hdfs://c/d/1"}})
	wantCode(t, "one more", err, connect.CodeCanceled)
	warmJob(t, in, "v", "j", "hdfs://c/d/1")
	// What waits is bounded in bytes as well, since each may have megabytes of paths.
	large := slices.Repeat([]string{"hdfs://c/" + strings.Repeat("/", maxPathBytes/400-20) + "d/1"}, 400)
	waits, over := context.WithCancel(t.Context())
	defer over()
	refused := make(chan error, 10)
	for range cap(refused) {
		go func() {
			_, err := in.Warm(waits, &wire.WarmInputsRequest{User: "u", Job: "j", Paths: large})
			refused <- err
		}()
	}
	for range cap(refused) - userBytes/maxPathBytes {
		select {
		case err := <-refused:
			wantCode(t, "much that waits", err, connect.CodeResourceExhausted, "bytes of paths")
		case <-time.After(patience):
			t.Fatal("all that waits is held")
		}
	}
	over()
	for range userBytes / maxPathBytes {
		wantCode(t, "who has gone", <-refused, connect.CodeCanceled)
	}
	if all, _ := in.asking.Taken(); all != 0 {
		t.Errorf("%d bytes still count", all)
	}
	for _, end := range ends {
		end()
	}
	warmJob(t, in, "u", "j", "hdfs://c/d/1")
}

// TestPathsAreBounded: of paths as many are kept as there is room for, which others get when jobs end.
func TestPathsAreBounded(t *testing.T) {
	in, _, _, _ := warmTwo(t)
	var paths []string
	for i := range 60 {
		paths = append(paths, "hdfs://c/"+strings.Repeat("/", 20_000+i)+"data/x")
	}
	hold := func(first, n int, paths []string) {
		t.Helper()
		for i := range n {
			if _, err := in.Warm(t.Context(), &wire.WarmInputsRequest{User: "bob", Job: fmt.Sprint("j", first+i), Hold: true, Paths: paths}); err != nil {
				t.Fatal(err)
			}
		}
	}
	hold(0, 10, paths)
	if all, _ := in.paths.quota.Taken(); all > 10<<20 || all < 9_000_000 {
		t.Errorf("%d bytes of paths are kept", all)
	}
	in.paths.quota.Owner = 11 << 20
	hold(10, 3, paths[:45])
	if all, _ := in.paths.quota.Taken(); all > 12<<20 {
		t.Errorf("%d bytes of paths are kept", all)
	}
	if _, err := in.Cool(t.Context(), &wire.CoolInputsRequest{User: "bob", Paths: paths[:1]}); err != nil {
		t.Error(err)
	}
	if all, owners := in.paths.quota.Taken(); all > 2<<20 || owners > 2 {
		t.Errorf("%d bytes of paths of %d users stay", all, owners)
	}
}

// TestAskedInParts: a job that asks in parts is as large as all of them and was submitted with the first, and
// nodes hear of what is new alone.
func TestAskedInParts(t *testing.T) {
	in, f, a, b := warmTwo(t)
	f.mu.Lock()
	f.files["/more"] = nameFile{blocks: blocksOf(50, 1, "a.example")}
	f.mu.Unlock()
	first := warmJob(t, in, "alice", "j", "hdfs://c/data")
	settle(a, b)
	ask := func(path string, submitted int64) *wire.InputsStatus {
		t.Helper()
		st, err := in.Warm(t.Context(), &wire.WarmInputsRequest{User: "alice", Job: "j", Paths: []string{path}, SubmittedMs: submitted})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	st := ask("hdfs://c/data", first.SubmittedMs+5000)
	if st.SubmittedMs != first.SubmittedMs || st.Bytes != first.Bytes {
		t.Errorf("asked again: %v after %v", st, first)
	}
	for _, n := range []*madeUp{a, b} {
		if answer, err := n.exchange(); err != nil || answer.Read != nil {
			t.Errorf("node %s has to do: %v, %v", n.name, answer, err)
		}
	}
	ask("hdfs://c/more", 0)
	answer, err := a.exchange()
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, j := range answer.Read.GetKeep() {
		for range convert.BlocksToKeep(j.Blocks...) {
			told++
		}
		wantEqual(t, "input", j.Job.Input, first.Bytes+100)
	}
	if told == 0 || told > 2 {
		t.Errorf("a node hears of %d blocks: %v", told, answer)
	}
	settle(a, b)
	wantEqual(t, "what the other knows", b.facts["alice/j"].Input, first.Bytes+100)
}

// TestHeldOnce: who asks for the same paths again and again without a job has asked once, also at a manager that was started again.
func TestHeldOnce(t *testing.T) {
	in, f, _, _ := warmTwo(t)
	hold := warmJob(t, in, "alice", "", "hdfs://c/data", "hdfs://c/data/x")
	for what, st := range map[string]*wire.InputsStatus{
		"again": warmJob(t, in, "alice", "", "hdfs://c/data", "hdfs://c/data/x"), "in another order": warmJob(t, in, "alice", "", "hdfs://c/data/x", "hdfs://c/data", "hdfs://c/data"),
		"another manager": warmJob(t, newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}}), "alice", "", "hdfs://c/data", "hdfs://c/data/x"),
	} {
		wantEqual(t, what, st.Job, hold.Job)
	}
	for _, other := range []*wire.InputsStatus{warmJob(t, in, "alice", "", "hdfs://c/data"), warmJob(t, in, "alice", "", "hdfs://c/data/x"), warmJob(t, in, "alice", "", "hdfs://c/data", "hdfs://c/data/y")} {
		if other.Job == hold.Job {
			t.Errorf("of other paths it is the same: %v", other)
		}
	}
	wantEqual(t, "jobs", in.master.Totals().Jobs, 5)
}

// TestAskedAboutMany: one question is about so many jobs, and about each once.
func TestAskedAboutMany(t *testing.T) {
	in, _, _, _ := warmTwo(t)
	warmJob(t, in, "alice", "j", "hdfs://c/data")
	if _, err := in.Cool(t.Context(), &wire.CoolInputsRequest{User: "alice", Jobs: []string{"j"}}); err != nil {
		t.Fatal(err)
	}
	q := &wire.InputsRequest{User: "alice", Jobs: slices.Repeat([]string{"j"}, maxJobs)}
	if res, err := in.Inputs(t.Context(), q); err != nil || len(res.Inputs) != 1 || res.Inputs[0].State != "ended" {
		t.Errorf("%d answers, %v", len(res.GetInputs()), err)
	}
	q.Jobs = append(q.Jobs, "j")
	_, err := in.Inputs(t.Context(), q)
	wantCode(t, "more", err, connect.CodeInvalidArgument, "10001 jobs")
}

// TestCool ends jobs by their names, and what was asked for without a job by its paths.
func TestCool(t *testing.T) {
	in, _, a, b := warmTwo(t)
	hold := warmJob(t, in, "alice", "", "hdfs://c/data", "hdfs://c/data/*")
	if !strings.HasPrefix(hold.Job, "hold-") || hold.User != "alice" {
		t.Fatalf("%v", hold)
	}
	warmJob(t, in, "bob", "j1", "hdfs://c/data")
	settle(a, b)
	cool := func(user string, jobs, paths []string) (*wire.CoolInputsResponse, error) {
		return in.Cool(t.Context(), &wire.CoolInputsRequest{User: user, Jobs: jobs, Paths: paths})
	}
	_, err := cool("", []string{"j1"}, nil)
	wantCode(t, "nobody", err, connect.CodeInvalidArgument)
	_, err = cool("alice", nil, nil)
	wantCode(t, "nothing", err, connect.CodeInvalidArgument, "name the jobs")
	_, err = cool("carol", []string{"j1"}, []string{"hdfs://c/data"})
	wantCode(t, "of others", err, connect.CodeNotFound, "nothing of yours")
	_, err = cool("alice", nil, []string{"hdfs://c/data/x"})
	wantCode(t, "a job by its path", err, connect.CodeNotFound)
	if res, err := cool("alice", nil, []string{"hdfs://c/data/*"}); err != nil || res.Ended != 1 {
		t.Errorf("by path: %v, %v", res, err)
	}
	if standing(t, in, "alice", hold.Job) != nil || standing(t, in, "alice", "j1") == nil || standing(t, in, "bob", "j1") == nil {
		t.Error("the wrong ones have ended")
	}
	if res, err := cool("alice", []string{"j1"}, nil); err != nil || res.Ended != 1 || res.Released != 400 {
		t.Errorf("by name: %v, %v", res, err)
	}
	settle(a, b)
	if len(a.kept("alice/j1"))+len(b.kept("alice/j1")) != 0 {
		t.Error("nodes keep what has ended")
	}
	keptByBoth(t, "for bob still", "bob/j1", a, b)
	if res, err := cool("root", []string{"j1"}, nil); err != nil || res.Ended != 1 {
		t.Errorf("by root: %v, %v", res, err)
	}
	settle(a, b)
	if len(a.keeping)+len(b.keeping)+len(a.watching)+len(b.watching) != 0 || len(in.paths.of) != 0 {
		t.Errorf("something stays: %v %v %v", a.keeping, b.watching, in.paths.of)
	}
}

// TestCoolAdopted: what was asked for without a job of a manager before this one is ended by its paths, too, or by others that
// have all of its files.
func TestCoolAdopted(t *testing.T) {
	in, f, a, b := warmTwo(t)
	f.mu.Lock()
	f.files["/more"] = nameFile{blocks: blocksOf(50, 1, "a.example")}
	f.mu.Unlock()
	data, more, bobs := warmJob(t, in, "alice", "", "hdfs://c/data"), warmJob(t, in, "alice", "", "hdfs://c/more"), warmJob(t, in, "bob", "", "hdfs://c/more/")
	settle(a, b)
	in = newInputs(t, Config{FileSystems: in.cfg.FileSystems})
	a.in, b.in = in, in
	settle(a, b)
	cool := func(paths ...string) (*wire.CoolInputsResponse, error) {
		return in.Cool(t.Context(), &wire.CoolInputsRequest{User: "alice", Paths: paths})
	}
	again := warmJob(t, in, "alice", "", "hdfs://c/data/x") // its paths are known, and these alone end it
	settle(a, b)
	_, err := cool("hdfs://c/none")
	wantCode(t, "no file", err, connect.CodeNotFound, "none", data.Job, more.Job, "--job")
	if strings.Contains(err.Error(), bobs.Job) || strings.Contains(err.Error(), again.Job) {
		t.Errorf("it names others: %v", err)
	}
	if res, err := cool("hdfs://c/data"); err != nil || res.Ended != 1 || res.Released != 400 {
		t.Errorf("%v, %v", res, err)
	}
	if standing(t, in, "alice", data.Job) != nil || standing(t, in, "alice", more.Job) == nil || standing(t, in, "alice", "j1") == nil ||
		standing(t, in, "alice", again.Job) == nil || standing(t, in, "bob", bobs.Job) == nil {
		t.Error("the wrong ones have ended")
	}
	if res, err := cool("hdfs://c/"); err != nil || res.Ended != 1 || standing(t, in, "alice", more.Job) != nil || standing(t, in, "bob", bobs.Job) == nil {
		t.Errorf("by a directory above: %v, %v", res, err)
	}
	asked := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.users)
	}
	before := asked()
	if res, err := cool("hdfs://c/data/x"); err != nil || res.Ended != 1 || asked() != before {
		t.Errorf("where all paths are known the name node is asked: %v, %v", res, err)
	}
	_, err = cool("hdfs://c/data")
	wantCode(t, "nothing any more", err, connect.CodeNotFound, "nothing of yours")
}

// TestAskedAgain: who waits for something finds out that it has ended, or that the manager was
// started since and is to be asked once more, by the same name.
func TestAskedAgain(t *testing.T) {
	in, f, a, b := warmTwo(t)
	states := func(in *Inputs) (all []string) {
		t.Helper()
		res, err := in.Inputs(t.Context(), &wire.InputsRequest{User: "alice", Jobs: []string{"j1", "j2"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range res.Inputs {
			all = append(all, st.Job+" "+st.State)
		}
		return all
	}
	hold := warmJob(t, in, "alice", "", "hdfs://c/data")
	settle(a, b)
	wantEqual(t, "at first", states(in), []string{"j1 done"})
	if _, err := in.Cool(t.Context(), &wire.CoolInputsRequest{User: "alice", Jobs: []string{"j1"}}); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "after its end", states(in), []string{"j1 ended"})
	for user, in := range map[string]*Inputs{"alice": newInputs(t, Config{}), "bob": in} {
		if res, err := in.Inputs(t.Context(), &wire.InputsRequest{User: user, Jobs: []string{"j1"}}); err != nil || len(res.Inputs) != 0 {
			t.Errorf("%s hears of what is not known: %v, %v", user, res, err)
		}
	}

	// What nodes have no room for may have it on one that has not come back yet.
	slow := idle
	slow.away = time.Hour
	again := newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}, timing: slow})
	q := &wire.WarmInputsRequest{User: "alice", Job: hold.Job, Hold: true, SubmittedMs: hold.SubmittedMs, Paths: []string{"hdfs://c/data"}}
	st, err := again.Warm(t.Context(), q)
	if err != nil || st.State != "queued" || st.NotFit != 400 || st.SubmittedMs != hold.SubmittedMs {
		t.Fatalf("before a node has come: %v, %v", st, err)
	}
	again.mu.Lock()
	again.started = again.started.Add(-time.Hour)
	again.mu.Unlock()
	if st := standing(t, again, "alice", hold.Job); st.State != "full" {
		t.Errorf("when nobody is to come: %v", st)
	}
	a.in, b.in = again, again
	settle(a, b)
	again.look(time.Now())
	settle(a, b)
	if st := standing(t, again, "alice", hold.Job); st.State != "done" || st.Pinned != 400 {
		t.Errorf("when nodes have come: %v", st)
	}
	for _, apps := range []map[string]*wire.Application{{hold.Job: {}}, {"other": {}}} {
		again.Running(apps)
	}
	keptByBoth(t, "a hold that was asked for again", "alice/"+hold.Job, a, b)
}

// TestWhoSees: users see their own, root sees all.
func TestWhoSees(t *testing.T) {
	in, _, _, _ := warmTwo(t)
	warmJob(t, in, "bob", "j2", "hdfs://c/data")
	for user, want := range map[string][]string{"alice": {"j1"}, "bob": {"j2"}, "root": {"j1", "j2"}, "carol": nil} {
		res, err := in.Inputs(t.Context(), &wire.InputsRequest{User: user})
		var jobs []string
		for _, st := range res.GetInputs() {
			jobs = append(jobs, st.Job)
		}
		slices.Sort(jobs)
		if err != nil || !slices.Equal(jobs, want) {
			t.Errorf("%s sees %q, %v; want %q", user, jobs, err, want)
		}
	}
	if standing(t, in, "alice", "j2") != nil || standing(t, in, "root", "j2") == nil {
		t.Error("by name others are seen than without")
	}
	_, err := in.Inputs(t.Context(), &wire.InputsRequest{})
	wantCode(t, "nobody", err, connect.CodeInvalidArgument)
}

// TestRunning: a job ends with its application, once that has run; what a user holds stays.
func TestRunning(t *testing.T) {
	in, _, a, b := warmTwo(t)
	hold := warmJob(t, in, "alice", "", "hdfs://c/data")
	running := func(names ...string) {
		m := map[string]*wire.Application{}
		for _, n := range names {
			m[n] = &wire.Application{}
		}
		in.Running(m)
	}
	running("other")
	if standing(t, in, "alice", "j1") == nil {
		t.Fatal("it has ended before it began")
	}
	running("other", "j1", hold.Job)
	running("other", "j1")
	running() // it was the last one
	settle(a, b)
	if standing(t, in, "alice", "j1") != nil || standing(t, in, "alice", hold.Job) == nil {
		t.Error("the wrong ones have ended")
	}
	keptByBoth(t, "held", "alice/"+hold.Job, a, b)
	if len(in.ran) != 0 || len(in.paths.of) != 1 {
		t.Errorf("remembered: %v, %v", in.ran, in.paths.of)
	}
}

// TestNeverNamed: a job whose application has ended before its scheduler named it has ended.
func TestNeverNamed(t *testing.T) {
	in, _, a, b := warmTwo(t)
	in.Running(map[string]*wire.Application{"other": {}})
	in.Ended([]string{"another"})
	if standing(t, in, "alice", "j1") == nil {
		t.Fatal("it has ended although nobody says so")
	}
	in.Ended([]string{"another", "j1"})
	settle(a, b)
	if standing(t, in, "alice", "j1") != nil || len(in.ran) != 0 {
		t.Errorf("it has not ended, or is remembered: %v", in.ran)
	}
}

// TestTwoSchedulers: that two use one manager is written, once.
func TestTwoSchedulers(t *testing.T) {
	var log bytes.Buffer
	in := newInputs(t, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	running := func(names ...string) {
		m := map[string]*wire.Application{}
		for _, n := range names {
			m[n] = &wire.Application{}
		}
		in.Running(m)
	}
	running("application_1_0001")
	running("application_1_0001", "application_1_0002")
	running("application_1_0002")
	running()
	if strings.Contains(log.String(), "two schedulers") {
		t.Error("one scheduler is taken for two")
	}
	for range 3 {
		running("application_3_0001")
		running("application_2_0001", "application_2_0002")
	}
	if n := strings.Count(log.String(), "two schedulers"); n != 1 {
		t.Errorf("it is written %d times: %s", n, log.String())
	}
}

// TestSchedulerIsGone: while nothing is heard of a scheduler no job ends, nor is one taken for dead, and when it is back
// those that it does not name have all their time.
func TestSchedulerIsGone(t *testing.T) {
	in, _, a, b := warmTwo(t)
	in.cfg.timing.unnamed, in.cfg.timing.silent = 10*time.Minute, time.Minute
	const app = "application_1_0001"
	in.Running(map[string]*wire.Application{"application_1_0000": {}})
	warmJob(t, in, "alice", app, "hdfs://c/data")
	settle(a, b)
	name, at := master.Name{Owner: "alice", Job: app}, time.Now()
	in.asked[name] = at.Add(-11 * time.Minute)
	if in.alive(name) {
		t.Error("an application that the scheduler does not name is alive")
	}
	look := func(later time.Duration, heard bool) {
		in.mu.Lock()
		if heard {
			in.heard = at.Add(later)
		}
		in.mu.Unlock()
		in.look(at.Add(later))
	}
	look(11*time.Minute, false)
	look(25*time.Minute, true)
	look(34*time.Minute, true)
	if standing(t, in, "alice", app) == nil {
		t.Error("it has ended")
	}
	look(36*time.Minute, true)
	if standing(t, in, "alice", app) != nil {
		t.Error("it has not ended ten minutes after the scheduler was back")
	}
	in.asked[name], in.heard = at.Add(-11*time.Minute), at.Add(-2*time.Minute)
	if !in.alive(name) {
		t.Error("it is dead by the word of a scheduler of long ago")
	}
	in.Heard()
	if in.alive(name) {
		t.Error("the scheduler does not count")
	}
}

// TestAskedWhileItRuns: input that was asked for when the scheduler had named the application already, as by a driver of
// Spark, ends with it, too, whether the driver says so or was killed.
func TestAskedWhileItRuns(t *testing.T) {
	in, _, a, b := warmTwo(t)
	in.cfg.timing.unnamed = time.Hour
	const app = "application_1_0001"
	in.Running(map[string]*wire.Application{app: {}})
	warmJob(t, in, "alice", app, "hdfs://c/data")
	in.Running(map[string]*wire.Application{})
	settle(a, b)
	if standing(t, in, "alice", app) != nil || standing(t, in, "alice", "j1") == nil {
		t.Error("the wrong ones have ended")
	}
}

// TestNeverSubmitted: an application that YARN never names, because its client has died before,
// ends some time after anybody has asked for it or about it; jobs that are none of YARN's stay.
func TestNeverSubmitted(t *testing.T) {
	in, _, a, b := warmTwo(t)
	const app = "application_1_0001"
	warmJob(t, in, "alice", app, "hdfs://c/data")
	others := map[string]*wire.Application{"application_1_0002": {}}
	in.cfg.timing.unnamed = time.Hour
	in.Running(others)
	in.cfg.timing.unnamed = -1 // it is over
	in.asked[master.Name{Owner: "alice", Job: app}] = time.Now().Add(time.Minute)
	in.Running(others)
	if standing(t, in, "alice", app) == nil {
		t.Fatal("it has ended while its client waits")
	}
	if at := in.asked[master.Name{Owner: "alice", Job: app}]; time.Until(at) > 0 {
		t.Errorf("it was asked about just now, which is noted for %v", at)
	}
	in.look(time.Now()) // no application comes or goes
	settle(a, b)
	if standing(t, in, "alice", app) != nil || standing(t, in, "alice", "j1") == nil {
		t.Error("the wrong ones have ended")
	}
	in.look(time.Now())
	if len(in.asked) != 1 {
		t.Errorf("remembered: %v", in.asked)
	}
}

// TestAwaited: a job that its scheduler does not name yet is not taken for dead while somebody asks about it, however short
// memory is; then it is.
func TestAwaited(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{"/x": {blocks: blocksOf(1, 5, "a.example")}}}
	c := Config{FileSystems: []FileSystem{f.start(t)}}
	c.Master.Grace = time.Nanosecond
	in := newInputs(t, c)
	in.cfg.timing.unnamed = time.Hour
	a := newNode(t, in, "a")
	a.budget = 800
	a.settle()
	jobs := []string{"application_1_0001", "nightly"}
	for _, job := range jobs {
		if st := warmJob(t, in, "alice", job, "hdfs://c/x"); st.NotFit == 0 {
			t.Fatalf("all of it fits: %v", st)
		}
	}
	in.Running(map[string]*wire.Application{"application_1_0002": {}})
	a.settle()
	for _, waits := range []bool{true, false} {
		if !waits {
			for name := range in.asked {
				in.asked[name] = time.Now().Add(-2 * time.Hour)
			}
		}
		in.look(time.Now())
		for _, job := range jobs {
			if stands := standing(t, in, "alice", job) != nil; stands != waits {
				t.Errorf("%s stands: %v, somebody waits: %v", job, stands, waits)
			}
		}
	}
}

// TestCleanedUp: of what the master ends by itself nothing stays.
func TestCleanedUp(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{}}
	for i := range 3 {
		f.files[fmt.Sprint("/", i)] = nameFile{blocks: blocksOf(int64(100*i), 5, "a.example")}
	}
	c := Config{FileSystems: []FileSystem{f.start(t)}}
	c.Master.All, c.Master.PerOwner, c.Master.PerJob, c.Master.Grace = 12, 12, 12, time.Nanosecond
	in := newInputs(t, c)
	in.Running(map[string]*wire.Application{"other": {}})
	for i := range 3 { // the third has no room beside the others
		if _, err := in.Warm(t.Context(), &wire.WarmInputsRequest{User: "u", Job: fmt.Sprint("j", i), Paths: []string{fmt.Sprint("hdfs://c/", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	in.look(time.Now())
	jobs := 0
	for range in.master.Names() {
		jobs++
	}
	if jobs >= 3 || len(in.paths.of) != jobs {
		t.Errorf("%d jobs, paths of %v", jobs, in.paths.of)
	}
}

// TestCached: it is told file by file what is in memory, and that is not asked for longer.
func TestCached(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{
		"/d/a": {blocks: blocksOf(1, 2, "a.example", "b.example")}, "/d/b": {blocks: blocksOf(3, 1, "b.example")},
		"/d/secret": {blocks: blocksOf(4, 1, "a.example"), readers: []string{"bob"}},
	}}
	slow := idle
	slow.settle = patience
	in := newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}, timing: slow})
	mux := http.NewServeMux()
	mux.Handle(wireconnect.NewInputServiceHandler(in))
	server := httptest.NewServer(mux)
	defer server.Close()
	client := wireconnect.NewInputServiceClient(server.Client(), server.URL)
	a, b := newNode(t, in, "a"), newNode(t, in, "b")
	settle(a, b)
	ask := func(user, path string) (files map[string]*wire.CachedInput, problems []*wire.PathProblem, err error) {
		stream, err := client.CachedInputs(t.Context(), &wire.CachedInputsRequest{User: user, Paths: []string{path}})
		if err != nil {
			return nil, nil, err
		}
		defer stream.Close()
		files = map[string]*wire.CachedInput{}
		for stream.Receive() {
			problems = append(problems, stream.Msg().Problems...)
			for _, c := range stream.Msg().Files {
				files[c.Path] = c
			}
		}
		return files, problems, stream.Err()
	}
	answered, told := make(chan struct{}), make(chan struct{})
	go func() { // the nodes hear of the question, and tell
		defer close(told)
		for {
			select {
			case <-answered:
				return
			default:
			}
			a.wait, b.wait = 0.01, 0.01
			for k := range a.watching {
				a.memory[k] = 60
			}
			for k := range b.watching {
				b.memory[k] = 100 - 20*(k.Number%2)
			}
			if _, err := a.exchange(); err != nil {
				return
			}
			if _, err := b.exchange(); err != nil {
				return
			}
		}
	}()
	files, problems, err := ask("alice", "hdfs://c/d")
	close(answered)
	<-told
	settle(a, b)
	if err != nil || len(files) != 2 || len(problems) != 1 || problems[0].Path != "hdfs://c/d/secret" {
		t.Fatalf("%v, %v, %v", files, problems, err)
	}
	one := files["hdfs://c/d/a"]
	if one.Size != 200 || one.Resident != 180 || len(one.Nodes) != 2 || one.Nodes[0].Node != "b" || one.Nodes[0].Bytes != 180 || one.Nodes[1].Bytes != 120 {
		t.Errorf("%v", one)
	}
	if two := files["hdfs://c/d/b"]; two.Resident != 80 || len(two.Nodes) != 1 {
		t.Errorf("%v", two)
	}
	_, _, err = ask("", "hdfs://c/d")
	wantCode(t, "nobody", err, connect.CodeInvalidArgument)
	if _, problems, err = ask("alice", "hdfs://c/none"); err != nil || len(problems) != 1 {
		t.Errorf("no file: %v, %v", problems, err)
	}
	unseen := make(chan int, 1)
	go func() {
		files, problems, err := ask("alice", "hdfs://c/d/a")
		if err != nil || len(files) != 1 {
			t.Errorf("%v, %v", files, err)
		}
		unseen <- len(problems)
	}()
	a.unseen = 7
	for len(a.watching) == 0 {
		a.settle()
	}
	b.settle()
	select {
	case <-unseen:
		t.Fatal("answered before a node has looked at all blocks")
	case <-time.After(50 * time.Millisecond):
	}
	a.unseen = 0
	a.settle()
	if n := <-unseen; n != 0 {
		t.Errorf("%d problems when all have looked", n)
	}
	a.settle()
	in.cfg.timing.settle, a.unseen = time.Millisecond, 7
	a.settle()
	if _, problems, err := ask("alice", "hdfs://c/d/a"); err != nil || len(problems) != 1 || problems[0].Reason != errUnseen.Error() {
		t.Errorf("a node has not looked: %v, %v", problems, err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if n := in.memory.Totals(); n.Applications != 0 || n.Blocks != 0 {
		t.Errorf("it goes on being asked: %+v", n)
	}
}

// TestPlaces: whoever has asked for files is told where their blocks will be, and nobody else.
func TestPlaces(t *testing.T) {
	f := &nameNode{files: map[string]nameFile{"/d/a": {blocks: blocksOf(1, 2, "a.example")}, "/d/b": {blocks: blocksOf(3, 1, "z.example")}}}
	in := newInputs(t, Config{FileSystems: []FileSystem{f.start(t)}})
	newNode(t, in, "a").settle()
	warmJob(t, in, "alice", "j", "hdfs://c/d")
	ask := func(user string, paths ...string) (string, error) {
		res, err := in.Places(t.Context(), &wire.PlacesRequest{User: user, Job: "j", Paths: paths})
		var all []string
		for _, f := range res.GetFiles() {
			all = append(all, fmt.Sprint(f.Path, f.Sizes, f.Hosts))
		}
		return strings.Join(all, " "), err
	}
	if got, err := ask("alice", "hdfs://c/d/b", "hdfs://c/d/a", "hdfs://c/d"); err != nil || got != "hdfs://c/d/a[100 100] [a.example a.example] hdfs://c/d/b[100] []" {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := ask("bob", "hdfs://c/d/a"); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("to bob: %s, %v", got, err)
	}
	if _, err := ask(""); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("to nobody: %v", err)
	}
	if _, err := ask("alice", make([]string, maxPaths+1)...); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("of too many: %v", err)
	}
}
