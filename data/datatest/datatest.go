package datatest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/pagecache"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// FileSize is that of a file which is to be kept in memory.
const FileSize = 1 << 20

// patience is how long a call may take, on a machine that may be busy.
const patience = 5 * time.Minute

// NeedCachestat skips where the kernel does not tell what is in memory.
func NeedCachestat(t testing.TB) {
	t.Helper()
	if err := linux.ProbeCachestat(); err != nil {
		t.Skip(err)
	}
}

// OpenCache opens the page cache without what takes long: the kernel is asked about each
// file.
func OpenCache(c pagecache.Config) (pagecache.Cache, error) {
	if c.Method = pagecache.Cachestat; linux.ProbeCachestat() != nil {
		c.Method = pagecache.None
	}
	return pagecache.New(c)
}

// Cache collects all chunks.
func Cache(ctx context.Context, client wireconnect.DataServiceClient, paths ...string) (*wire.CacheChunk, error) {
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

// CacheLine returns "NAME SIZE RESIDENT PINNED; " for each file and "NAME: REASON; "
// for each problem.
func CacheLine(ctx context.Context, client wireconnect.DataServiceClient, path string) (string, error) {
	all, err := Cache(ctx, client, path)
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

// Settled waits for the last status of a request.
func Settled(ctx context.Context, client wireconnect.DataServiceClient, id string) (*wire.WarmStatus, error) {
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

// Calls fail their test when they fail.
type Calls struct {
	T      testing.TB
	Client wireconnect.DataServiceClient
}

func (c Calls) ctx() context.Context {
	ctx, cancel := context.WithTimeout(c.T.Context(), patience)
	c.T.Cleanup(cancel)
	return ctx
}

// Warm makes a request and returns its last status.
func (c Calls) Warm(q *wire.WarmRequest) *wire.WarmStatus {
	c.T.Helper()
	first, err := c.Client.Warm(c.ctx(), q)
	if err != nil {
		c.T.Fatal("warm:", err)
	}
	last, err := Settled(c.ctx(), c.Client, first.Id)
	if err != nil {
		c.T.Fatal("watch:", err)
	}
	return last
}

// Requests returns "ID STATE BYTES" of all there are: those in memory, kept there or followed.
func (c Calls) Requests() []string {
	c.T.Helper()
	list, err := c.Client.ListWarm(c.ctx(), &wire.ListWarmRequest{})
	if err != nil {
		c.T.Fatal("list:", err)
	}
	var all []string
	for _, r := range list.Requests {
		all = append(all, fmt.Sprintf("%s %s %d", r.Id, r.State, r.Pinned+r.Followed))
	}
	return all
}

// WantRequests fails unless the requests are these.
func (c Calls) WantRequests(want ...string) {
	c.T.Helper()
	if got := c.Requests(); !slices.Equal(got, want) {
		c.T.Errorf("requests %q, want %q", got, want)
	}
}

// AwaitRequests waits until the requests are these.
func (c Calls) AwaitRequests(want ...string) {
	c.T.Helper()
	testkit.Await(c.T, fmt.Sprintf("requests %q", want), func() bool { return slices.Equal(c.Requests(), want) },
		func() string { return fmt.Sprintf("%q", c.Requests()) })
}

// PinnedBy returns how much of a file is kept in memory, and for whom.
func (c Calls) PinnedBy(path string) (pinned int64, by []string) {
	c.T.Helper()
	all, err := Cache(c.ctx(), c.Client, path)
	if err != nil || len(all.Files) != 1 {
		c.T.Fatalf("cache: %v, %v", all, err)
	}
	return all.Files[0].Pinned, all.Files[0].PinnedBy
}
