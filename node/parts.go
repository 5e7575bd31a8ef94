package node

import "headrace/wire"

// mostBlocks is how many blocks one request tells of: a few megabytes.
const mostBlocks = 200_000

// inParts divides a report into requests of at most so many blocks.
func inParts(q *wire.ExchangeRequest, most int) (parts []*wire.ExchangeRequest) {
	resident, kept := q.Resident, q.Kept
	q.Resident, q.Kept = nil, nil
	parts, room := []*wire.ExchangeRequest{q}, most
	// each calls do with pieces of n blocks that fit into the last part.
	each := func(n int, do func(p *wire.ExchangeRequest, from, to int)) {
		for from := 0; from < n; {
			if room == 0 {
				last := parts[len(parts)-1]
				last.More, room = true, most
				parts = append(parts, &wire.ExchangeRequest{
					Node: q.Node, Session: q.Session, Full: q.Full, Watched: q.Watched, Ordered: q.Ordered, Wait: q.Wait,
					Budget: q.Budget, Speed: q.Speed, Report: q.Report, Unseen: q.Unseen, Part: last.Part + 1,
				})
			}
			to := min(n, from+room)
			do(parts[len(parts)-1], from, to)
			room, from = room-(to-from), to
		}
	}
	some := func(l *wire.BlockList, from, to int) *wire.BlockList {
		return &wire.BlockList{Pool: l.Pool, Numbers: l.Numbers[from:to]}
	}
	for _, m := range resident {
		each(len(m.Blocks.Numbers), func(p *wire.ExchangeRequest, from, to int) {
			p.Resident = append(p.Resident, &wire.BlocksInMemory{
				Blocks: some(m.Blocks, from, to), Resident: m.Resident[from:to], Bytes: m.Bytes[from:to],
			})
		})
	}
	for _, k := range kept {
		b := k.Blocks
		each(len(b.Blocks.Numbers), func(p *wire.ExchangeRequest, from, to int) {
			p.Kept = append(p.Kept, &wire.KeptBlocks{Job: k.Job, State: k.State, Reason: k.Reason, Blocks: &wire.BlocksToKeep{
				Blocks: some(b.Blocks, from, to), Generations: b.Generations[from:to], Bytes: b.Bytes[from:to], Places: b.Places[from:to],
			}})
		})
	}
	return parts
}
