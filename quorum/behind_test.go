package quorum

import (
	"fmt"
	mrand "math/rand/v2"
	"testing"

	"headrace/internal/vfs"
)

// TestCatchesUpWhileOthersWrite: a replica is away for longer than the log reaches back. While the state is sent to it
// more is written than is kept of the log, and it needs no second one. One that stays away does not have the log grow
// for ever.
func TestCatchesUpWhileOthersWrite(t *testing.T) {
	const keep = 10
	var nodes [3]*Node
	var mail []Message
	var members []Replica
	for i := range nodes {
		members = append(members, NewReplica(uint32(i+1), 1))
	}
	for i := range nodes {
		m := newMachine(mrand.New(mrand.NewPCG(1, uint64(i))))
		n, err := Open(Config{Dir: "/q", FS: vfs.NewMem(64<<20, uint64(i)), Send: func(m Message) { mail = append(mail, m) }, Workers: 1,
			KeepEntries: keep, ChunkSize: 16, Machine: func(uint64) (Machine, error) { return m, nil }})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Create(1, members[i], members); err != nil {
			t.Fatal(err)
		}
		nodes[i] = n
	}
	away, asked := true, 0
	streams := map[uint64]bool{}
	round := func() {
		nodes[0].Tick() // only the first one's time passes, so it leads
		for i, n := range nodes {
			if away && i == 2 {
				continue
			}
			for more := true; more; {
				var err error
				if more, err = n.Work(); err != nil {
					t.Fatal(err)
				}
			}
		}
		all := mail
		mail = nil
		for _, m := range all {
			if m.Kind == Chunk && !away {
				streams[m.Stream] = true
			}
			if !away || m.To.Node() != 3 {
				nodes[m.To.Node()-1].Step(m)
			}
		}
	}
	write := func() {
		asked++
		nodes[0].Propose(1, fmt.Appendf(nil, "k%d w", asked%50), func(_ []byte, err error) {
			if err != nil {
				t.Error(err)
			}
		})
		round()
	}
	for range 30 {
		round()
	}
	for range 5 * keep {
		write()
	}
	away = false
	for range 10 * keep {
		write()
	}
	if last, s := nodes[2].groups[1].applied, nodes[0].groups[1]; len(streams) != 1 || last+5 < s.applied || len(s.behind) > 0 {
		t.Errorf("the third has %d of %d entries after %d snapshots; %d are waited for", last, s.applied, len(streams), len(s.behind))
	}
	away = true
	nodes[0].groups[1].behind[members[2]] = &behind{match: 1}
	for range 40 * keep {
		write()
	}
	if l := len(nodes[0].groups[1].store.entries); l > 2*keepLonger*keep {
		t.Errorf("%d entries are kept for a replica that is away", l)
	}
}
