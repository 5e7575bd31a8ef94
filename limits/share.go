package limits

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"headrace"
	"headrace/report"
)

// Claim is a task that runs or wants to, as these rules see it.
type Claim struct {
	UID      uint32
	Priority headrace.Priority
	CPUs     float64
	// Memory is what it has asked for or holds, whichever is more, in bytes.
	Memory int64
	// Has: it runs, or is about to. Begun: it waits, and has run before. Aside: its owner
	// has suspended it, so that it has its memory, and wants nothing. Leaves: it is to leave, and runs
	// until then, which may take long; of its share it has given that up.
	Has, Begun, Aside, Leaves bool
	// Turn is when its owner last had a task of this priority started or brought back, by any count
	// that grows; 0: never.
	Turn uint64
}

// Hold says which of the waiting claims, by index, may not run now because of the
// limits of their owners, and why. Claims are in order of submission. Within a
// user's limits the more urgent goes first, then what was begun, then what came
// first; it does not matter what there is room for. of gives the limits of a
// claim's owner.
func Hold(claims []Claim, of func(i int) Limits) map[int]string {
	var held map[int]string
	for _, mine := range byUser(claims) {
		l := of(mine[0])
		if math.IsInf(l.Slots, 1) && l.Memory == None && l.Running == None {
			continue
		}
		left := room{l.Slots, l.Memory, l.Running}
		line := make([]int, 0, len(mine))
		for _, i := range mine {
			switch c := claims[i]; {
			case c.Aside:
				left.keep(c.Memory)
			case c.Has, c.Leaves:
				left.take(c)
			default:
				line = append(line, i)
			}
		}
		slices.SortStableFunc(line, func(a, b int) int { return firstOfUser(claims[a], claims[b]) })
		full := ""
		for _, i := range line {
			alone := room{l.Slots, l.Memory, l.Running}
			why := alone.lacks(claims[i], l)
			switch {
			case why != "": // never; it must not keep the others back
			case full != "":
				why = full
			default:
				if why = left.lacks(claims[i], l); why == "" {
					left.take(claims[i])
					continue
				}
				full = why
			}
			if held == nil {
				held = map[int]string{}
			}
			held[i] = why
		}
	}
	return held
}

// room is what a user may still take.
type room struct {
	cpus   float64
	memory int64
	tasks  int64
}

// keep takes memory alone.
func (r *room) keep(memory int64) {
	if r.memory != None {
		r.memory -= memory
	}
}

func (r *room) take(c Claim) {
	r.cpus -= c.CPUs
	r.keep(c.Memory)
	if r.tasks != None {
		r.tasks--
	}
}

// slack covers what adding up fractions of processors loses.
const slack = 1e-9

func (r *room) lacks(c Claim, l Limits) string {
	switch {
	case r.tasks < 1:
		return fmt.Sprintf("its owner may have %d tasks running (limit running)", l.Running)
	case c.CPUs > r.cpus+slack:
		return fmt.Sprintf("its owner may use %v slots (limit slots)", l.Slots)
	case r.memory != None && c.Memory > max(0, r.memory):
		return fmt.Sprintf("its owner may use %s of memory (limit memory)", report.Bytes(l.Memory))
	}
	return ""
}

func byUser(claims []Claim) map[uint32][]int {
	users := map[uint32][]int{}
	for i, c := range claims {
		users[c.UID] = append(users[c.UID], i)
	}
	return users
}

// rank orders claims of one priority: what was set aside, what runs, then what was begun,
// then the rest.
func (c Claim) rank() int {
	switch {
	case c.Aside:
		return 0
	case c.Has:
		return 1
	case c.Begun:
		return 2
	}
	return 3
}

// firstOfUser orders what a user has: the more urgent first, then by rank.
func firstOfUser(a, b Claim) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.rank(), b.rank()))
}

// Beyond says which claims, by index, are more than their owner's equal share of a
// machine with so many processors and so much memory, while somebody else of the
// same priority waits with less than theirs. Those are to count as less urgent than
// their priority: in the queue behind what others wait with, and when they run,
// preempted for it. Without another user who waits there are none: nothing is left
// idle.
//
// What users of a priority do not want of their shares is divided among the others.
// What a user has running or set aside at higher priorities counts first, then what is set
// aside at this one. Of processors and memory that counts of which a task takes the greater
// part. Claims are in order of submission; what runs stays within the share before what
// waits. The first claim of a user is within the share also when it is more by itself: else who wants
// much at once would never run. Of those that wait and do not all fit beside each other, those are
// whose owners had a turn the longest ago.
func Beyond(claims []Claim, cpus float64, memory int64) map[int]bool {
	if one := oneUser(claims); one {
		return nil
	}
	part := func(c Claim) float64 {
		p := 0.0
		if cpus > 0 {
			p = c.CPUs / cpus
		}
		if memory > 0 {
			p = max(p, float64(c.Memory)/float64(memory))
		}
		return p
	}
	var levels [headrace.MaxPriority + 1][]int
	for i, c := range claims {
		p := min(c.Priority, headrace.MaxPriority)
		levels[p] = append(levels[p], i)
	}
	above := map[uint32]float64{} // what users have at higher priorities
	var beyond map[int]bool
	for p := int(headrace.MaxPriority); p >= 1; p-- {
		for _, i := range beyondAt(claims, levels[p], above, part) {
			if beyond == nil {
				beyond = map[int]bool{}
			}
			beyond[i] = true
		}
		for _, i := range levels[p] {
			if claims[i].Has || claims[i].Aside {
				above[claims[i].UID] += part(claims[i])
			}
		}
	}
	return beyond
}

func oneUser(claims []Claim) bool {
	for _, c := range claims {
		if c.UID != claims[0].UID {
			return false
		}
	}
	return true
}

// beyondAt does as Beyond, for the claims of one priority, those at the indices given.
func beyondAt(claims []Claim, level []int, above map[uint32]float64, part func(Claim) float64) []int {
	wants := map[uint32]float64{}
	for _, i := range level {
		c := claims[i]
		if _, ok := wants[c.UID]; !ok {
			wants[c.UID] = above[c.UID]
		}
		wants[c.UID] += part(c)
	}
	if len(wants) < 2 {
		return nil
	}
	fair := equalShare(wants)
	has := map[uint32]float64{}
	var beyond, first []int
	left := 1.0
	for _, a := range above {
		left -= a
	}
	starved := false
	for _, i := range runningFirst(claims, level) {
		c := claims[i]
		before, ok := has[c.UID]
		if !ok {
			before = above[c.UID]
		}
		has[c.UID] = before + part(c)
		switch within := has[c.UID] <= fair+slack; {
		case c.Aside: // nothing is to come of it
			left -= part(c)
		case within, before == 0 && c.Has:
			starved = starved || !c.Has
			left -= part(c)
		case before == 0:
			first = append(first, i)
		default:
			beyond = append(beyond, i)
		}
	}
	slices.SortStableFunc(first, func(a, b int) int { return cmp.Compare(claims[a].Turn, claims[b].Turn) })
	for k, i := range first {
		if left -= part(claims[i]); k == 0 || left >= -slack {
			starved = true
		} else {
			beyond = append(beyond, i)
		}
	}
	if !starved {
		return nil
	}
	return beyond
}

// runningFirst returns the claims of one priority by rank, each rank in order of
// submission.
func runningFirst(claims []Claim, level []int) []int {
	line := slices.Clone(level)
	slices.SortStableFunc(line, func(a, b int) int { return cmp.Compare(claims[a].rank(), claims[b].rank()) })
	return line
}

// equalShare returns the share that nobody gets more than when a whole is divided among
// those who want so much each; at least what one of them wants at most if the whole
// is enough.
func equalShare(wants map[uint32]float64) float64 {
	sorted := make([]float64, 0, len(wants))
	for _, w := range wants {
		sorted = append(sorted, w)
	}
	slices.Sort(sorted)
	left := 1.0
	for i, w := range sorted {
		share := left / float64(len(sorted)-i)
		if w > share {
			return share
		}
		left -= w
	}
	return math.Inf(1)
}
