package data

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"connectrpc.com/connect"
	bolt "go.etcd.io/bbolt"

	"headrace/data/datatest"
	"headrace/disk"
	"headrace/serve"
	"headrace/wire/wireconnect"
)

// patience is how long a test waits for something that must happen, on a machine that may be busy.
const patience = 5 * time.Minute

// bed has one daemon's files after the other on the same state.
type bed struct {
	t      *testing.T
	cfg    Config
	db     string
	files  *Files // of the present one
	server *httptest.Server
	client wireconnect.DataServiceClient
	end    func()
}

func newBed(t *testing.T) *bed {
	t.Helper()
	dir := t.TempDir()
	b := &bed{t: t, db: filepath.Join(dir, "state.db"), cfg: Config{
		Streams: filepath.Join(dir, "streams"), Cache: datatest.OpenCache, Jobs: noJobs{}, Log: slog.New(slog.DiscardHandler),
		Disks: &disk.Scheduler{}, Meter: func() (*disk.Meter, error) { return disk.NewMeter(disk.MeterOptions{NoBPF: true}) },
	}}
	t.Cleanup(b.shutdown)
	return b
}

// noJobs is a world in which no job has begun.
type noJobs struct{}

func (noJobs) Live() map[Job]bool { return nil }
func (noJobs) Watch() (<-chan struct{}, func() []Submission, func()) {
	return nil, func() []Submission { return nil }, func() {}
}

// bucket is the table of a database with nothing else in it.
type bucket struct{ db *bolt.DB }

func (b bucket) Update(do func(*bolt.Bucket) error) error {
	return b.db.Update(func(tx *bolt.Tx) error {
		t, err := tx.CreateBucketIfNotExists([]byte("x"))
		if err != nil {
			return err
		}
		return do(t)
	})
}

func openBucket(t *testing.T, path string) bucket {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	return bucket{db}
}

// uidHeader names the user who calls; without it the one that the test runs as does.
const uidHeader = "Caller"

func (b *bed) start() {
	b.t.Helper()
	table := openBucket(b.t, b.db)
	b.cfg.Requests = table
	files, err := Open(b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	files.Start()
	mux := http.NewServeMux()
	mux.Handle(wireconnect.NewDataServiceHandler(files.Service(), connect.WithInterceptors(serve.Interceptor())))
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := me()
		if uid, err := strconv.Atoi(r.Header.Get(uidHeader)); err == nil {
			who = serve.Caller{UID: uint32(uid), GID: uint32(uid)}
		}
		mux.ServeHTTP(w, r.WithContext(serve.WithCaller(r.Context(), who)))
	}))
	b.files, b.client = files, b.as("")
	b.end = func() {
		b.server.CloseClientConnections()
		b.server.Close()
		files.Close()
		table.db.Close()
	}
}

func me() serve.Caller { return serve.Caller{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())} }

// as returns a client of another user; the test must be run by root.
func (b *bed) as(uid string) wireconnect.DataServiceClient {
	return wireconnect.NewDataServiceClient(b.server.Client(), b.server.URL, connect.WithInterceptors(callsAs(uid)))
}

type callsAs string

func (uid callsAs) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
		q.Header().Set(uidHeader, string(uid))
		return next(ctx, q)
	}
}

func (uid callsAs) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, s connect.Spec) connect.StreamingClientConn {
		c := next(ctx, s)
		c.RequestHeader().Set(uidHeader, string(uid))
		return c
	}
}

func (callsAs) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func (b *bed) shutdown() {
	if b.end != nil {
		b.end()
		b.end = nil
	}
}

func (b *bed) ctx() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// follower makes one that waits until all is found, however slow the machine is.
func (b *bed) follower() *Follower {
	f := b.files.NewFollower()
	f.within = patience
	return f
}

func (b *bed) calls() datatest.Calls { return datatest.Calls{T: b.t, Client: b.client} }

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can call as several users")
	}
}
