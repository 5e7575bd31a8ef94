package inputs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/residency"
	"headrace/warm/master"
	"headrace/wire"
	"headrace/wire/convert"
)

// maxTold is of how many blocks one answer to an application tells: as JSON a few MB.
const maxTold = 20_000

// Follow tells an application what is in memory where.
func (in *Inputs) Follow(ctx context.Context, q *wire.FollowRequest) (*wire.FollowResponse, error) {
	if err := checkUser(q.User); err != nil {
		return nil, err
	}
	if err := wire.CheckName("application", q.Application); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	app := residency.App{Owner: q.User, Name: q.Application}
	d, err := in.interest(app, q, time.Now())
	if err != nil {
		return nil, coded(err)
	}
	in.awaitNodes(ctx, d, in.cfg.timing.soon, false) // the first tasks of who asks now begin with the answer
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

// interest takes in what an application wants to know about, and returns what nodes are due to tell of what it adds.
func (in *Inputs) interest(app residency.App, q *wire.FollowRequest, now time.Time) (d due, err error) {
	var add []headrace.Block
	for _, f := range q.Add {
		if len(f.Hosts) > maxHosts {
			return nil, invalid("a block on %d machines; name at most %d", len(f.Hosts), maxHosts)
		}
		if err := checkNames(append([]string{f.GetBlocks().GetPool()}, f.Hosts...)...); err != nil {
			return nil, err
		}
		for id := range convert.Blocks([]*wire.BlockList{f.Blocks}) {
			add = append(add, headrace.Block{ID: id, Hosts: f.Hosts})
		}
	}
	if err := in.replaced(app, q.Version, add, now); err != nil {
		return nil, err
	}
	if d, err = in.add(app, add, now); err != nil {
		return nil, err
	}
	return d, in.drop(app, slices.Collect(convert.Blocks(q.Remove)), now)
}

// atOnce is with how many blocks the map is busy while others wait for it: a few milliseconds.
const atOnce = 2_000

// replaced ends the interest of an application in what it does not name, if it begins anew.
func (in *Inputs) replaced(app residency.App, version uint64, names []headrace.Block, now time.Time) error {
	if version != 0 { // what it has registered before it does not name again
		in.mu.Lock()
		defer in.mu.Unlock()
		_, err := in.memory.Ready(app)
		return err
	}
	if len(names) == 0 {
		return nil
	}
	stay := make(map[headrace.BlockID]bool, len(names))
	for i := range names {
		stay[names[i].ID] = true
	}
	in.mu.Lock()
	had := in.memory.Registered(app)
	in.mu.Unlock()
	return in.drop(app, slices.DeleteFunc(had, func(id headrace.BlockID) bool { return stay[id] }), now)
}

// add registers blocks, and returns what nodes are due to tell of them. If they are too many, some are registered.
func (in *Inputs) add(app residency.App, blocks []headrace.Block, now time.Time) (due, error) {
	d := due{}
	return d, inParts(in, blocks, func(part []headrace.Block) error {
		err := in.memory.Add(app, part, now)
		in.memory.WatchDue(part, d)
		return err
	})
}

func (in *Inputs) drop(app residency.App, blocks []headrace.BlockID, now time.Time) error {
	return inParts(in, blocks, func(part []headrace.BlockID) error { return in.memory.Drop(app, part, now) })
}

// inParts does something with many blocks, and lets others go between.
func inParts[B any](in *Inputs, blocks []B, do func(part []B) error) error {
	for part := range slices.Chunk(blocks, atOnce) {
		in.mu.Lock()
		err := do(part)
		in.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// tidy forgets the blocks of applications, and lets go of those of jobs, that have ended.
func (in *Inputs) tidy() {
	for more := true; more; {
		in.mu.Lock()
		followed, kept := in.memory.Tidy(atOnce), in.master.Tidy(atOnce)
		more = followed || kept
		in.mu.Unlock()
	}
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
			b.Machines, b.Resident, b.Bytes = append(b.Machines, i), append(b.Resident, at.Resident), max(b.Bytes, at.Bytes) // one may have heard of an append before the others
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

var errUnseen = errors.New("nodes have not looked at all blocks yet, there are too many; more of them may be in memory, ask again")

// CachedInputs tells what of files is in memory where.
func (in *Inputs) CachedInputs(ctx context.Context, q *wire.CachedInputsRequest, out *connect.ServerStream[wire.CachedInputsChunk]) error {
	parts, done, err := in.Cached(ctx, q)
	if err != nil {
		return err
	}
	defer done()
	return Send(parts, out)
}

// Send sends the parts of an answer.
func Send(parts []*wire.CachedInputsChunk, out *connect.ServerStream[wire.CachedInputsChunk]) error {
	for _, p := range parts {
		if err := out.Send(p); err != nil {
			return err
		}
	}
	return nil
}

// Cached finds out what CachedInputs tells: all of it, for what nodes have told is forgotten while a caller is slow to
// take it in. It may take long; done is called when the parts are not needed any more.
func (in *Inputs) Cached(ctx context.Context, q *wire.CachedInputsRequest) (parts []*wire.CachedInputsChunk, done func(), err error) {
	if err := checkUser(q.User); err != nil {
		return nil, nil, err
	}
	f, done, err := in.find(ctx, q.User, q.Paths)
	if err != nil {
		return nil, nil, err
	}
	app, d, err := in.ask(q.User, f.files)
	if err != nil {
		done()
		return nil, nil, coded(err)
	}
	defer in.forget(app)
	if !in.awaitNodes(ctx, d, in.cfg.timing.settle, true) {
		f.problem(q.Paths[0], errUnseen)
	}
	if len(f.problems) > 0 || len(f.files) == 0 {
		parts = append(parts, &wire.CachedInputsChunk{Problems: f.problems})
	}
	for files := range slices.Chunk(f.files, 500) {
		parts = append(parts, &wire.CachedInputsChunk{Files: in.cached(q.User, files)})
	}
	return parts, done, nil
}

// ask has nodes tell what they have of files in memory, for a while.
func (in *Inputs) ask(user string, files []master.File) (app residency.App, d due, err error) {
	var blocks []headrace.Block
	for _, f := range files {
		blocks = append(blocks, f.Blocks...)
	}
	in.mu.Lock()
	in.looks++
	app = residency.App{Owner: user, Name: fmt.Sprintf("look %d", in.looks)} // no application has a name with a space
	in.mu.Unlock()
	if d, err = in.add(app, blocks, time.Now()); err != nil {
		in.forget(app)
	}
	return app, d, err
}

func (in *Inputs) forget(app residency.App) {
	in.mu.Lock()
	in.memory.Forget(app)
	in.mu.Unlock()
	in.tidy()
}

func (in *Inputs) cached(user string, files []master.File) (list []*wire.CachedInput) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, f := range files {
		c := &wire.CachedInput{Path: f.Name}
		on, kept := map[string]int64{}, map[string]int64{}
		for _, b := range f.Blocks {
			c.Size += b.Bytes
			if by := keepers(in.master, user, b.ID); len(by) > 0 {
				c.Pinned += b.Bytes
				for name := range by {
					kept[name] += b.Bytes
				}
			}
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
		c.PinnedBy = most(kept, 10)
		list = append(list, c)
	}
	return list
}

// keepers are the jobs for which a block is kept, as a user may know them: whoever else has asked for the same files is nobody's business but root's.
func keepers(of *master.Master, user string, id headrace.BlockID) map[string]bool {
	var by map[string]bool
	for name := range of.KeptFor(id) {
		text := "others"
		if mayEnd(user, name.Owner) {
			text = fmt.Sprintf("%s of %s", name.Job, name.Owner)
		}
		if by == nil {
			by = map[string]bool{}
		}
		by[text] = true
	}
	return by
}

// most returns the names with the most bytes, and how many others there are.
func most(bytes map[string]int64, n int) []string {
	names := slices.SortedFunc(maps.Keys(bytes), func(a, b string) int { return cmp.Or(cmp.Compare(bytes[b], bytes[a]), cmp.Compare(a, b)) })
	if len(names) > n {
		names = append(names[:n:n], fmt.Sprintf("%d more", len(names)-n))
	}
	return names
}
