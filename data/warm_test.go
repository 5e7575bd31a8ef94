package data

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	bolt "go.etcd.io/bbolt"

	"headrace/data/datatest"
	"headrace/fileset"
	"headrace/internal/budget"
	"headrace/internal/testkit"
	"headrace/pagecache"
	"headrace/serve"
	"headrace/warm"
	"headrace/wire"
)

func TestWarmAndEvict(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.start()
	dir := testkit.OpenDir(t)
	cold, hot := testkit.File(t, dir, "cold", datatest.FileSize, 0o644), testkit.File(t, dir, "hot", datatest.FileSize, 0o644)
	testkit.DropFile(t, cold)
	first, err := b.client.Warm(b.ctx(), &wire.WarmRequest{Paths: []string{dir, dir + "/none"}})
	if err != nil {
		t.Fatal(err)
	}
	if first.Id != "w1" || first.Files != 2 || first.Bytes != 2*datatest.FileSize || first.Resident != datatest.FileSize || first.Failed != 1 || first.Budget <= 0 {
		t.Errorf("accepted: %v", first)
	}
	last, err := datatest.Settled(b.ctx(), b.client, "w1")
	if err != nil {
		t.Fatal(err)
	}
	if last.State != "done" || last.Pinned+last.Followed != 2*datatest.FileSize || last.Migrated < datatest.FileSize || last.Left != 0 ||
		last.Failed != 1 || len(last.Failures) != 1 || last.Failures[0].Path != dir+"/none" || last.BudgetUsed < last.Pinned {
		t.Errorf("in the end: %v", last)
	}
	if n, by := b.calls().PinnedBy(cold); n != datatest.FileSize || !slices.Equal(by, []string{"w1 of " + serve.UserName(uint32(os.Geteuid()))}) {
		t.Errorf("%d bytes of the cold file are kept, by %q", n, by)
	}
	var info wire.NodeInfo
	b.files.Describe(&info, serve.Everything)
	if info.Residency == "" || info.WarmBudget <= 0 || info.Pinned < datatest.FileSize {
		t.Errorf("node: %v", &info)
	}

	// Another request for one of the files keeps it.
	if s := b.calls().Warm(&wire.WarmRequest{Paths: []string{hot}}); s.Id != "w2" || s.State != "done" {
		t.Errorf("second: %v", s)
	}
	res, err := b.client.Evict(b.ctx(), &wire.EvictRequest{Ids: []string{"w1"}})
	if err != nil || res.Requests != 1 || res.Released < datatest.FileSize {
		t.Errorf("end of the first: %v, %v", res, err)
	}
	if n, by := b.calls().PinnedBy(cold); n != 0 || by != nil {
		t.Errorf("%d bytes of the cold file are still kept by %q", n, by)
	}
	res, err = b.client.Evict(b.ctx(), &wire.EvictRequest{Paths: []string{dir}})
	if err != nil || res.Bytes != 2*datatest.FileSize || res.Files != 2 || res.Requests != 1 {
		t.Errorf("eviction: %v, %v", res, err)
	}
	if line, err := datatest.CacheLine(b.ctx(), b.client, dir); err != nil || line != fmt.Sprintf("cold %d 0 0; hot %d 0 0", datatest.FileSize, datatest.FileSize) {
		t.Errorf("afterwards: %s, %v", line, err)
	}
	b.calls().WantRequests()
}

func TestWarmOutlivesTheDaemon(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.start()
	dir := testkit.OpenDir(t)
	for _, name := range []string{"a", "b"} {
		testkit.ColdFile(t, dir, name, datatest.FileSize, 0o644)
	}
	b.calls().Warm(&wire.WarmRequest{Paths: []string{dir}})
	b.calls().Warm(&wire.WarmRequest{Paths: []string{dir + "/b"}})
	if _, err := b.client.Evict(b.ctx(), &wire.EvictRequest{Ids: []string{"w2"}}); err != nil {
		t.Fatal(err)
	}
	both := fmt.Sprintf("w1 done %d", 2*datatest.FileSize)
	b.calls().WantRequests(both)
	b.shutdown()
	b.start()
	b.calls().AwaitRequests(both)
	// What was let go stays so, and numbers are not given twice.
	if _, err := b.client.Evict(b.ctx(), &wire.EvictRequest{Paths: []string{dir + "/a"}}); err != nil {
		t.Fatal(err)
	}
	one := fmt.Sprintf("w1 done %d", datatest.FileSize)
	b.calls().WantRequests(one)
	b.shutdown()
	b.start()
	b.calls().AwaitRequests(one)
	if n, _ := b.calls().PinnedBy(dir + "/a"); n != 0 {
		t.Errorf("%d bytes of the file that was let go are kept", n)
	}
	if s := b.calls().Warm(&wire.WarmRequest{Paths: []string{dir + "/a"}}); s.Id != "w3" {
		t.Errorf("the next request is %s", s.Id)
	}
	// What the paths mean is looked up again.
	b.shutdown()
	os.RemoveAll(dir)
	b.start()
	b.calls().AwaitRequests("w1 done 0", "w3 done 0")
	last, err := datatest.Settled(b.ctx(), b.client, "w1")
	if err != nil || last.Failed != 1 {
		t.Errorf("the directory has gone: %v, %v", last, err)
	}
	if _, err := b.client.Evict(b.ctx(), &wire.EvictRequest{Ids: []string{"w1", "w3"}}); err != nil {
		t.Error(err)
	}
	b.shutdown()
	b.start()
	b.calls().WantRequests()
}

// Files that come after the daemon, such as those of a file system that is mounted late, are found later.
func TestFilesThatComeAfterARestart(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.cfg.again = 100 * time.Millisecond
	b.start()
	dir, other := testkit.OpenDir(t), testkit.OpenDir(t)
	testkit.ColdFile(t, dir, "f", datatest.FileSize, 0o644)
	testkit.ColdFile(t, other, "g", datatest.FileSize, 0o644)
	b.calls().Warm(&wire.WarmRequest{Paths: []string{dir + "/f"}})
	b.calls().Warm(&wire.WarmRequest{Paths: []string{dir + "/f", other}})
	b.shutdown()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.calls().AwaitRequests("w1 done 0", fmt.Sprintf("w2 done %d", datatest.FileSize))
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	b.calls().AwaitRequests(fmt.Sprintf("w1 done %d", datatest.FileSize), fmt.Sprintf("w2 done %d", 2*datatest.FileSize))
	last, err := datatest.Settled(b.ctx(), b.client, "w2")
	if err != nil || last.Failed != 0 || last.Files != 2 {
		t.Errorf("all files are there: %v, %v", last, err)
	}
}

// heldCache asks about a file only when it is let.
type heldCache struct {
	pagecache.Cache
	name       string
	begun, let chan struct{}
}

func (c *heldCache) Resident(f *os.File, r pagecache.Range) (int64, error) {
	if filepath.Base(f.Name()) == c.name {
		select {
		case c.begun <- struct{}{}:
			<-c.let
		default: // later ones
		}
	}
	return c.Cache.Resident(f, r)
}

// TestEvictWhileFilesAreLookedFor: what a user has let go while the files of their requests are looked for after a start of the
// daemon is not read again, then or after another start; and a request of which nothing is left ends.
func TestEvictWhileFilesAreLookedFor(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.start()
	dir, other := testkit.OpenDir(t), testkit.OpenDir(t)
	for _, name := range []string{"a", "z"} {
		testkit.ColdFile(t, dir, name, datatest.FileSize, 0o644)
	}
	testkit.ColdFile(t, other, "only", datatest.FileSize, 0o644)
	b.calls().Warm(&wire.WarmRequest{Paths: []string{dir}})
	b.calls().Warm(&wire.WarmRequest{Paths: []string{other}})
	again := func(held, evicted string) {
		t.Helper()
		b.shutdown()
		c := &heldCache{name: held, begun: make(chan struct{}, 1), let: make(chan struct{})}
		open := b.cfg.Cache
		b.cfg.Cache = func(cfg pagecache.Config) (_ pagecache.Cache, err error) {
			c.Cache, err = open(cfg)
			return c, err
		}
		b.start()
		b.cfg.Cache = open
		testkit.Await(t, "a search", func() bool { return len(c.begun) > 0 })
		if _, err := b.client.Evict(b.ctx(), &wire.EvictRequest{Paths: []string{evicted}}); err != nil {
			t.Error(err)
		}
		for _, e := range b.files.warming.sorted() { // no request is told of what is none of its files
			if r := b.files.warming.recordOf(e); slices.Contains(r.Except, evicted) && !strings.HasPrefix(evicted, r.Paths[0]) {
				t.Errorf("%v has given up %v", r.Paths, r.Except)
			}
		}
		close(c.let)
	}
	one, both := fmt.Sprintf("w1 done %d", datatest.FileSize), fmt.Sprintf("w2 done %d", datatest.FileSize)
	again("z", dir+"/a") // which it has found before
	b.calls().AwaitRequests(one, both)
	if n, _ := b.calls().PinnedBy(dir + "/a"); n != 0 {
		t.Errorf("%d bytes of the file that was let go are kept", n)
	}
	b.shutdown()
	b.start()
	b.calls().AwaitRequests(one, both)
	again("only", dir+"/a") // which is none of the second request's
	b.calls().AwaitRequests(one, both)
	again("only", other)
	b.calls().AwaitRequests(one)
	b.shutdown()
	b.start()
	b.calls().AwaitRequests(one)
}

func TestWarmIsBounded(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.cfg.Budget = datatest.FileSize + datatest.FileSize/2
	b.start()
	dir := testkit.OpenDir(t)
	a, c := testkit.ColdFile(t, dir, "a", datatest.FileSize, 0o644), testkit.ColdFile(t, dir, "c", datatest.FileSize, 0o644)
	huge := testkit.ColdFile(t, dir, "huge", 2*datatest.FileSize, 0o644)
	for _, path := range []string{a, c, huge} {
		testkit.DropFile(t, path)
	}
	if s := b.calls().Warm(&wire.WarmRequest{Paths: []string{a}, Budget: datatest.FileSize / 2}); s.State != "done" || s.NotFit != datatest.FileSize || s.Pinned != 0 {
		t.Errorf("a file beyond the request's own budget: %v", s)
	}
	if s := b.calls().Warm(&wire.WarmRequest{Paths: []string{a, c}}); s.State != "full" || s.Pinned != datatest.FileSize || s.NotFit != datatest.FileSize || s.NotFitReason == "" || s.Left != 0 {
		t.Errorf("two files, room for one: %v", s)
	}
	if s := b.calls().Warm(&wire.WarmRequest{Paths: []string{huge}}); s.State != "done" || s.NotFit != 2*datatest.FileSize || s.NotFitReason == "" {
		t.Errorf("a file that never fits: %v", s)
	}
	// Room becomes free.
	if _, err := b.client.Evict(b.ctx(), &wire.EvictRequest{Paths: []string{a}}); err != nil {
		t.Fatal(err)
	}
	b.calls().AwaitRequests(fmt.Sprintf("w2 done %d", datatest.FileSize), "w3 done 0")
}

func TestAbsurdWarmRequests(t *testing.T) {
	b := newBed(t)
	b.start()
	dir := testkit.OpenDir(t)
	path := testkit.ColdFile(t, dir, "x", 1, 0o644)
	if err := os.Mkdir(dir+"/empty", 0o755); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1000)
	for name, q := range map[string]*wire.WarmRequest{
		"no paths": {}, "relative": {Paths: []string{"x"}}, "NUL": {Paths: []string{"/\x00"}}, "nothing there": {Paths: []string{dir + "/none"}},
		"no match": {Paths: []string{dir + "/*.gz"}}, "empty": {Paths: []string{dir + "/empty"}}, "device": {Paths: []string{"/dev/null"}},
		"budget": {Paths: []string{path}, Budget: -1}, "job": {Paths: []string{path}, Job: long}, "control": {Paths: []string{path}, Job: "a\nb"},
	} {
		if _, err := b.client.Warm(b.ctx(), q); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v, want invalid_argument", name, err)
		}
	}
	for name, q := range map[string]*wire.EvictRequest{
		"nothing": {}, "relative": {Paths: []string{"x"}}, "both": {Ids: []string{"w1"}, Paths: []string{"x"}}, "many": {Ids: make([]string, maxWarmRequests+1)},
	} {
		if _, err := b.client.Evict(b.ctx(), q); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("evict %s: %v, want invalid_argument", name, err)
		}
	}
	if _, err := datatest.Settled(b.ctx(), b.client, "w1"); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("watch: %v, want not_found", err)
	}
	if _, err := b.client.Evict(b.ctx(), &wire.EvictRequest{Ids: []string{"w1"}}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("evict: %v, want not_found", err)
	}
	b.calls().WantRequests()
}

func TestTooManyRequests(t *testing.T) {
	w := &warming{entries: map[warm.RequestID]*warmEntry{}}
	for i := range maxWarmRequests {
		if err := w.mayAdd(7); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		id := warm.RequestID(fmt.Sprint(i))
		w.entries[id] = &warmEntry{rec: record{UID: 7}}
	}
	if err := w.mayAdd(7); connect.CodeOf(serve.Coded(err)) != connect.CodeResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	if err := w.mayAdd(8); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	delete(w.entries, "0")
	if err := w.mayAdd(7); err != nil {
		t.Errorf("one less: %v", err)
	}
}

// What a user may have known of files is counted as they are found, and given back when it was too much.
func TestTooManyFiles(t *testing.T) {
	dir := testkit.OpenDir(t)
	for i := range 5 {
		testkit.ColdFile(t, dir, fmt.Sprint(i), 1, 0o644)
	}
	cache, err := datatest.OpenCache(pagecache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	search := newSearches()
	w := &warming{cache: cache, searches: &search}
	cred, err := me().Credentials()
	if err != nil {
		t.Fatal(err)
	}
	memory := budget.New("bytes", 4*fileCost(dir+"/0", 1), 1<<20)
	one, other := &claim{of: memory, uid: 7}, &claim{of: memory, uid: 7}
	full := func(what string, c *claim, except ...string) {
		t.Helper()
		skip := map[string]bool{}
		for _, name := range except {
			skip[dir+"/"+name] = true
		}
		if found, err := w.find(t.Context(), cred, []string{dir}, skip, c); connect.CodeOf(serve.Coded(err)) != connect.CodeResourceExhausted || found.count != 0 {
			t.Errorf("%s: %+v, %v", what, found, err)
		}
	}
	full("five files, room for four", one)
	if found, err := w.find(t.Context(), cred, []string{dir}, map[string]bool{dir + "/3": true}, one); err != nil || found.count != 4 {
		t.Errorf("four files without one: %+v, %v", found, err)
	}
	full("one more for another request", other, "0", "1", "2", "3")
	one.end()
	// A sparse file takes as much as one that has all its blocks.
	if err := os.Truncate(dir+"/4", 1<<40); err != nil {
		t.Skip(err)
	}
	full("a file of a TiB", other, "0", "1", "2", "3")
	other.end()
	// So do the names that a search keeps itself, also where no file is found.
	search.memory = budget.New("bytes", 4*60, 1<<20)
	if err := search.findAs(t.Context(), cred, []string{dir}, fileset.Visitor{File: func(fileset.File) error { return nil }}); connect.CodeOf(serve.Coded(err)) != connect.CodeResourceExhausted {
		t.Errorf("names of five files, room for four: %v", err)
	}
	if n := memory.Users() + search.memory.Users(); n != 0 {
		t.Errorf("%d users have something after all was given back", n)
	}
}

func TestWithoutWarming(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.cfg.NoWarm = true
	b.start()
	path := testkit.ColdFile(t, testkit.OpenDir(t), "x", datatest.FileSize, 0o644)
	_, err := b.client.Warm(b.ctx(), &wire.WarmRequest{Paths: []string{path}})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "--no-warm") {
		t.Errorf("warm: %v", err)
	}
	if n, _ := b.calls().PinnedBy(path); n != 0 {
		t.Errorf("%d bytes are kept", n)
	}
	var info wire.NodeInfo
	if b.files.Describe(&info, serve.Everything); info.WarmBudget != 0 {
		t.Errorf("node: %v", &info)
	}
}

func TestUsersWarmWhatTheyMayRead(t *testing.T) {
	needRoot(t)
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.start()
	dir := testkit.OpenDir(t)
	testkit.ColdFile(t, dir, "open", datatest.FileSize, 0o644)
	secret := testkit.ColdFile(t, dir, "secret", datatest.FileSize, 0o600)
	ask := func(uid uint32, calls ...string) string {
		t.Helper()
		var answers []string
		for _, c := range calls {
			answers = append(answers, b.call(uid, c))
		}
		return strings.TrimRight(strings.Join(answers, "\n"), "\n")
	}
	if got, want := ask(4001, "warm "+dir), fmt.Sprintf("w1 done %d, 1 failed", datatest.FileSize); got != want {
		t.Errorf("user 4001 warms: %s, want %s", got, want)
	}
	if got := ask(4001, "warm "+secret); got != "invalid_argument" {
		t.Errorf("user 4001 warms what is not theirs: %s", got)
	}
	b.calls().Warm(&wire.WarmRequest{Paths: []string{secret}})
	if got := ask(4002, "requests", "settle w1", "settle w2", "end w1", "end w2", "evict "+dir); got != "\nnot_found\nnot_found\nnot_found\nnot_found\n0 dropped, 0 requests, 1 failed" {
		t.Errorf("user 4002: %q", got)
	}
	// They see who keeps what they may read.
	if got, want := ask(4002, "cache "+dir), fmt.Sprintf("open %d -1 %d; secret: permission denied", datatest.FileSize, datatest.FileSize); got != want {
		t.Errorf("user 4002 sees %s, want %s", got, want)
	}
	if got, want := ask(4001, "requests", "end w1", "requests"), fmt.Sprintf("w1 of 4001\n%d released, 1 requests, 0 failed", datatest.FileSize); got != want {
		t.Errorf("user 4001: %q, want %q", got, want)
	}
	b.calls().WantRequests(fmt.Sprintf("w2 done %d", datatest.FileSize))
	// Root may end everybody's.
	ask(4001, "warm "+dir)
	if res, err := b.client.Evict(b.ctx(), &wire.EvictRequest{Paths: []string{dir}}); err != nil || res.Requests != 2 || res.Bytes != 2*datatest.FileSize {
		t.Errorf("root: %v, %v", res, err)
	}
	b.calls().WantRequests()
}

func TestMetrics(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t)
	b.start()
	path := testkit.ColdFile(t, testkit.OpenDir(t), "x", datatest.FileSize, 0o644)
	testkit.DropFile(t, path)
	b.calls().Warm(&wire.WarmRequest{Paths: []string{path}})
	text := func() string {
		reg := prometheus.NewRegistry()
		reg.MustRegister(b.files.Metrics())
		rec := httptest.NewRecorder()
		promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
		return rec.Body.String()
	}
	got := text()
	for _, want := range []string{
		`headrace_residency_method{method="cachestat"} 1`, "headrace_warm_pinned_bytes 1.048576e+06", "headrace_warm_requests 1",
		"headrace_warm_migrated_bytes_total 1.048576e+06", "headrace_warm_budget_bytes",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	testkit.WantAlarms(t, got, func(metric string) bool { return metric == "headrace_disk_hangs_seconds" })
	b.shutdown()
	b.cfg.NoWarm = true
	b.start()
	if got := text(); strings.Contains(got, "headrace_warm") || !strings.Contains(got, "residency") {
		t.Errorf("without warming:\n%s", got)
	}
}

func TestRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	table := openBucket(t, path)
	s, all, err := openRecords(table)
	if err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	var ids []string
	for i := range 12 {
		r := record{UID: uint32(i), Paths: []string{filepath.Join("/x", fmt.Sprint(i))}}
		if err := s.add(&r); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	if err := s.remove(ids[1], ids[11]); err != nil {
		t.Fatal(err)
	}
	if err := table.db.Close(); err != nil {
		t.Fatal(err)
	}
	table = openBucket(t, path)
	defer table.db.Close()
	if s, all, err = openRecords(table); err != nil || len(all) != 10 {
		t.Fatal(all, err)
	}
	for i, want := range slices.Concat(ids[:1], ids[2:11]) {
		if all[i].ID != want {
			t.Errorf("record %d is %s, want %s", i, all[i].ID, want)
		}
	}
	next := record{}
	if err := s.add(&next); err != nil || next.ID != "w13" {
		t.Errorf("the next one is %s, %v: numbers are not given twice", next.ID, err)
	}
	if err := s.update(func(b *bolt.Bucket) error { return b.Put([]byte(next.ID), []byte(`{"version": 99}`)) }); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openRecords(table); err == nil || !strings.Contains(err.Error(), "newer headrace") {
		t.Errorf("a record of the future: %v", err)
	}
}

// call makes a call (VERB ARG) as a user and tells what came of it in a line.
func (b *bed) call(uid uint32, what string) (answer string) {
	b.t.Helper()
	var err error
	ctx, client := b.ctx(), b.as(fmt.Sprint(uid))
	verb, arg, _ := strings.Cut(what, " ")
	defer func() {
		if err != nil {
			answer = connect.CodeOf(err).String()
		}
	}()
	evicted := func(q *wire.EvictRequest, verb string) {
		var res *wire.EvictResponse
		if res, err = client.Evict(ctx, q); err == nil {
			answer = fmt.Sprintf("%d %s, %d requests, %d failed", res.Bytes+res.Released, verb, res.Requests, res.Failed)
		}
	}
	switch verb {
	case "warm", "settle":
		id := arg
		if verb == "warm" {
			var s *wire.WarmStatus
			if s, err = client.Warm(ctx, &wire.WarmRequest{Paths: []string{arg}}); err != nil {
				return ""
			}
			id = s.Id
		}
		var s *wire.WarmStatus
		if s, err = datatest.Settled(ctx, client, id); err == nil {
			answer = fmt.Sprintf("%s %s %d, %d failed", s.Id, s.State, s.Pinned, s.Failed)
		}
	case "requests":
		var list *wire.ListWarmResponse
		if list, err = client.ListWarm(ctx, &wire.ListWarmRequest{}); err == nil {
			var all []string
			for _, r := range list.Requests {
				all = append(all, r.Id+" of "+r.User)
			}
			answer = strings.Join(all, "; ")
		}
	case "end":
		evicted(&wire.EvictRequest{Ids: []string{arg}}, "released")
	case "evict":
		evicted(&wire.EvictRequest{Paths: []string{arg}}, "dropped")
	case "cache":
		answer, err = datatest.CacheLine(ctx, client, arg)
	}
	return answer
}
