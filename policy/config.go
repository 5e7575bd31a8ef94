package policy

import (
	"errors"
	"fmt"
	"headrace/policy/internal/victims"
	"slices"
	"strings"
	"time"
)

// Name is a way of making room for more urgent tasks.
type Name = victims.Policy

const (
	// Wait never preempts.
	Wait = victims.Wait
	// Kill kills victims.
	Kill = victims.Kill
	// Suspend suspends victims; where the guard refuses it checkpoints them, and
	// where that is impossible too it waits. It never kills.
	Suspend = victims.Suspend
	// Checkpoint checkpoints victims; where that is impossible it suspends them
	// if the guard allows, else it waits. It never kills.
	Checkpoint = victims.Checkpoint
	// Adaptive is checkpoint-preemption's algorithms 1 and 2 as written.
	Adaptive = victims.Adaptive
	// Cost takes what costs least, waiting included. It is the default.
	Cost = victims.Cost
)

// Names returns all policies, the default first.
func Names() []Name { return []Name{Cost, Wait, Kill, Suspend, Checkpoint, Adaptive} }

// VictimOrder says which of several victims goes first.
type VictimOrder = victims.Order

const (
	// CheapestCheckpoint takes the victim with the least bytes to write divided
	// by the bandwidth of its store (checkpoint-preemption, section 5.2.2). Those
	// that cannot be checkpointed come last.
	CheapestCheckpoint = victims.CheapestCheckpoint
	// SmallestMemory takes the victim with the least memory
	// (os-assisted-preemption, section V.A).
	SmallestMemory = victims.SmallestMemory
	// ClosestToCompletion takes the victim that would be done first (Natjam,
	// through os-assisted-preemption, section V.A). Those whose share is not
	// known come last.
	ClosestToCompletion = victims.ClosestToCompletion
	// LeastWork takes the victim that a kill would cost the least time, with
	// what it has to read again.
	LeastWork = victims.LeastWork
)

// VictimOrders returns all victim orders.
func VictimOrders() []VictimOrder {
	return []VictimOrder{CheapestCheckpoint, SmallestMemory, ClosestToCompletion, LeastWork}
}

// None, as a duration, switches the rule off that the field stands for.
const None time.Duration = -1

// MinRun is the default of Config.MinRun.
const MinRun = 5 * time.Second

// Ageing is the default of Config.Ageing.
const Ageing = 10 * time.Minute

// Config chooses and tunes a policy. Its zero value is the policy Cost with the
// defaults below; where zero means the default, a negative value means none.
type Config struct {
	// Policy is one of Names; empty means Cost.
	Policy Name
	// VictimOrder is one of VictimOrders. Empty means: SmallestMemory for Suspend, LeastWork for
	// Kill, CheapestCheckpoint for Checkpoint and Adaptive. Cost uses it between victims that
	// cost the same; empty means there that they take turns: who has waited least leaves,
	// and last the one that was submitted first of those of its priority on a node.
	VictimOrder VictimOrder

	// MinRun is how long a task that was preempted before runs, once it is back,
	// until it may be preempted again. Default 5 s. A task that was never
	// preempted has no such protection: there is no thrashing yet to prevent.
	MinRun time.Duration
	// Ageing is how long a task waits for each step by which its priority in the
	// queue rises. Default 10 min. See the package comment.
	Ageing time.Duration

	// NoResidencyOrder leaves the tasks of a job in order of submission, and chooses
	// no node for a task, by what of its input is in memory. It is there to be
	// compared with.
	NoResidencyOrder bool

	// Doubling is by how many steps of priority a task must be more urgent for
	// its time to weigh twice as much. Default 6; negative: all time weighs the
	// same. With the default, high weighs twice as much as low. Only Cost uses it. It is there
	// to be compared with.
	Doubling float64 `json:",omitempty"`

	// Tests set what follows.

	// reserve is the share of the swap that tasks may use (what is free plus what
	// tasks hold) that is never used. Default 0.1.
	reserve float64
	// overlap is the share of a page-out during which the task that it makes room
	// for already runs, 0 to 1. Default 1: it starts at once, because a task needs
	// time to fill its memory. Until all has gone, the node may hold that much more
	// than its budget.
	overlap float64
}

// Validate says what is wrong with c, all of it, or returns nil.
func (c Config) Validate() error {
	var errs []error
	if c.Policy != "" && !slices.Contains(Names(), c.Policy) {
		errs = append(errs, unknown("policy", string(c.Policy), Names()))
	}
	if c.VictimOrder != "" && !slices.Contains(VictimOrders(), c.VictimOrder) {
		errs = append(errs, unknown("victim order", string(c.VictimOrder), VictimOrders()))
	}
	if c.Ageing > 0 && c.Ageing < time.Second {
		errs = append(errs, fmt.Errorf("ageing %v: want at least 1s per step of priority; negative for none, 0 for the default", c.Ageing))
	}
	if !(c.Doubling <= 0 || c.Doubling >= 0.5) {
		errs = append(errs, fmt.Errorf("weights that double every %v steps of priority: want at least 0.5; negative for equal ones, 0 for the default", c.Doubling))
	}
	return errors.Join(errs...)
}

// ParsePolicy reads the name of a policy; the empty string is the default.
func ParsePolicy(s string) (Name, error) {
	n := Name(strings.ToLower(strings.TrimSpace(s)))
	switch {
	case n == "":
		return Cost, nil
	case slices.Contains(Names(), n):
		return n, nil
	}
	return "", unknown("policy", s, Names())
}

// ParseVictimOrder reads the name of a victim order; the empty string, which it
// returns as such, is the policy's own default.
func ParseVictimOrder(s string) (VictimOrder, error) {
	o := VictimOrder(strings.ToLower(strings.TrimSpace(s)))
	if o == "" || slices.Contains(VictimOrders(), o) {
		return o, nil
	}
	return "", unknown("victim order", s, VictimOrders())
}

func unknown[T ~string](what, got string, want []T) error {
	names := make([]string, len(want))
	for i, w := range want {
		names[i] = string(w)
	}
	return fmt.Errorf("unknown %s %q: want one of %s", what, got, strings.Join(names, ", "))
}

var defaultOrder = map[Name]VictimOrder{
	Kill:       LeastWork,
	Suspend:    SmallestMemory,
	Cost:       victims.InTurn,
	Checkpoint: CheapestCheckpoint,
	Adaptive:   CheapestCheckpoint,
	Wait:       SmallestMemory,
}

// resolved is c with every default filled in and every "none" as a zero.
func (c Config) resolved() Config {
	if c.Policy == "" {
		c.Policy = Cost
	}
	if c.VictimOrder == "" {
		c.VictimOrder = defaultOrder[c.Policy]
	}
	c.MinRun = orDefault(c.MinRun, MinRun)
	c.Ageing = orDefault(c.Ageing, Ageing)
	c.reserve = orDefault(c.reserve, 0.1)
	c.overlap = orDefault(c.overlap, 1)
	c.Doubling = orDefault(c.Doubling, 6)
	return c
}

func orDefault[T ~int | ~int64 | ~float64](v, byDefault T) T {
	switch {
	case v == 0:
		return byDefault
	case v < 0:
		return 0
	}
	return v
}
