package names

import (
	"cmp"
	"maps"
	"slices"

	"headrace/quorum"
	"headrace/ring"
)

// wanted returns which members are to vote: three, five of five and more, so that any two may be lost, both of two. Who
// has a seat keeps it until it is out or leaves; the others come in the order of the ring, first from racks that have no seat.
func wanted(v *View) []string {
	var stay, others []ring.Node
	members := 0
	racks := map[string]bool{}
	for _, n := range v.Table.Nodes() {
		if n.State == ring.IsOut || n.Leaving || v.Members[n.Name].Name == "" {
			continue
		}
		members++
		if _, has := v.Seats[n.Name]; has {
			stay = append(stay, n)
			racks[n.Rack] = true
		} else if n.State == ring.IsUp {
			others = append(others, n)
		}
	}
	want := members
	switch {
	case members >= 5:
		want = 5
	case members >= 3:
		want = 3
	}
	// Of too many, those that are down stand first, and never who leads.
	slices.SortStableFunc(stay, func(a, b ring.Node) int {
		rank := func(n ring.Node) int {
			if n.Name == v.Leader {
				return -1
			}
			return int(n.State)
		}
		return cmp.Compare(rank(a), rank(b))
	})
	var names []string
	for _, n := range stay[:min(want, len(stay))] {
		names = append(names, n.Name)
	}
	for _, sameRack := range []bool{false, true} {
		for _, n := range others {
			if len(names) < want && racks[n.Rack] == sameRack && !slices.Contains(names, n.Name) {
				names = append(names, n.Name)
				racks[n.Rack] = true
			}
		}
	}
	return names
}

// step brings those who vote nearer to those who are to: one of these.
type step struct {
	seat, unseat string // a member
	change       []quorum.MemberStep
	transfer     quorum.Replica
}

// closeBy is how many entries a learner may lack that is made a voter, whenever they came.
const closeBy = 200

// isClose reports whether a learner lacks little, or only what is new (Ongaro's thesis, 4.2.1). A leader that is alone waits for nobody, so clients that are quick enough keep
// a learner many entries behind for as long as they go on. When it votes they wait until it has heard those, which came in some seconds.
func isClose(s quorum.Status, r quorum.Replica) bool {
	has := s.Has[r]
	return has > 0 && has >= s.First && (has+closeBy >= s.Last || has >= s.Before)
}

// next returns what the leader is to do now. It is a function of what is agreed, so who leads next goes on with it, and of replicas that are known to be
// lost, or not reached, though their nodes are there.
func next(v *View, s quorum.Status, lost ...quorum.Replica) (step, bool) {
	if s.Joint {
		return step{}, false
	}
	want := wanted(v)
	for _, name := range want {
		if v.Seats[name] == 0 {
			return step{seat: name}, true
		}
	}
	in := slices.Concat(s.Voters, s.Learners)
	seated := map[quorum.Replica]string{} // only those that are wanted
	for _, name := range want {
		seated[v.Seats[name]] = name
	}
	for _, r := range slices.Sorted(maps.Keys(seated)) {
		if !slices.Contains(in, r) {
			return step{change: []quorum.MemberStep{{Replica: r, Learner: true}}}, true
		}
	}
	for _, r := range s.Learners {
		if seated[r] == "" {
			return step{change: []quorum.MemberStep{{Replica: r, Remove: true}}}, true
		}
	}
	var leave []quorum.Replica
	for _, r := range s.Voters {
		if seated[r] == "" {
			leave = append(leave, r)
		}
	}
	if promote, ok := ready(v, s, seated, lost); !ok {
		return step{}, false // voters go when others have come
	} else if len(promote) > 0 {
		for _, r := range leave[:min(len(leave), len(promote))] { // one out for one in
			if r != s.Replica {
				promote = append(promote, quorum.MemberStep{Replica: r, Remove: true})
			}
		}
		return step{change: promote}, true
	}
	for _, r := range leave {
		if r != s.Replica && goesOn(v, s, append(lost, r)) {
			return step{change: []quorum.MemberStep{{Replica: r, Remove: true}}}, true
		}
	}
	if slices.Contains(leave, s.Replica) { // this one: another has to lead
		to := quorum.Replica(0)
		for _, r := range s.Voters {
			if r != s.Replica && (to == 0 || s.Has[r] > s.Has[to]) {
				to = r
			}
		}
		return step{transfer: to}, to != 0
	}
	for _, name := range slices.Sorted(maps.Keys(v.Seats)) {
		if !slices.Contains(in, v.Seats[name]) {
			return step{unseat: name}, true
		}
	}
	return step{}, false
}

// goesOn reports whether those who vote can agree without one of them, the last of without: if too many of the others are down, silent, or lost, it is needed until
// they are back, or replaced.
func goesOn(v *View, s quorum.Status, without []quorum.Replica) bool {
	up := 0
	for name, r := range v.Seats {
		if n, _ := v.Table.Node(name); n.State == ring.IsUp && (r == s.Replica || s.Active[r]) && slices.Contains(s.Voters, r) && !slices.Contains(without, r) {
			up++
		}
	}
	return 2*up > len(s.Voters)-1
}

// ready returns the learners to be made voters, all at once: a number of voters that is even bears no more failures than one
// less. It waits for those that are up; others that are down, or lost, are left aside.
func ready(v *View, s quorum.Status, seated map[quorum.Replica]string, lost []quorum.Replica) (promote []quorum.MemberStep, ok bool) {
	for _, r := range s.Learners {
		switch n, _ := v.Table.Node(seated[r]); {
		case isClose(s, r):
			promote = append(promote, quorum.MemberStep{Replica: r})
		case n.State == ring.IsUp && !slices.Contains(lost, r):
			return nil, false
		}
	}
	return promote, true
}

// mostMute is for how many looks at the seats a learner may say nothing, until others do not wait for it any more: some minutes. One that is being given
// the whole state says something when it has it.
const mostMute = 1500

// mutes counts for how long learners say nothing, and returns those for which nobody is to wait: their nodes may be up, and out of reach of the one that leads.
func (s *seats) mutes(status quorum.Status) (mute []quorum.Replica) {
	before := s.mute
	s.mute = map[quorum.Replica]int{}
	for _, r := range status.Learners {
		if status.Active[r] {
			continue
		}
		if s.mute[r] = before[r] + 1; s.mute[r] > mostMute {
			mute = append(mute, r)
		}
	}
	return mute
}

// seats keeps this node's seat, and those of all when this node leads. It is called by the goroutine that drives quorum.
type seats struct {
	self    string
	machine *machine
	held    seat
	// waits: what was begun has not ended.
	waits bool
	// alone is told whether this node is all of the group and leads it.
	alone func(bool)
	// mute are learners that say nothing: for so many looks at the seats.
	mute map[quorum.Replica]int
	// lostOnes, if set, returns replicas that have said that they are not there any more.
	lostOnes func() []quorum.Replica
	// sure is the term in which all that was agreed on before was applied, asked the one in which that was asked.
	sure, asked uint64
	point       func(string)
}

// open brings the log and the state in line with the seat that the node has.
func (s *seats) open(q *quorum.Node) (err error) {
	if s.held, err = s.machine.store.seat(); err != nil {
		return errStore(err)
	}
	_, err = q.Status(group)
	there := err == nil
	switch {
	case s.held.Replica == 0:
		return nil
	case s.held.Leaving:
		return s.leave(q)
	case !s.held.Made && !there:
		return s.take(q)
	case !s.held.Made:
		return s.made()
	case !there:
		return errLogGone
	}
	return nil
}

// take makes the replica of the seat.
func (s *seats) take(q *quorum.Node) error {
	var members []quorum.Replica
	if s.held.Alone {
		members = []quorum.Replica{s.held.Replica}
	}
	if err := q.Create(group, s.held.Replica, members); err != nil {
		return err
	}
	return s.made()
}

func (s *seats) made() error {
	s.point("names.seat.taken")
	s.held.Made = true
	return s.machine.store.setSeat(s.held)
}

// leave forgets the replica and the state.
func (s *seats) leave(q *quorum.Node) error {
	s.held.Leaving = true
	if err := s.machine.store.setSeat(s.held); err != nil {
		return err
	}
	s.point("names.seat.leaving")
	if _, err := q.Status(group); err == nil {
		if err := q.Drop(group); err != nil {
			return err
		}
	}
	s.point("names.seat.dropped")
	if err := s.machine.wipe(); err != nil {
		return err
	}
	s.held = seat{Epoch: s.held.Epoch, Index: s.held.Index, Last: s.held.Last}
	return s.machine.store.setSeat(s.held)
}

// tend does what there is to do about seats. An error ends the node.
func (s *seats) tend(q *quorum.Node, v *View) error {
	// What is known may be older than the seat: after a start, or when a state is received.
	newer := v.Table.Epoch() > s.held.Epoch || v.Table.Epoch() == s.held.Epoch && v.Index > s.held.Index
	switch mine := v.Seats[s.self]; {
	case mine == s.held.Replica || !newer:
	case s.held.Replica != 0:
		if err := s.machine.store.keepView(v); err != nil {
			return errStore(err)
		}
		return s.leave(q)
	case mine > s.held.Last || s.machine.fault.sitsAgain: // never one that was forgotten
		s.held = seat{Replica: mine, Epoch: v.Table.Epoch(), Index: v.Index, Last: mine}
		if err := s.machine.store.setSeat(s.held); err != nil {
			return errStore(err)
		}
		return s.take(q)
	}
	status, err := q.Status(group)
	if err != nil || !status.Leading || s.waits {
		return nil
	}
	// Only what is applied counts, not what was heard.
	agreed := s.machine.agreed()
	if agreed == nil {
		return nil
	}
	agreed.Leader = s.self
	var lost []quorum.Replica
	if s.lostOnes != nil {
		lost = s.lostOnes()
	}
	lost = append(lost, s.mutes(status)...)
	if do, ok := next(agreed, status, lost...); ok {
		s.begin(q, do)
	} else if isAlone(status) {
		s.confirm(q, status.Term)
	}
	return nil
}

// confirm finds out that nobody else has a say: all that the log has of other members was applied.
func (s *seats) confirm(q *quorum.Node, term uint64) {
	if s.sure == term {
		s.alone(true)
	} else if s.asked != term {
		s.asked = term
		q.Read(group, func(err error) {
			if err == nil {
				s.sure = term
			} else {
				s.asked = 0
			}
		})
	}
}

func isAlone(s quorum.Status) bool {
	return s.Leading && len(s.Voters) == 1 && s.Voters[0] == s.Replica && len(s.Learners) == 0 && !s.Joint
}

// begin begins a step. Whether it succeeds is seen in what follows.
func (s *seats) begin(q *quorum.Node, do step) {
	s.waits = true
	if len(do.change) > 0 {
		s.alone(false)
	}
	ended := func() { s.waits = false }
	switch {
	case do.seat != "":
		q.Propose(group, append([]byte{kindSeat}, do.seat...), func([]byte, error) { ended() })
	case do.unseat != "":
		q.Propose(group, append([]byte{kindUnseat}, do.unseat...), func([]byte, error) { ended() })
	case len(do.change) > 0:
		q.Change(group, do.change, func(error) { ended() })
	default:
		q.Transfer(group, do.transfer)
		ended()
	}
}
