package gateway

import (
	"context"
	"testing"

	"headrace/hdfs/ipc"
	"headrace/meta"
)

// TestLargeAnswersWaitWithNothing: who waits until many blocks may be named has not been given them yet, and asks for them again.
func TestLargeAnswersWaitWithNothing(t *testing.T) {
	s := serve(t, t.TempDir())
	const blocks = 150_000 // of which one answer takes more than all of the room
	begin := func(ctx context.Context) (*call, func()) {
		c := &call{Gateway: s.g, Call: &ipc.Call{}, ctx: ctx, by: meta.Caller{User: "root", Super: true}}
		return c, s.g.rpc.Enter(c.Call)
	}
	many := func(asked *int) func(meta.Query) (*meta.Located, *meta.Located, error) {
		return func(meta.Query) (*meta.Located, *meta.Located, error) {
			*asked++
			l := &meta.Located{Blocks: make([]meta.LocatedBlock, blocks)}
			return l, l, nil
		}
	}
	first, leave := begin(t.Context())
	asked := 0
	if l, err := located(first, many(&asked)); err != nil || len(l.Blocks) != blocks || asked != 2 {
		t.Fatalf("asked %d times: %v", asked, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	second, _ := begin(ctx)
	asked = 0
	if l, err := located(second, many(&asked)); err == nil || l != nil || asked != 1 {
		t.Errorf("beside it another one is asked for %d times, and gets %v, %v", asked, l != nil, err)
	}
	leave()
	third, leave := begin(t.Context())
	defer leave()
	asked = 0
	if l, err := located(third, many(&asked)); err != nil || len(l.Blocks) != blocks || asked != 2 {
		t.Errorf("then asked %d times: %v", asked, err)
	}
}
