package quorum

const (
	// keepLonger is how many times as much of a log as else is kept for replicas that were sent a snapshot.
	keepLonger = 16
	// patience is for how many elections' time such a replica may have got nothing.
	patience = 600
)

// behind is a replica that was sent a snapshot and has not caught up since: the log is kept from where the snapshot
// ends. Else the log would begin behind it when it was taken over, and there would be another, without end.
type behind struct {
	match uint64 // what it has, or will have with the snapshot
	quiet int    // ticks since that grew, or a piece was sent
}

// needed returns how much of what could be cut off, the log up to the entry to, no replica has to have yet.
func (g *group) needed(to uint64) uint64 {
	if len(g.behind) == 0 {
		return to
	}
	progress, least := g.raft.Status().Progress, to
	for _, r := range sorted(g.behind) {
		b, p := g.behind[r], progress[uint64(r)]
		switch {
		case p.Match >= to && p.Match >= b.match:
			delete(g.behind, r)
		case p.Match > b.match:
			b.match, b.quiet = p.Match, 0
			fallthrough
		default:
			least = min(least, b.match)
		}
	}
	return least
}

// waits counts how long nothing was heard of replicas that are behind, and does not wait for ever.
func (g *group) waits(ticks int) {
	for r, b := range g.behind {
		if b.quiet++; g.out[r] != nil {
			b.quiet = 0
		}
		if b.quiet > ticks {
			delete(g.behind, r)
		}
	}
}
