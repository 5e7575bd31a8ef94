package solo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/zstd"
	bolt "go.etcd.io/bbolt"

	"headrace"
	"headrace/data/datatest"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/serve"
	"headrace/solo/statedir"
	"headrace/stream/protocol"
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
		answer, err = datatest.CacheLine(ctx, client, arg)
	case "holders":
		var all *wire.CacheChunk
		if all, err = datatest.Cache(ctx, client, arg); err == nil && len(all.Files) > 0 {
			answer = strings.Join(all.Files[0].PinnedBy, ", ")
		}
	case "warm":
		var s *wire.WarmStatus
		if s, err = client.Warm(ctx, &wire.WarmRequest{Paths: []string{arg}}); err == nil {
			if s, err = datatest.Settled(ctx, client, s.Id); err == nil {
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

func (b *bed) calls() datatest.Calls { return datatest.Calls{T: b.t, Client: b.data} }

func TestWarmEndsWithItsJob(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t, policy.Cost)
	b.cfg.Slots = 4
	b.start()
	dir := testkit.OpenDir(t)
	path := testkit.ColdFile(t, dir, "x", datatest.FileSize, 0o644)
	job := func(name string) func(*wire.RunRequest) { return func(q *wire.RunRequest) { q.Job = name } }
	early := b.calls().Warm(&wire.WarmRequest{Paths: []string{path}, Job: "early"})
	if early.Job != "early" {
		t.Errorf("its job is %q", early.Job)
	}
	if _, by := b.calls().PinnedBy(path); !slices.Equal(by, []string{"job early of " + serve.UserName(uint32(os.Geteuid()))}) {
		t.Errorf("kept by %q", by)
	}
	id := b.run(headrace.Normal, job("late"))
	other := b.run(headrace.Normal, job("late"))
	b.awaitState(id, headrace.Running)
	b.calls().Warm(&wire.WarmRequest{Paths: []string{path}, Job: "late"})
	b.awaitState(other, headrace.Running)
	b.finish(id, 0)
	b.awaitState(id, headrace.Done)
	all := []string{fmt.Sprintf("w1 done %d", datatest.FileSize), fmt.Sprintf("w2 done %d", datatest.FileSize)}
	b.calls().WantRequests(all...)
	// The last task of it ends: so does the request. The other job has not begun.
	b.finish(other, 0)
	b.calls().AwaitRequests(all[0])
	// It begins and ends at once.
	id = b.run(headrace.Normal, job("early"))
	b.awaitState(id, headrace.Running)
	b.finish(id, 0)
	b.calls().AwaitRequests()
	// An end while there is no daemon counts, too.
	id = b.run(headrace.Normal, job("down"))
	b.awaitState(id, headrace.Running)
	b.calls().Warm(&wire.WarmRequest{Paths: []string{path}, Job: "down"})
	b.shutdown()
	b.finish(id, 0)
	b.start()
	b.calls().AwaitRequests()
	// Paths let go nothing that a job will read.
	b.calls().Warm(&wire.WarmRequest{Paths: []string{path}, Job: "never"})
	res, err := b.data.Evict(b.ctx(), &wire.EvictRequest{Paths: []string{path}})
	if err != nil || res.Kept != datatest.FileSize || res.Requests != 0 || res.Bytes != 0 {
		t.Errorf("eviction of what a job will read: %v, %v", res, err)
	}
}

// TestRequestsOfOlderDaemonsAreTakenOver: a state directory has what a daemon wrote
// that kept requests and tasks as one.
func TestRequestsOfOlderDaemonsAreTakenOver(t *testing.T) {
	datatest.NeedCachestat(t)
	b := newBed(t, policy.Cost)
	dir := testkit.OpenDir(t)
	testkit.ColdFile(t, dir, "a", datatest.FileSize, 0o644)
	testkit.ColdFile(t, dir, "b", datatest.FileSize, 0o644)
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
	b.calls().AwaitRequests(fmt.Sprintf("w3 done %d", datatest.FileSize), fmt.Sprintf("w7 done %d", 2*datatest.FileSize))
	if s := b.calls().Warm(&wire.WarmRequest{Paths: []string{dir}}); s.Id != "w8" {
		t.Errorf("the next request is %s: numbers are not given twice", s.Id)
	}
}

// TestWaitsForAnotherConsumer: a task whose input is not dealt because another one has to come back first says
// for whom it waits.
func TestWaitsForAnotherConsumer(t *testing.T) {
	b := newBed(t, policy.Wait)
	b.cfg.Slots = 3
	b.start()
	path := testkit.File(t, testkit.OpenDir(t), "x", 1<<20, 0o644)
	res, err := b.tasks.Run(b.ctx(), &wire.RunRequest{
		Argv: []string{"work"}, Priority: uint32(headrace.Normal),
		Input: &wire.Input{Paths: []string{path}, Split: wire.Split_SPLIT_RAW, Tasks: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []headrace.TaskID
	for _, id := range res.Ids {
		ids = append(ids, headrace.TaskID(id))
		b.awaitState(headrace.TaskID(id), headrace.Running)
	}
	connect := func(consumer uint32) *protocol.Conn {
		t.Helper()
		sock, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: statedir.StreamSocket(b.cfg.StateDir), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		c := protocol.NewConn(sock)
		err = c.Send(&protocol.Hello{Version: protocol.Version, Stream: b.get(ids[0]).Input.Stream, Consumer: consumer, Attempt: 1, Whole: true})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := c.Receive(); err != nil || m.Type() != protocol.TypeWelcome {
			t.Fatalf("%v, %v", m, err)
		}
		return c
	}
	for consumer := range uint32(2) {
		defer connect(consumer).Close()
	}
	if _, err := b.tasks.Suspend(b.ctx(), &wire.VerbRequest{Id: res.Ids[0]}); err != nil {
		t.Fatal(err)
	}
	b.crash()
	b.start()
	says := func(id headrace.TaskID, want string) {
		t.Helper()
		b.await(id, want, func(w *wire.Task) bool { return strings.Contains(w.Reason, want) })
	}
	says(ids[2], fmt.Sprintf("its input waits for %s (suspended), %s (running): ", ids[0], ids[1]))
	says(ids[1], fmt.Sprintf("its input waits for %s (suspended): ", ids[0]))
	for consumer := range uint32(2) {
		defer connect(consumer).Close()
	}
	for _, id := range ids {
		b.await(id, "dealt its input", func(w *wire.Task) bool { return !strings.Contains(w.Reason, "waits for") })
	}
}

// TestWaitsForNewerVersion: a task whose input only a newer version deals says so, and how others that read it have ended is kept
// for that.
func TestWaitsForNewerVersion(t *testing.T) {
	b := newBed(t, policy.Wait)
	b.cfg.Slots, b.cfg.KeepEnded = 2, 1
	b.start()
	path := testkit.File(t, testkit.OpenDir(t), "x", 1<<20, 0o644)
	res, err := b.tasks.Run(b.ctx(), &wire.RunRequest{
		Argv: []string{"work"}, Priority: uint32(headrace.Normal),
		Input: &wire.Input{Paths: []string{path}, Split: wire.Split_SPLIT_RAW, Tasks: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	first, second := headrace.TaskID(res.Ids[0]), headrace.TaskID(res.Ids[1])
	b.awaitState(first, headrace.Running)
	b.awaitState(second, headrace.Running)
	stream := b.get(first).Input.Stream
	b.shutdown()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	plan := filepath.Join(statedir.Streams(b.cfg.StateDir), stream, "plan")
	if err := os.WriteFile(plan, z.EncodeAll([]byte(`{"version": 1000}`), nil), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start()
	const why = "its input is not dealt: it waits for the version of headrace that has written it"
	b.await(second, "told why it waits", func(w *wire.Task) bool { return strings.Contains(w.Reason, why) })
	b.finish(first, 1)
	b.awaitState(first, headrace.Failed)
	gone := func(id headrace.TaskID) bool {
		_, err := b.tasks.Get(b.ctx(), &wire.GetRequest{Id: string(id)})
		return connect.CodeOf(err) == connect.CodeNotFound
	}
	var others []headrace.TaskID
	for range 2 {
		other := b.run(headrace.Normal)
		b.awaitState(other, headrace.Running)
		b.finish(other, 0)
		others = append(others, other)
	}
	testkit.Await(t, "one to be forgotten", func() bool { return gone(others[0]) })
	if gone(first) {
		t.Error("nobody knows how the first has ended, and its stream waits for it")
	}
	forget := func() error {
		_, err := b.tasks.Forget(b.ctx(), &wire.VerbRequest{Id: string(first)})
		return err
	}
	if err := forget(); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("forget: %v", err)
	}
	if _, err := b.tasks.Kill(b.ctx(), &wire.VerbRequest{Id: string(second)}); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "the first to be forgotten, as nobody reads the stream any more", func() bool { return forget() == nil || gone(first) })
}
