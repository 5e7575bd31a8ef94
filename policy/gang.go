package policy

import (
	"slices"

	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/fleet"
	"headrace/policy/internal/words"
)

// placeGang decides about the tasks of a gang that wait, all of them: they start or come
// back, wait for room that is on its way to them, others make room for them, or it is kept
// for them. Where that is not possible for one it is done for none.
func (p *Planner) placeGang(g *books.Gang) outcome {
	g.Done = true
	lead := g.Waiting[0]
	for _, u := range g.Waiting {
		if u.Order > 0 || u.Settled {
			p.noteGang(g, "what one of its gang holds is needed by a more urgent task")
			return nothing
		}
	}
	switch {
	case g.Unready:
		p.noteGang(g, "waits for others of its gang")
	case p.hopeless(lead):
	case p.bringGang(g, fleet.Now):
		return served
	case p.bringGang(g, fleet.Later):
		p.noteGang(g, "room is being made for its gang")
		return served
	case slices.ContainsFunc(g.Waiting, func(u *books.Task) bool { return u.NoVictims }):
		p.keepForGang(g)
	case p.bringGang(g, fleet.Planned):
		p.noteGang(g, "room is being made for its gang")
		return roomMade
	default:
		p.keepForGang(g)
	}
	return nothing
}

// redeemGang gives a gang the room that was made for it by earlier orders, if that is still
// there.
func (p *Planner) redeemGang(g *books.Gang) {
	if g.Done || g.Unready || slices.ContainsFunc(g.Waiting, func(u *books.Task) bool { return u.Order > 0 }) {
		return
	}
	if g.Done = p.bringGang(g, fleet.Now); !g.Done && p.bringGang(g, fleet.Later) {
		g.Done = true
		p.noteGang(g, "room is being made for its gang")
	}
}

// bringGang finds room for all that wait of a gang: at once, when those that are leaving are
// gone, or by having others leave. It reports false, and nothing has changed, when there is
// not enough.
func (p *Planner) bringGang(g *books.Gang, how fleet.Kind) bool {
	lead := g.Waiting[0]
	if p.fleet.Fails(lead, how) {
		return false
	}
	before := slices.Clone(p.orders)
	trial := p.fleet.Try()
	for _, u := range g.Waiting {
		if p.seat(u, how) {
			continue
		}
		trial.Undo()
		p.orders = append(p.orders[:0], before...)
		for _, u := range g.Waiting {
			u.Settled, u.Order = false, 0
		}
		p.fleet.Failed(lead, how, false)
		return false
	}
	trial.Commit()
	if how == fleet.Planned {
		p.fleet.RoomMade()
	}
	return true
}

// seat finds room for one of a gang, and gives it that.
func (p *Planner) seat(u *books.Task, how fleet.Kind) bool {
	if n := p.fleet.NodeOf(u.Room); n != nil && fleet.May(u, n) {
		switch {
		case how == fleet.Now && n.Fits(u):
			p.start(u, n, "there is room for all of its gang")
			return true
		case how != fleet.Now && n.FitsLater(u):
			p.reserve(u, n)
			return true
		}
	}
	now, s := p.fleet.Find(u)
	switch {
	case now != nil && how == fleet.Now:
		p.start(u, now, "there is room for all of its gang")
		return true
	case now != nil:
		p.reserve(u, now)
		return true
	case how == fleet.Now || p.fleet.Nowhere(u, s):
		return false
	}
	if n := p.fleet.FitsLater(u, s); n != nil {
		p.reserve(u, n)
		return true
	}
	if how == fleet.Later {
		return false
	}
	way := p.search(u, s)
	if way == nil || way.Waits() {
		return false
	}
	p.apply(u, way, "makes room for "+string(u.ID)+" ("+u.Priority.String()+") and its gang")
	p.reserve(u, way.Node)
	return true
}

// keepForGang keeps what is free for all that wait of a gang, from those that may not pass it, if nothing
// is kept yet for a task or gang that can go anywhere. One that is
// suspended comes back where it is: for the first such it is kept there. For all of them it
// would leave processors idle on most nodes.
func (p *Planner) keepForGang(g *books.Gang) {
	p.noteGang(g, "waits for room for all of its gang")
	kept := &p.keeping.bound
	if slices.ContainsFunc(g.Waiting, func(u *books.Task) bool { return u.State != headrace.Suspended }) {
		kept = &p.keeping.anywhere
	}
	if !*kept && setAside(p, g, false) {
		*kept = true
		p.passed = append(p.passed, passed{Task: g.Waiting[0]})
	}
}

// setAside keeps, or only would, what is free for all that wait of g, on the nodes where the least is missing. It
// reports false, and nothing has changed, when there is none for one.
func setAside(p *Planner, g *books.Gang, keep bool) bool {
	trial, all := p.fleet.Try(), true
	for _, u := range g.Waiting {
		n := p.fleet.NearestFit(u, p.fleet.Spots(u), false)
		if all = n != nil; !all {
			break
		}
		n.Claim(u)
		p.fleet.Touch(n)
	}
	if all && keep {
		trial.CommitClaims()
		return true
	}
	trial.Undo()
	for _, u := range g.Waiting {
		u.Settled = false
	}
	return all
}

// creditRest enters that the rest of a gang leaves of which a part does by a: what is stalled
// without it makes no progress. When a plan only waits nobody else takes it.
func (p *Planner) creditRest(a books.Act, waits bool) {
	if a.Task.Whole == nil {
		return
	}
	for _, part := range a.Task.Whole.Parts {
		switch {
		case part == a.Task || part.Settled:
			continue
		case waits:
			part.Home.AwaitRest(part)
		default:
			part.Home.Credit(books.By(part, a.By))
		}
		p.fleet.Touch(part.Home)
	}
}

// orderRest orders that rest to leave.
func (p *Planner) orderRest(a books.Act, n *books.Node) {
	if a.Task.Whole == nil {
		return
	}
	for _, part := range a.Task.Whole.Parts {
		if part == a.Task {
			continue
		}
		for _, m := range part.Members {
			p.emit(headrace.Order{
				Verb: headrace.OrderPreempt, Task: m.ID, Node: part.Home.ID, Mechanism: a.By,
				Waste: words.Seconds(p.model.Of(part.Home, books.By(m, a.By)).Waste), Reason: "leaves with its gang, of which a part makes room on " + string(n.ID),
			}, m)
		}
	}
}

// split returns the acts and page-outs of a plan in which the parts of gangs are their
// tasks.
func split(acts []books.Act, outs []books.Out) ([]books.Act, []books.Out) {
	if !slices.ContainsFunc(acts, func(a books.Act) bool { return a.Task.Members != nil }) {
		return acts, outs
	}
	var each []books.Act
	for _, a := range acts {
		if a.Task.Members == nil {
			each = append(each, a)
		}
		for _, m := range a.Task.Members {
			each = append(each, books.By(m, a.By))
		}
	}
	var some []books.Out
	for _, o := range outs {
		if o.Task.Members == nil {
			some = append(some, o)
		}
		for _, m := range o.Task.Members {
			m.Settled = true
			if bytes := min(o.Bytes, m.Resident); bytes > 0 {
				some = append(some, books.Out{Task: m, Bytes: bytes})
				o.Bytes -= bytes
			}
		}
	}
	return each, some
}

func (p *Planner) noteGang(g *books.Gang, says string) {
	for _, u := range g.Waiting {
		p.note(u, says)
	}
}
