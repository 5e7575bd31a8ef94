package inputs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/residency"
	"headrace/warm/master"
	"headrace/wire"
	"headrace/wire/convert"
)

// maxTold is of how many blocks one answer to an application tells.
const maxTold = 100_000

// Follow tells an application what is in memory where.
func (in *Inputs) Follow(ctx context.Context, q *wire.FollowRequest) (*wire.FollowResponse, error) {
	if err := checkUser(q.User); err != nil {
		return nil, err
	}
	if err := wire.CheckName("application", q.Application); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	app := residency.App{Owner: q.User, Name: q.Application}
	if err := in.interest(app, q, time.Now()); err != nil {
		return nil, coded(err)
	}
	over := time.NewTimer(min(convert.Seconds(q.Wait), maxWait))
	defer over.Stop()
	for waited := false; ; {
		res, ready, err := in.tellApplication(app, q.Version)
		if err != nil {
			return nil, coded(err)
		}
		if waited || res.Full || len(res.Blocks) > 0 {
			return res, nil
		}
		select {
		case <-ready:
		case <-over.C:
			waited = true
		case <-in.stopping:
			waited = true
		case <-ctx.Done():
			return nil, connect.NewError(connect.CodeCanceled, ctx.Err())
		}
	}
}

// interest takes in what an application wants to know about.
func (in *Inputs) interest(app residency.App, q *wire.FollowRequest, now time.Time) error {
	var add []headrace.Block
	for _, f := range q.Add {
		if len(f.Hosts) > maxHosts {
			return invalid("a block on %d machines; name at most %d", len(f.Hosts), maxHosts)
		}
		if err := checkNames(append([]string{f.GetBlocks().GetPool()}, f.Hosts...)...); err != nil {
			return err
		}
		for id := range convert.Blocks([]*wire.BlockList{f.Blocks}) {
			add = append(add, headrace.Block{ID: id, Hosts: f.Hosts})
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if q.Version != 0 { // what it has registered before it does not name again
		if _, err := in.memory.Ready(app); err != nil {
			return err
		}
	}
	switch {
	case len(add) > 0 && q.Version == 0:
		if err := in.memory.Replace(app, add, now); err != nil {
			return err
		}
	case len(add) > 0:
		if err := in.memory.Add(app, add, now); err != nil {
			return err
		}
	}
	for _, l := range q.Remove {
		ids := slices.Collect(convert.Blocks([]*wire.BlockList{l}))
		if err := in.memory.Drop(app, ids, now); err != nil {
			return err
		}
	}
	return nil
}

func (in *Inputs) tellApplication(app residency.App, version uint64) (*wire.FollowResponse, <-chan struct{}, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	u, err := in.memory.Changes(app, version, maxTold, time.Now())
	if err != nil {
		return nil, nil, err
	}
	res := &wire.FollowResponse{Version: u.Version, Full: u.Full}
	machines := map[string]uint32{}
	for _, c := range u.Changes {
		b := &wire.BlockInMemory{Pool: c.Block.Pool, Number: c.Block.Number}
		for _, at := range c.At {
			i, known := machines[at.Node]
			if !known {
				i = uint32(len(res.Machines))
				machines[at.Node] = i
				res.Machines = append(res.Machines, &wire.Machine{Hosts: in.hostsOf(at.Node)})
			}
			b.Machines, b.Resident, b.Bytes = append(b.Machines, i), append(b.Resident, at.Resident), at.Bytes
		}
		res.Blocks = append(res.Blocks, b)
	}
	ready, err := in.memory.Ready(app)
	return res, ready, err
}

// hostsOf returns the names that the file system has for a node. in.mu is held.
func (in *Inputs) hostsOf(name string) []string {
	if n := in.nodes[name]; n != nil {
		return n.hosts
	}
	return []string{name}
}

// CachedInputs tells what of files is in memory where.
func (in *Inputs) CachedInputs(ctx context.Context, q *wire.CachedInputsRequest, out *connect.ServerStream[wire.CachedInputsChunk]) error {
	if err := checkUser(q.User); err != nil {
		return err
	}
	f, err := in.find(ctx, q.User, q.Paths)
	if err != nil {
		return err
	}
	app, err := in.ask(q.User, f.files)
	if err != nil {
		return coded(err)
	}
	defer in.forget(app)
	select {
	case <-time.After(in.cfg.timing.settle):
	case <-in.stopping:
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the manager is stopping"))
	case <-ctx.Done():
		return connect.NewError(connect.CodeCanceled, ctx.Err())
	}
	if len(f.problems) > 0 || len(f.files) == 0 {
		if err := out.Send(&wire.CachedInputsChunk{Problems: f.problems}); err != nil {
			return err
		}
	}
	for files := range slices.Chunk(f.files, 500) {
		if err := out.Send(&wire.CachedInputsChunk{Files: in.cached(files)}); err != nil {
			return err
		}
	}
	return nil
}

// ask has nodes tell what they have of files in memory, for a while.
func (in *Inputs) ask(user string, files []master.File) (residency.App, error) {
	var blocks []headrace.Block
	for _, f := range files {
		blocks = append(blocks, f.Blocks...)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.looks++
	app := residency.App{Owner: user, Name: fmt.Sprintf("look %d", in.looks)} // no application has a name with a space
	return app, in.memory.Add(app, blocks, time.Now())
}

func (in *Inputs) forget(app residency.App) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.memory.Forget(app)
}

func (in *Inputs) cached(files []master.File) (list []*wire.CachedInput) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, f := range files {
		c := &wire.CachedInput{Path: f.Name}
		on := map[string]int64{}
		for _, b := range f.Blocks {
			c.Size += b.Bytes
			most := int64(0)
			for _, at := range in.memory.Where(b.ID) {
				on[at.Node] += at.Resident
				most = max(most, min(at.Resident, b.Bytes))
			}
			c.Resident += most
		}
		for name, n := range on {
			c.Nodes = append(c.Nodes, &wire.NodeBytes{Node: name, Bytes: n})
		}
		slices.SortFunc(c.Nodes, func(a, b *wire.NodeBytes) int {
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Node, b.Node))
		})
		list = append(list, c)
	}
	return list
}
