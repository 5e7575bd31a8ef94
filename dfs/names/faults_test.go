package names

import (
	"testing"

	"headrace/meta"
)

// TestFaultsAreFound: the simulation finds mistakes made on purpose.
func TestFaultsAreFound(t *testing.T) {
	withChance(t)
	for name, f := range map[string]struct {
		fault
		from uint64 // the world to begin with, so that it does not take long
	}{
		"says that it is durable before it is": {fault{durableEarly: true}, 0}, "forgets calls": {fault{forgetsCalls: true}, 0},
		"keeps writes above a received state": {fault{keepsWrites: true}, 1060},
		"reads without asking others":         {fault{readsAlone: true}, 60},
		"gives nothing back for what is cut":  {fault{does: keepsCharge}, 840}, "cuts too much": {fault{does: cutsTooMuch}, 0},
		"truncates in safe mode": {fault{does: truncatesAlways}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range uint64(1000) {
				if problem := newWorld(f.from+i, f.fault, map[string]int{}).run(simSteps); problem != "" {
					t.Logf("seed %d: %.300s", f.from+i, problem)
					return
				}
			}
			t.Error("not found")
		})
	}
}

// TestForgottenReplica: a node does not make a replica again that it has forgotten, with what that had promised. Worlds in which it would matter are
// too rare to be looked for.
func TestForgottenReplica(t *testing.T) {
	withChance(t)
	for _, f := range []fault{{}, {sitsAgain: true}} {
		w := newWorld(0, f, map[string]int{})
		p := w.processes[0]
		was := p.seats.held
		p.seats.held = seat{Last: was.Replica} // as leave has it
		err := p.seats.tend(p.node, p.known.View())
		if made := err != nil || p.seats.held.Replica != 0; made != f.sitsAgain {
			t.Errorf("%+v: a replica is made: %t, %v", f, made, err)
		}
	}
}

// deaf is a state that does not take what directories with quotas take.
type deaf struct{ meta.View }

func (d deaf) Set(k, v []byte) {
	if k[0] != 'd' {
		d.View.Set(k, v)
	}
}

// keepsCharge does not give back what a truncated file took of quotas.
func keepsCharge(v meta.View, c meta.Command) (meta.Result, error) {
	if _, is := c.Op.(*meta.Truncate); is {
		v = deaf{v}
	}
	return meta.Apply(v, c)
}

// cutsTooMuch leaves a byte less of a block than its nodes have.
func cutsTooMuch(v meta.View, c meta.Command) (meta.Result, error) {
	if o, is := c.Op.(*meta.CommitRecovery); is && o.Size > 1 {
		less := *o
		less.Size--
		c.Op = &less
	}
	return meta.Apply(v, c)
}

// waking is a state that is never in safe mode.
type waking struct{ meta.View }

func (w waking) Get(k []byte) []byte {
	if string(k) == "c\x00\x00\x00\x00\x00\x00\x00\x02" {
		return nil
	}
	return w.View.Get(k)
}

// truncatesAlways takes safe mode for a matter of others.
func truncatesAlways(v meta.View, c meta.Command) (meta.Result, error) {
	if _, is := c.Op.(*meta.Truncate); is {
		v = waking{v}
	}
	return meta.Apply(v, c)
}
