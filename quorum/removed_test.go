package quorum

import (
	"fmt"
	mrand "math/rand/v2"
	"testing"

	"headrace/internal/vfs"
)

// TestRemovalIsDurable: of two members one is removed and has heard so, then the power of the other fails. That one
// leads by itself: nobody would vote for it.
func TestRemovalIsDurable(t *testing.T) {
	var nodes [2]*Node
	var mems [2]*vfs.Mem
	var configs [2]Config
	machines := [2]*machine{}
	var mail []Message
	members := []Replica{NewReplica(1, 1), NewReplica(2, 1)}
	for i := range nodes {
		mems[i] = vfs.NewMem(64<<20, uint64(i))
		machines[i] = newMachine(mrand.New(mrand.NewPCG(1, 1)))
		configs[i] = Config{Dir: "/q", FS: mems[i], Send: func(m Message) { mail = append(mail, m) }, Workers: 1,
			Machine: func(uint64) (Machine, error) { machines[i].live = machines[i].durable.clone(); return machines[i], nil }}
		n, err := Open(configs[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Create(1, members[i], members); err != nil {
			t.Fatal(err)
		}
		nodes[i] = n
	}
	work := func() {
		for _, n := range nodes {
			if _, err := n.Work(); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range mail {
			nodes[m.To.Node()-1].Step(m)
		}
		mail = nil
	}
	for range 100 { // only the first one's time passes, so it leads
		nodes[0].Tick()
		work()
	}
	removed := false
	nodes[0].Change(1, []MemberStep{{Replica: members[1], Remove: true}}, func(err error) { removed = err == nil })
	heard := func() bool {
		s, err := nodes[1].Status(1)
		return err == nil && len(s.Voters) == 1
	}
	for range 20 {
		if !heard() {
			work()
		}
	}
	if !removed || !heard() {
		t.Fatal("the second one does not hear that it was removed", removed)
	}
	mems[0].Kill()
	mems[0].Restart(true)
	n, err := Open(configs[0])
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		n.Tick()
		for more := true; more; {
			if more, err = n.Work(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s, err := n.Status(1); err != nil || !s.Leading {
		t.Error(fmt.Sprintf("%+v", s), err)
	}
}
