package dfs

import (
	"sync"
	"time"
)

// A Report is what a node has said of itself.
type Report struct {
	Room Room
	// At is when it came, on the clock of who heard it.
	At time.Time
}

// Reports are the last ones of all nodes that this one has heard: of all that are up where the names are
// led, a short time after they are led there. It is safe for concurrent use.
type Reports struct {
	mu sync.Mutex
	of map[string]Report
}

// Note keeps a node's report in the place of the last one.
func (r *Reports) Note(node string, p Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]Report{}
	}
	r.of[node] = p
}

// Of returns a node's last report, and false when it was never heard.
func (r *Reports) Of(node string) (Report, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.of[node]
	return p, ok
}
