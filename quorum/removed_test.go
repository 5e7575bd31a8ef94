package quorum

import (
	"fmt"
	mrand "math/rand/v2"
	"testing"

	"headrace/internal/vfs"
)

// party is nodes whose messages are all delivered. The first ones are the members of a group.
type party struct {
	*testing.T
	nodes   []*Node
	mems    []*vfs.Mem
	configs []Config
	members []Replica
	mail    []Message
}

func newParty(t *testing.T, nodes, members int) *party {
	p := &party{T: t}
	for i := range nodes {
		p.members = append(p.members, NewReplica(uint32(i+1), 1))
	}
	for i := range nodes {
		mem, machine := vfs.NewMem(64<<20, uint64(i)), newMachine(mrand.New(mrand.NewPCG(1, 1)))
		config := Config{Dir: "/q", FS: mem, Send: func(m Message) { p.mail = append(p.mail, m) }, Workers: 1,
			Machine: func(uint64) (Machine, error) { machine.live = machine.durable.clone(); return machine, nil }}
		n, err := Open(config)
		if err != nil {
			t.Fatal(err)
		}
		var first []Replica
		if i < members {
			first = p.members[:members]
		}
		if err := n.Create(1, p.members[i], first); err != nil {
			t.Fatal(err)
		}
		p.nodes, p.mems, p.configs = append(p.nodes, n), append(p.mems, mem), append(p.configs, config)
	}
	for range 100 { // only the first one's time passes, so it leads
		p.tick()
	}
	return p
}

func (p *party) tick() {
	p.nodes[0].Tick()
	p.work()
}

func (p *party) work() {
	for _, n := range p.nodes {
		if _, err := n.Work(); err != nil {
			p.Fatal(err)
		}
	}
	mail := p.mail
	p.mail = nil
	for _, m := range mail {
		p.nodes[m.To.Node()-1].Step(m)
	}
}

// TestRemovalIsDurable: of two members one is removed and has heard so, then the power of the other fails. That one
// leads by itself: nobody would vote for it.
func TestRemovalIsDurable(t *testing.T) {
	p := newParty(t, 2, 2)
	removed := false
	p.nodes[0].Change(1, []MemberStep{{Replica: p.members[1], Remove: true}}, func(err error) { removed = err == nil })
	heard := func() bool {
		s, err := p.nodes[1].Status(1)
		return err == nil && len(s.Voters) == 1
	}
	for range 20 {
		if !heard() {
			p.work()
		}
	}
	if !removed || !heard() {
		t.Fatal("the second one does not hear that it was removed", removed)
	}
	p.mems[0].Kill()
	p.mems[0].Restart(true)
	n, err := Open(p.configs[0])
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

// TestRemovedLeaderGivesWay: a leader that is removed gives way to another member before it is none itself. Time passes for nobody
// else: no other one stands for election by itself.
func TestRemovedLeaderGivesWay(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		p := newParty(t, 3, 2)
		change := func(steps ...MemberStep) {
			ended := false
			p.nodes[0].Change(1, steps, func(err error) {
				if ended = true; err != nil {
					t.Fatal(err)
				}
			})
			for range 100 {
				p.tick()
			}
			if !ended {
				t.Fatal("the change does not begin")
			}
		}
		steps := []MemberStep{{Replica: p.members[0], Remove: true}}
		if replaced {
			change(MemberStep{Replica: p.members[2], Learner: true})
			steps = append(steps, MemberStep{Replica: p.members[2]})
		}
		change(steps...)
		leaders := 0
		for _, n := range p.nodes[1:] {
			s, err := n.Status(1)
			if err != nil || s.Joint || s.Replica == p.members[1] && len(s.Voters) != len(steps) {
				t.Errorf("replaced %v: %+v, %v", replaced, s, err)
			}
			if s.Leading {
				leaders++
			}
		}
		if leaders != 1 {
			t.Errorf("replaced %v: %d of the others lead", replaced, leaders)
		}
	}
}
