package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"headrace/wire"
)

// fakeData is what the fake daemon knows of files. The file data.json has its
// messages: "requests" (those there are), "next" (the status of every new one),
// "evict", "cache" (chunks), "disks" (samples) and "samples", how many it sends before it dies (0: no end).
type fakeData struct {
	requests []*wire.WarmStatus
	next     *wire.WarmStatus
	evict    *wire.EvictResponse
	cache    []*wire.CacheChunk
	disks    []*wire.DisksSample
	samples  int

	last    proto.Message
	waiting map[string]int // open WatchWarm streams by id
	old     bool           // it is a daemon that knows of no input
}

func (f *fakeDaemon) loadData(path string) error {
	f.data = fakeData{next: &wire.WarmStatus{}, evict: &wire.EvictResponse{}, waiting: map[string]int{}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var parts struct {
		Requests, Cache, Disks []json.RawMessage
		Next, Evict            json.RawMessage
		Samples                int
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	f.data.samples = parts.Samples
	var errs []error
	read := func(raw json.RawMessage, m proto.Message) {
		if raw != nil {
			errs = append(errs, protojson.Unmarshal(raw, m))
		}
	}
	read(parts.Next, f.data.next)
	read(parts.Evict, f.data.evict)
	f.data.requests = readAll(parts.Requests, read, func() *wire.WarmStatus { return &wire.WarmStatus{} })
	f.data.cache = readAll(parts.Cache, read, func() *wire.CacheChunk { return &wire.CacheChunk{} })
	f.data.disks = readAll(parts.Disks, read, func() *wire.DisksSample { return &wire.DisksSample{} })
	return errors.Join(errs...)
}

func readAll[M proto.Message](raw []json.RawMessage, read func(json.RawMessage, proto.Message), blank func() M) []M {
	var all []M
	for _, r := range raw {
		m := blank()
		read(r, m)
		all = append(all, m)
	}
	return all
}

// asked remembers a request, and is what the script wants it to end with.
func (f *fakeDaemon) asked(method string, req proto.Message) error {
	f.change(func() { f.data.last = req })
	return f.failure(method)
}

// request returns the live status; the state must be locked.
func (f *fakeDaemon) request(id string) *wire.WarmStatus {
	for _, r := range f.data.requests {
		if r.Id == id {
			return r
		}
	}
	return nil
}

// warm changes fields of a request.
func (f *fakeDaemon) warm(id, fields string) error {
	var change wire.WarmStatus
	if err := protojson.Unmarshal([]byte(fields), &change); err != nil {
		return err
	}
	err := fmt.Errorf("the fake daemon has no request %s", id)
	f.change(func() {
		if r := f.request(id); r != nil {
			proto.Merge(r, &change)
			err = nil
		}
	})
	return err
}

func (f *fakeDaemon) Warm(_ context.Context, req *wire.WarmRequest) (*wire.WarmStatus, error) {
	if err := f.asked("warm", req); err != nil {
		return nil, err
	}
	var made *wire.WarmStatus
	f.change(func() {
		r := proto.CloneOf(f.data.next)
		r.Id = fmt.Sprintf("w%d", len(f.data.requests)+1)
		f.data.requests = append(f.data.requests, r)
		made = proto.CloneOf(r)
	})
	return made, nil
}

func (f *fakeDaemon) WatchWarm(ctx context.Context, req *wire.WatchWarmRequest, out *connect.ServerStream[wire.WarmStatus]) error {
	f.change(func() { f.data.waiting[req.Id]++ })
	defer f.change(func() { f.data.waiting[req.Id]-- })
	for {
		f.mu.Lock()
		status, changed := proto.CloneOf(f.request(req.Id)), f.changed
		f.mu.Unlock()
		if status == nil {
			return connect.NewError(connect.CodeNotFound, fmt.Errorf("no request %s", req.Id))
		}
		if err := out.Send(status); err != nil {
			return err
		}
		if settled(status) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fakeDaemon) ListWarm(_ context.Context, req *wire.ListWarmRequest) (*wire.ListWarmResponse, error) {
	if err := f.asked("listwarm", req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	list := &wire.ListWarmResponse{}
	for _, r := range f.data.requests {
		list.Requests = append(list.Requests, proto.CloneOf(r))
	}
	return list, nil
}

func (f *fakeDaemon) Evict(_ context.Context, req *wire.EvictRequest) (*wire.EvictResponse, error) {
	if err := f.asked("evict", req); err != nil {
		return nil, err
	}
	return f.data.evict, nil
}

func (f *fakeDaemon) Cache(_ context.Context, req *wire.CacheRequest, out *connect.ServerStream[wire.CacheChunk]) error {
	if err := f.asked("cache", req); err != nil {
		return err
	}
	for _, c := range f.data.cache {
		if err := out.Send(c); err != nil {
			return err
		}
	}
	return nil
}

// Disks sends the samples over and over.
func (f *fakeDaemon) Disks(ctx context.Context, req *wire.DisksRequest, out *connect.ServerStream[wire.DisksSample]) error {
	if err := f.asked("disks", req); err != nil {
		return err
	}
	for i := 0; f.data.samples == 0 || i < f.data.samples; i++ {
		if err := out.Send(f.data.disks[i%len(f.data.disks)]); err != nil {
			return err
		}
		select {
		case <-time.After(time.Duration(req.Interval * float64(time.Second))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return connect.NewError(connect.CodeUnavailable, errors.New("the daemon ends"))
}
