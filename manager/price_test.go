package manager

import (
	"slices"
	"testing"

	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/wire"
)

// TestPrice: each container is priced alone, as the policy would have it give way, and nothing
// comes of it.
func TestPrice(t *testing.T) {
	testkit.NoLeaks(t)
	s := start(t, func(c *Config) { c.Policy.Policy = policy.Cost })
	fresh, old, held, done := task("fresh"), task("old"), task("suspended"), task("done")
	for _, k := range []*wire.Task{fresh, old} {
		k.NoSuspend, k.NoCheckpoint = "no", "no"
	}
	fresh.Usage.SinceSaveWall, fresh.Usage.Running = 2, 2
	held.State, done.Progress = "suspended", 1
	m := s.machine("n1", fresh, old, held, done)
	defer m.keep()()

	ask := func(ids ...string) []*wire.ContainerPrice {
		t.Helper()
		q := &wire.PriceRequest{}
		for _, id := range ids {
			q.Victims = append(q.Victims, &wire.Victim{Container: id})
		}
		res, err := s.api.Price(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return res.Prices
	}
	got := ask("old", "suspended", "nobody", "fresh", "old")
	var names []string
	for _, p := range got {
		names = append(names, p.Container)
	}
	if !slices.Equal(names, []string{"old", "suspended", "nobody", "fresh", "old"}) {
		t.Fatalf("answers are about %v", names)
	}
	if got := ask("done"); got[0].Cost != nil {
		t.Errorf("one that would not leave, as it is about to end, has a price: %v", got)
	}
	if got[1].Cost != nil || got[2].Cost != nil {
		t.Errorf("what cannot give way has a price: %v", got)
	}
	if !(got[3].GetCost() > 0 && 100*got[3].GetCost() < got[0].GetCost()) || got[0].GetCost() != got[4].GetCost() {
		t.Errorf("one that has run for two seconds costs %v, one that has for an hour %v and %v", got[3].Cost, got[0].Cost, got[4].Cost)
	}
	m.none()
	if n := s.log.count("msg=preempt"); n != 0 {
		t.Errorf("%d lines about questions", n)
	}
	if _, err := s.api.Price(t.Context(), &wire.PriceRequest{Victims: []*wire.Victim{{Container: "old", ForPriority: 12}}}); err == nil {
		t.Error("a priority of 12 is taken")
	}
}
