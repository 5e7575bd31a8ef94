package inputs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/residency"
	"headrace/warm/master"
	"headrace/wire"
	"headrace/wire/convert"
)

const (
	maxNodes = 10_000
	// maxBlocks bounds what a node reports at once, and what it is told.
	maxBlocks = 200_000
	maxHosts  = 16
	maxText   = 500
	maxName   = 500
	maxWait   = 30 * time.Second
)

// node is one that reports blocks.
type node struct {
	// theirs is the number of its session by its own word, session the one here.
	theirs, session uint64
	report          uint64 // the number of the last that was taken in, and of its part
	part            uint32
	hosts           []string
	heard           time.Time
	// complete is the number of the last answer that left nothing untold of what it is to watch, told that of the last such with
	// which it has said what it has of that.
	complete, told uint64
	unseen         uint64 // how many blocks to watch it has not looked at yet
}

var (
	errTellAll   = errors.New("this node is not known here; it is to tell everything")
	errManyNodes = connect.NewError(connect.CodeResourceExhausted, errors.New("there are too many nodes; no more are taken"))
)

// Exchange takes in what is true on a node and tells what is to be done there.
func (in *Inputs) Exchange(ctx context.Context, q *wire.ExchangeRequest) (*wire.ExchangeResponse, error) {
	if err := checkExchange(q); err != nil {
		return nil, err
	}
	n, err := in.take(ctx, q, time.Now())
	if err != nil {
		return nil, coded(err)
	}
	if q.More {
		return &wire.ExchangeResponse{}, nil
	}
	over := time.NewTimer(min(convert.Seconds(q.Wait), in.cfg.timing.away/2)) // who waits is heard of
	defer over.Stop()
	for waited := false; ; {
		answer, watch, orders, err := in.tellNode(q, n)
		if err != nil {
			return nil, coded(err)
		}
		if waited || answer.Watch != nil || answer.Read != nil {
			return answer, nil
		}
		select {
		case <-watch:
		case <-orders:
		case <-over.C:
			waited = true
		case <-in.stopping:
			waited = true
		case <-ctx.Done():
			return nil, connect.NewError(connect.CodeCanceled, ctx.Err())
		}
	}
}

// take takes in a report, unless its node has given it up, or told a later one: that has come first then, and what is in
// this one would stay.
func (in *Inputs) take(ctx context.Context, q *wire.ExchangeRequest, now time.Time) (*node, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := in.nodes[q.Node]
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case n != nil && q.Session == n.theirs && q.Report != 0 && (q.Report < n.report || q.Report == n.report && q.Part <= n.part):
		return nil, connect.NewError(connect.CodeAborted, fmt.Errorf("report %d of node %s comes after report %d", q.Report, q.Node, n.report))
	case n != nil && q.Session < n.theirs:
		return nil, connect.NewError(connect.CodeAborted, fmt.Errorf("another node has come with the name %s; give each node a name of its own with --name", q.Node))
	case q.Full:
		whole, err := in.gather(q, now)
		if err != nil || q.More {
			return nil, err
		}
		return in.join(whole, now)
	case n == nil, q.Session != n.theirs:
		return nil, connect.NewError(connect.CodeFailedPrecondition, errTellAll)
	}
	n.heard, n.report, n.part = now, q.Report, q.Part
	if q.Unseen != n.unseen {
		n.unseen = q.Unseen
		in.caughtUp.ring()
	}
	resident := residentOf(q.Resident)
	news := changes(in.memory, q.Node, resident)
	if err := in.memory.Report(q.Node, n.session, false, resident); err != nil {
		return nil, err
	}
	in.master.Changed(q.Node, news, now) // before it is told what has become of blocks that the node has kept until now
	return n, in.master.Report(q.Node, n.session, loadOf(q), reportsOf(q.Kept), readsOf(q.Reads), now)
}

// join begins with a node anew. in.mu is held.
func (in *Inputs) join(q *wire.ExchangeRequest, now time.Time) (*node, error) {
	if in.nodes[q.Node] == nil && len(in.nodes) >= maxNodes {
		return nil, errManyNodes
	}
	in.sessions++
	n := &node{theirs: q.Session, session: in.sessions, report: q.Report, unseen: q.Unseen, hosts: append([]string{q.Node}, q.Hosts...), heard: now}
	if q.Refusal != "" {
		in.log.Warn("a node keeps nothing in memory", "node", q.Node, "reason", q.Refusal)
	}
	jobs := factsOf(q.Jobs)
	err := in.memory.Join(q.Node, n.session, q.Hosts)
	if err == nil {
		err = in.master.Join(q.Node, n.session, q.Hosts, loadOf(q), jobs, heldOf(q.Kept), now)
	}
	if err == nil { // what has been read, or cannot be kept there, is not to be done again
		err = in.master.Report(q.Node, n.session, loadOf(q), reportsOf(q.Kept), readsOf(q.Reads), now)
	}
	if err == nil { // what is held there is to be watched by now
		err = in.memory.Report(q.Node, n.session, true, residentOf(q.Resident))
	}
	if err != nil {
		return nil, err
	}
	in.nodes[q.Node] = n
	in.master.Changed(q.Node, gone(in.memory, q), now)
	for _, f := range jobs {
		if _, has := in.leases[f.Name]; !has { // a manager before this one has known until when
			in.leases.renew(f.Name, f.Lease, now)
		}
	}
	return n, nil
}

// changes returns what has become more or less in a node's memory, as it reports.
func changes(memory *residency.Map, node string, resident []residency.Resident) (all []master.Change) {
	for _, r := range resident {
		if was := memory.On(node, r.Block); was != r.Resident {
			all = append(all, master.Change{Block: r.Block, Before: was, Now: r.Resident})
		}
	}
	return all
}

// gone returns what a node that begins anew keeps for jobs because it was in memory, and is not there any more.
func gone(memory *residency.Map, q *wire.ExchangeRequest) (all []master.Change) {
	for _, h := range heldOf(q.Kept) {
		if now := memory.On(q.Node, h.Block); h.State == master.Resident && now < h.Bytes {
			all = append(all, master.Change{Block: h.Block, Before: h.Bytes, Now: now})
		}
	}
	return all
}

// lose forgets a node. in.mu is held.
func (in *Inputs) lose(name string) {
	delete(in.nodes, name)
	in.memory.Remove(name)
	in.master.Leave(name)
}

// tellNode returns what a node has not been told, and what is closed when there is more.
func (in *Inputs) tellNode(q *wire.ExchangeRequest, n *node) (answer *wire.ExchangeResponse, watch, orders <-chan struct{}, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.nodes[q.Node] != n {
		return nil, nil, nil, connect.NewError(connect.CodeFailedPrecondition, errTellAll)
	}
	n.heard = time.Now()
	answer = &wire.ExchangeResponse{}
	w, err := in.memory.Watch(q.Node, n.session, q.Watched, maxBlocks)
	if err == nil {
		watch, err = in.memory.WatchReady(q.Node, n.session)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if w.Full || len(w.Add)+len(w.Remove) > 0 {
		answer.Watch = &wire.BlocksToWatch{Number: w.Seq, Full: w.Full, Add: convert.BlockLists(w.Add), Remove: convert.BlockLists(w.Remove)}
	}
	news := n.tells(q.Watched)
	select {
	case <-watch: // there is more than one answer has
	default:
		n.complete = w.Seq
		news = n.tells(q.Watched) || news
	}
	if news {
		in.caughtUp.ring()
	}
	o, err := in.master.Orders(q.Node, n.session, q.Ordered, maxBlocks)
	if err != nil {
		return nil, nil, nil, err
	}
	if o.Full || len(o.Add)+len(o.Remove) > 0 {
		answer.Read = ordersMessage(&o)
	}
	orders, err = in.master.Ready(q.Node, n.session)
	return answer, watch, orders, err
}

// tells notes that a node says what it has of all that the answer with a number told it to watch, and earlier ones, and
// returns whether that is news.
func (n *node) tells(watched uint64) bool {
	if watched < n.complete || n.told == n.complete {
		return false
	}
	n.told = n.complete
	return true
}

// bell wakes all who wait for it to be rung.
type bell chan struct{}

func (b *bell) ring() {
	close(*b)
	*b = make(bell)
}

// due are nodes that are to tell what they have of blocks, and of each the number of the answer with which it has been told
// of them (residency.Map.WatchDue).
type due map[string]uint64

// told reports whether the nodes have told that, and have nothing to look for if seen is set; of one that is gone nothing
// comes.
func (d due) told(nodes map[string]*node, seen bool) bool {
	for name, number := range d {
		if n := nodes[name]; n != nil && (n.told < number || seen && n.unseen > 0) {
			return false
		}
	}
	return true
}

// awaitNodes returns when nodes have told what is due, also if they have to look for very much of it if seen is set; or when it
// has taken too long. It reports whether they have.
func (in *Inputs) awaitNodes(ctx context.Context, d due, most time.Duration, seen bool) bool {
	over := time.NewTimer(most)
	defer over.Stop()
	for {
		in.mu.Lock()
		all, change := d.told(in.nodes, seen), in.caughtUp
		in.mu.Unlock()
		if all {
			return true
		}
		select {
		case <-change:
		case <-over.C:
			return false
		case <-in.stopping:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// checkExchange refuses what cannot be meant.
func checkExchange(q *wire.ExchangeRequest) error {
	if err := wire.CheckName("node", q.Node); err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	if q.Session == 0 || len(q.Hosts) > maxHosts || len(q.Jobs) > maxBlocks || len(q.Reads) > maxBlocks {
		return invalid("a report of node %s with session %d, %d names, %d jobs", q.Node, q.Session, len(q.Hosts), len(q.Jobs))
	}
	if err := checkNames(q.Hosts...); err != nil {
		return err
	}
	q.Refusal = short(q.Refusal)
	for _, j := range q.Jobs {
		if err := checkNames(j.GetJob().GetUser(), j.GetJob().GetJob()); err != nil {
			return err
		}
	}
	blocks := 0
	for _, r := range q.Resident {
		n := len(r.GetBlocks().GetNumbers())
		if len(r.Resident) != n || len(r.Bytes) != n {
			return invalid("a report of %d blocks with %d and %d sizes", n, len(r.Resident), len(r.Bytes))
		}
		if err := checkNames(r.GetBlocks().GetPool()); err != nil {
			return err
		}
		blocks += n
	}
	for _, k := range q.Kept {
		n := len(k.GetBlocks().GetBlocks().GetNumbers())
		if b := k.GetBlocks(); len(b.GetGenerations()) != n || len(b.GetBytes()) != n || len(b.GetPlaces()) != n {
			return invalid("a report of %d blocks of which not all is said", n)
		}
		if err := checkNames(k.GetJob().GetUser(), k.GetJob().GetJob(), k.GetBlocks().GetBlocks().GetPool()); err != nil {
			return err
		}
		k.Reason = short(k.Reason)
		blocks += n
	}
	if most := 4 * maxBlocks; blocks > most {
		return invalid("a report of %d blocks; tell of at most %d at once", blocks, most)
	}
	return nil
}

// checkNames refuses names that are too long to be kept.
func checkNames(names ...string) error {
	for _, n := range names {
		if len(n) > maxName {
			return invalid("a name of %d bytes, %.40q...; at most %d are allowed", len(n), n, maxName)
		}
	}
	return nil
}

// short cuts a text, at a character: what is no text cannot be sent.
func short(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "") }

func residentOf(all []*wire.BlocksInMemory) (list []residency.Resident) {
	for _, m := range all {
		for i, n := range m.GetBlocks().GetNumbers() {
			list = append(list, residency.Resident{Block: headrace.BlockID{Pool: m.Blocks.Pool, Number: n}, Resident: m.Resident[i], Bytes: m.Bytes[i]})
		}
	}
	return list
}

func nameOf(j *wire.JobRef) master.Name {
	return master.Name{Owner: j.GetUser(), Job: headrace.JobID(j.GetJob())}
}

func loadOf(q *wire.ExchangeRequest) master.Load {
	return master.Load{Budget: convert.Bytes(q.Budget), Speed: convert.Amount(q.Speed)}
}

func factsOf(all []*wire.JobFacts) (list []master.Facts) {
	for _, j := range all {
		list = append(list, master.Facts{
			Name: nameOf(j.Job), Input: max(0, j.Input), Submitted: time.UnixMilli(j.SubmittedMs), Implicit: j.Implicit, Hold: j.Hold, Budget: max(0, j.Budget),
			Lease: min(convert.Seconds(j.Lease), maxLease),
		})
	}
	return list
}

func factsMessage(f *master.Facts) *wire.JobFacts {
	return &wire.JobFacts{
		Job: &wire.JobRef{User: f.Owner, Job: string(f.Job)}, Input: f.Input, SubmittedMs: f.Submitted.UnixMilli(), Implicit: f.Implicit, Hold: f.Hold, Budget: f.Budget,
		Lease: f.Lease.Seconds(),
	}
}

// states maps how nodes stand with blocks to what the master calls it; absent: nothing.
var states = map[wire.KeptState]master.State{
	wire.KeptState_KEPT_STATE_PLANNED: master.Planned, wire.KeptState_KEPT_STATE_PINNED: master.Pinned,
	wire.KeptState_KEPT_STATE_RESIDENT: master.Resident, wire.KeptState_KEPT_STATE_READ: master.Read,
	wire.KeptState_KEPT_STATE_NOT_FIT: master.NotFit, wire.KeptState_KEPT_STATE_FAILED: master.Failed,
}

// each calls do with all blocks of reports that stand in a way that is known here.
func each(all []*wire.KeptBlocks, do func(k *wire.KeptBlocks, s master.State, r master.Ref)) {
	for _, k := range all {
		s, known := states[k.State]
		if !known {
			continue
		}
		for b, place := range convert.BlocksToKeep(k.Blocks) {
			if b.Bytes < 0 || b.Bytes > convert.Bytes(b.Bytes) {
				continue
			}
			do(k, s, master.Ref{Name: nameOf(k.Job), Block: b.ID, Generation: b.Generation, Bytes: b.Bytes, At: place})
		}
	}
}

func heldOf(all []*wire.KeptBlocks) (list []master.Held) {
	each(all, func(_ *wire.KeptBlocks, s master.State, r master.Ref) {
		if s == master.Planned || s == master.Pinned || s == master.Resident {
			list = append(list, master.Held{Ref: r, State: s})
		}
	})
	return list
}

func reportsOf(all []*wire.KeptBlocks) (list []master.Report) {
	each(all, func(k *wire.KeptBlocks, s master.State, r master.Ref) {
		list = append(list, master.Report{Name: r.Name, Block: r.Block, Generation: r.Generation, State: s, Reason: k.Reason})
	})
	return list
}

func readsOf(all []*wire.JobReads) (list []master.Reads) {
	for _, r := range all {
		list = append(list, master.Reads{Name: nameOf(r.Job), Memory: r.Memory, Disk: r.Disk})
	}
	return list
}

func ordersMessage(o *master.Orders) *wire.BlocksToRead {
	facts := map[master.Name]*wire.JobFacts{}
	for i := range o.Jobs {
		facts[o.Jobs[i].Name] = factsMessage(&o.Jobs[i])
	}
	return &wire.BlocksToRead{Number: o.Seq, Full: o.Full, Keep: jobBlocks(o.Add, facts), LetGo: jobBlocks(o.Remove, nil)}
}

// jobBlocks puts blocks of one job and pool together, with what is known of the job.
func jobBlocks(refs []master.Ref, facts map[master.Name]*wire.JobFacts) (all []*wire.JobBlocks) {
	jobs := map[master.Name]*wire.JobBlocks{}
	type key struct {
		master.Name
		pool string
	}
	of := map[key]*wire.BlocksToKeep{}
	for _, r := range refs {
		j := jobs[r.Name]
		if j == nil {
			j = &wire.JobBlocks{Job: facts[r.Name]}
			if j.Job == nil {
				j.Job = &wire.JobFacts{Job: &wire.JobRef{User: r.Owner, Job: string(r.Job)}}
			}
			jobs[r.Name], all = j, append(all, j)
		}
		at := key{r.Name, r.Block.Pool}
		b := of[at]
		if b == nil {
			b = &wire.BlocksToKeep{}
			of[at], j.Blocks = b, append(j.Blocks, b)
		}
		convert.AddToKeep(b, headrace.Block{ID: r.Block, Generation: r.Generation, Bytes: r.Bytes}, r.At)
	}
	return all
}
