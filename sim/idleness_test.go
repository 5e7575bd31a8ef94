package sim

import (
	"testing"

	"headrace/policy"
)

// A node is not idle for nothing while one is written out that moves elsewhere, and who stands before
// others waits for its memory: a (600 MB) is suspended for u, and moves to the node of b when that ends, shortly
// before u does. Then w (700 MB) waits for two minutes, and x, behind it, might run at once.
func TestIdleForMemoryOfDump(t *testing.T) {
	c := easy(2, policy.Suspend)
	c.Medium.Write, c.Node.Net = 5*mb, 100*mb
	w := workload(
		job{submit: 0, run: 1000, priority: 0, memory: 600 * mb, dirty: 600 * mb},
		job{submit: 0, run: 500, priority: 5, memory: 100 * mb},
		job{submit: 300, run: 206, priority: 10, memory: 600 * mb},
		job{submit: 400, run: 10, priority: 0, memory: 700 * mb},
		job{submit: 410, run: 10, priority: 0, memory: 100 * mb},
	)
	r := run(t, w, c)
	if r.Counts.Suspends != 1 || r.IO.Moved == 0 {
		t.Errorf("%+v: want one that is suspended and moves", r.Counts)
	}
}
