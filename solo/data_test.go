package solo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	bolt "go.etcd.io/bbolt"

	"headrace"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/serve"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// callData makes a call about files and tells what came of it in a line; false:
// it is no such call.
func callData(socket, verb, arg string) (answer string, is bool) {
	client := wireconnect.NewDataServiceClient(wire.NewHTTPClient(socket), wire.BaseURL)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	switch verb {
	case "cache":
		answer, err = cacheLine(ctx, client, arg)
	case "holders":
		var all *wire.CacheChunk
		if all, err = cacheOf(ctx, client, arg); err == nil && len(all.Files) > 0 {
			answer = strings.Join(all.Files[0].PinnedBy, ", ")
		}
	case "warm":
		var s *wire.WarmStatus
		if s, err = client.Warm(ctx, &wire.WarmRequest{Paths: []string{arg}}); err == nil {
			if s, err = settledWarm(ctx, client, s.Id); err == nil {
				answer = fmt.Sprintf("%s %s %d, %d failed", s.Id, s.State, s.Pinned, s.Failed)
			}
		}
	case "evict":
		var res *wire.EvictResponse
		if res, err = client.Evict(ctx, &wire.EvictRequest{Paths: []string{arg}}); err == nil {
			answer = fmt.Sprintf("%d dropped, %d requests, %d failed", res.Bytes+res.Released, res.Requests, res.Failed)
		}
	default:
		return "", false
	}
	if err != nil {
		answer = connect.CodeOf(err).String()
	}
	return answer, true
}

// cacheOf collects all chunks.
func cacheOf(ctx context.Context, client wireconnect.DataServiceClient, paths ...string) (*wire.CacheChunk, error) {
	stream, err := client.Cache(ctx, &wire.CacheRequest{Paths: paths})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	all := &wire.CacheChunk{}
	for stream.Receive() {
		c := stream.Msg()
		all.Files = append(all.Files, c.Files...)
		all.Problems = append(all.Problems, c.Problems...)
		if c.Residency != "" {
			all.Residency, all.ResidencyWhy = c.Residency, c.ResidencyWhy
		}
	}
	return all, stream.Err()
}

// cacheLine is "NAME SIZE RESIDENT PINNED; " for each file and "NAME: REASON; "
// for each problem.
func cacheLine(ctx context.Context, client wireconnect.DataServiceClient, path string) (string, error) {
	all, err := cacheOf(ctx, client, path)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range all.Files {
		fmt.Fprintf(&b, "%s %d %d %d; ", filepath.Base(f.Path), f.Size, f.Resident, f.Pinned)
	}
	for _, p := range all.Problems {
		fmt.Fprintf(&b, "%s: %s; ", filepath.Base(p.Path), p.Reason)
	}
	return strings.TrimSuffix(b.String(), "; "), nil
}

// needCachestat skips where the kernel does not tell what is in memory.
func needCachestat(t *testing.T) {
	t.Helper()
	if err := linux.ProbeCachestat(); err != nil {
		t.Skip(err)
	}
}

// settledWarm is the last status of a request.
func settledWarm(ctx context.Context, client wireconnect.DataServiceClient, id string) (*wire.WarmStatus, error) {
	stream, err := client.WatchWarm(ctx, &wire.WatchWarmRequest{Id: id})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var last *wire.WarmStatus
	for stream.Receive() {
		last = stream.Msg()
	}
	return last, stream.Err()
}

func (b *bed) warm(q *wire.WarmRequest) *wire.WarmStatus {
	b.t.Helper()
	first, err := b.data.Warm(b.ctx(), q)
	if err != nil {
		b.t.Fatal("warm:", err)
	}
	last, err := settledWarm(b.ctx(), b.data, first.Id)
	if err != nil {
		b.t.Fatal("watch:", err)
	}
	return last
}

// requests are "ID STATE PINNED" of all there are.
func (b *bed) requests() []string {
	b.t.Helper()
	list, err := b.data.ListWarm(b.ctx(), &wire.ListWarmRequest{})
	if err != nil {
		b.t.Fatal("list:", err)
	}
	var all []string
	for _, r := range list.Requests {
		all = append(all, fmt.Sprintf("%s %s %d", r.Id, r.State, r.Pinned))
	}
	return all
}

func (b *bed) wantRequests(want ...string) {
	b.t.Helper()
	if got := b.requests(); !slices.Equal(got, want) {
		b.t.Errorf("requests %q, want %q", got, want)
	}
}

// awaitRequests waits until the requests are these.
func (b *bed) awaitRequests(want ...string) {
	b.t.Helper()
	testkit.Await(b.t, fmt.Sprintf("requests %q", want), func() bool { return slices.Equal(b.requests(), want) },
		func() string { return fmt.Sprintf("%q", b.requests()) })
}

func (b *bed) pinnedBy(path string) (pinned int64, by []string) {
	b.t.Helper()
	all, err := cacheOf(b.ctx(), b.data, path)
	if err != nil || len(all.Files) != 1 {
		b.t.Fatalf("cache: %v, %v", all, err)
	}
	return all.Files[0].Pinned, all.Files[0].PinnedBy
}

const fileSize = 1 << 20

func TestWarmEndsWithItsJob(t *testing.T) {
	needCachestat(t)
	b := newBed(t, policy.Cost)
	b.cfg.Slots = 4
	b.start()
	dir := testkit.OpenDir(t)
	path := testkit.File(t, dir, "x", fileSize, 0o644)
	job := func(name string) func(*wire.RunRequest) { return func(q *wire.RunRequest) { q.Job = name } }
	early := b.warm(&wire.WarmRequest{Paths: []string{path}, Job: "early"})
	if early.Job != "early" {
		t.Errorf("its job is %q", early.Job)
	}
	if _, by := b.pinnedBy(path); !slices.Equal(by, []string{"job early of " + serve.UserName(uint32(os.Geteuid()))}) {
		t.Errorf("kept by %q", by)
	}
	id := b.run(headrace.Normal, job("late"))
	other := b.run(headrace.Normal, job("late"))
	b.awaitState(id, headrace.Running)
	b.warm(&wire.WarmRequest{Paths: []string{path}, Job: "late"})
	b.awaitState(other, headrace.Running)
	b.finish(id, 0)
	b.awaitState(id, headrace.Done)
	all := []string{fmt.Sprintf("w1 done %d", fileSize), fmt.Sprintf("w2 done %d", fileSize)}
	b.wantRequests(all...)
	// The last task of it ends: so does the request. The other job has not begun.
	b.finish(other, 0)
	b.awaitRequests(all[0])
	// It begins and ends at once.
	id = b.run(headrace.Normal, job("early"))
	b.awaitState(id, headrace.Running)
	b.finish(id, 0)
	b.awaitRequests()
	// An end while there is no daemon counts, too.
	id = b.run(headrace.Normal, job("down"))
	b.awaitState(id, headrace.Running)
	b.warm(&wire.WarmRequest{Paths: []string{path}, Job: "down"})
	b.shutdown()
	b.finish(id, 0)
	b.start()
	b.awaitRequests()
	// Paths let go nothing that a job will read.
	b.warm(&wire.WarmRequest{Paths: []string{path}, Job: "never"})
	res, err := b.data.Evict(b.ctx(), &wire.EvictRequest{Paths: []string{path}})
	if err != nil || res.Kept != fileSize || res.Requests != 0 || res.Bytes != 0 {
		t.Errorf("eviction of what a job will read: %v, %v", res, err)
	}
}

// TestRequestsOfOlderDaemonsAreTakenOver: a state directory has what a daemon wrote
// that kept requests and tasks as one.
func TestRequestsOfOlderDaemonsAreTakenOver(t *testing.T) {
	needCachestat(t)
	b := newBed(t, policy.Cost)
	dir := testkit.OpenDir(t)
	testkit.File(t, dir, "a", fileSize, 0o644)
	testkit.File(t, dir, "b", fileSize, 0o644)
	db, err := bolt.Open(filepath.Join(b.cfg.StateDir, "state.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		old, err := tx.CreateBucket([]byte("warm"))
		if err != nil {
			return err
		}
		return errors.Join(old.SetSequence(7),
			old.Put([]byte("w3"), []byte(fmt.Sprintf(`{"version":1,"id":"w3","order":3,"uid":0,"gid":0,"paths":[%q],"except":[%q],"submitted_ms":1}`, dir, dir+"/b"))),
			old.Put([]byte("w7"), []byte(fmt.Sprintf(`{"version":1,"id":"w7","order":7,"uid":0,"gid":0,"job":"later","paths":[%q],"submitted_ms":2}`, dir))))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.awaitRequests(fmt.Sprintf("w3 done %d", fileSize), fmt.Sprintf("w7 done %d", 2*fileSize))
	if s := b.warm(&wire.WarmRequest{Paths: []string{dir}}); s.Id != "w8" {
		t.Errorf("the next request is %s: numbers are not given twice", s.Id)
	}
}
