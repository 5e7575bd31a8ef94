package member

import (
	"context"
	"slices"
	"sync"
	"time"

	"headrace/dfs"
	"headrace/ring"
)

// doubts are about nodes that beat and that nobody reaches, as behind a firewall for what comes in: votes, copies and deletions are asked of a node, and who waits for those
// would wait for ever. One goroutine, which judges, counts and forgets.
type doubts struct {
	self     string
	patience ring.Patience
	now      func() time.Duration
	ping     func(context.Context, dfs.Member) error
	// begin does something in the background.
	begin func(func(context.Context))

	mu sync.Mutex
	// unreached are nodes that this one does not reach: since when; reaching are those that it is asking.
	unreached map[string]time.Duration
	reaching  map[string]bool
}

// forget forgets who was not reached.
func (d *doubts) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.unreached)
}

// count has beats of such a node count for nothing since it was not reached, when that is for as long as one that is silent has. Two others have to say the same, so that it
// is not this node that is cut off. One that is not up has to be reached to be back. It returns those that are heard, and were not reached for so long.
func (d *doubts) count(v *dfs.View, beats map[string]ring.Beat, now time.Duration) (cut []dfs.Member) {
	fresh := func(name string) bool {
		b, ok := beats[name]
		return ok && now-b.At < d.patience.Down
	}
	accusers := map[string]int{}
	for _, n := range v.Table.Nodes() {
		if n.State == ring.IsUp && fresh(n.Name) {
			for _, name := range slices.Compact(slices.Sorted(slices.Values(beats[n.Name].Unreachable))) {
				accusers[name]++
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range v.Table.Nodes() {
		up, to := n.State == ring.IsUp, v.Members[n.Name]
		if n.Name == d.self || to.Name == "" || !fresh(n.Name) || up && accusers[n.Name] < 2 {
			delete(d.unreached, n.Name)
			continue
		}
		since, is := d.unreached[n.Name]
		long := is && now-since >= d.patience.Down
		if long {
			cut = append(cut, to)
		}
		if b := beats[n.Name]; long || is && !up {
			b.At = min(b.At, since)
			beats[n.Name] = b
		}
		if !d.reaching[n.Name] {
			d.reaching[n.Name] = true
			d.begin(func(ctx context.Context) { d.reach(ctx, to) })
		}
	}
	return cut
}

// reach finds out whether this node reaches another one.
func (d *doubts) reach(ctx context.Context, to dfs.Member) {
	began := d.now()
	ctx, cancel := context.WithTimeout(ctx, beatTime)
	defer cancel()
	err := d.ping(ctx, to)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.reaching, to.Name)
	if _, known := d.unreached[to.Name]; err == nil {
		delete(d.unreached, to.Name)
	} else if !known {
		d.unreached[to.Name] = began
	}
}
