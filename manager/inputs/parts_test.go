package inputs

import (
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/wire"
	"headrace/wire/convert"
)

// TestParts: a node with more blocks than fit into a request tells them in parts, which count
// when all have come, in their order.
func TestParts(t *testing.T) {
	in := newInputs(t, Config{})
	const each, count = 50, 5
	part := func(i uint32) *wire.ExchangeRequest {
		q := &wire.ExchangeRequest{Node: "a", Session: 7, Full: true, Budget: 1 << 40, Part: i, More: i < count-1}
		l := &wire.BlocksToKeep{}
		for k := range int64(each) {
			convert.AddToKeep(l, headrace.Block{ID: id(int64(i)*each + k), Generation: 1, Bytes: 100}, uint32(k))
		}
		q.Kept = []*wire.KeptBlocks{{Job: refOf(fmt.Sprint("u", i, "/j")), Blocks: l, State: wire.KeptState_KEPT_STATE_PINNED}}
		return q
	}
	tell := func(q *wire.ExchangeRequest) error {
		a, err := in.Exchange(t.Context(), q)
		if err == nil && q.More && (a.Watch != nil || a.Read != nil) {
			t.Errorf("part %d has an answer: %v", q.Part, a)
		}
		return err
	}
	for what, order := range map[string][]uint32{"not the first": {1}, "one is missing": {0, 2}, "one twice": {0, 1, 1}} {
		for i, n := range order {
			err := tell(part(n))
			if i == len(order)-1 {
				wantCode(t, what, err, connect.CodeFailedPrecondition, "everything")
			} else if err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, what+", and the next", tell(part(order[len(order)-1]+1)), connect.CodeFailedPrecondition)
	}
	for i := range uint32(count) {
		if st := standing(t, in, "u0", "j"); st != nil {
			t.Fatalf("before all have come: %v", st)
		}
		if err := tell(part(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range count {
		if st := standing(t, in, fmt.Sprint("u", i), "j"); st == nil || st.Pinned != 100*each {
			t.Errorf("job %d: %v", i, st)
		}
	}
	if err := tell(&wire.ExchangeRequest{Node: "b", Session: 1, Full: true, More: true}); err != nil || len(in.parts) != 1 {
		t.Errorf("%v, %v", err, in.parts)
	}
	if in.look(time.Now().Add(2 * in.cfg.timing.away)); len(in.parts) != 0 {
		t.Errorf("of a node that has gone away meanwhile there is still %v", in.parts)
	}
}
