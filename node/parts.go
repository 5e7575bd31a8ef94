package node

import (
	"google.golang.org/protobuf/proto"

	"headrace/wire"
)

const (
	// mostBlocks is how many blocks one request tells of: a few megabytes.
	mostBlocks = 200_000
	// mostText is how many bytes it has beside the numbers of blocks: names of jobs, and why blocks are not kept. A manager
	// reads messages of 32 MiB.
	mostText = 8 << 20
)

// inParts divides a report into requests of at most so many blocks, and so much text.
func inParts(q *wire.ExchangeRequest, most, text int) (parts []*wire.ExchangeRequest) {
	resident, kept, jobs, reads := q.Resident, q.Kept, q.Jobs, q.Reads
	q.Resident, q.Kept, q.Jobs, q.Reads = nil, nil, nil, nil
	parts, room, rest := []*wire.ExchangeRequest{q}, most, text
	// part returns the last part, or one more, with room for a block or more, and takes room for so much text.
	part := func(size int) *wire.ExchangeRequest {
		last := parts[len(parts)-1]
		if room == 0 || rest < size && rest < text {
			last.More, room, rest = true, most, text
			last = &wire.ExchangeRequest{
				Node: q.Node, Session: q.Session, Full: q.Full, Watched: q.Watched, Ordered: q.Ordered, Wait: q.Wait,
				Budget: q.Budget, Speed: q.Speed, Report: q.Report, Unseen: q.Unseen, Part: last.Part + 1,
			}
			parts = append(parts, last)
		}
		rest -= size
		return last
	}
	// each calls do with pieces of n blocks that fit into the last part, each with so much text.
	each := func(n, size int, do func(p *wire.ExchangeRequest, from, to int)) {
		for from := 0; from < n; {
			p := part(size)
			to := min(n, from+room)
			do(p, from, to)
			room, from = room-(to-from), to
		}
	}
	for _, j := range jobs {
		p := part(sizeOf(j))
		p.Jobs = append(p.Jobs, j)
	}
	for _, r := range reads {
		p := part(sizeOf(r))
		p.Reads = append(p.Reads, r)
	}
	some := func(l *wire.BlockList, from, to int) *wire.BlockList {
		return &wire.BlockList{Pool: l.Pool, Numbers: l.Numbers[from:to]}
	}
	for _, m := range resident {
		each(len(m.Blocks.Numbers), sizeOf(nil, m.Blocks.Pool), func(p *wire.ExchangeRequest, from, to int) {
			p.Resident = append(p.Resident, &wire.BlocksInMemory{
				Blocks: some(m.Blocks, from, to), Resident: m.Resident[from:to], Bytes: m.Bytes[from:to],
			})
		})
	}
	for _, k := range kept {
		b := k.Blocks
		each(len(b.Blocks.Numbers), sizeOf(k.Job, k.Reason, b.Blocks.Pool), func(p *wire.ExchangeRequest, from, to int) {
			p.Kept = append(p.Kept, &wire.KeptBlocks{Job: k.Job, State: k.State, Reason: k.Reason, Blocks: &wire.BlocksToKeep{
				Blocks: some(b.Blocks, from, to), Generations: b.Generations[from:to], Bytes: b.Bytes[from:to], Places: b.Places[from:to],
			}})
		})
	}
	return parts
}

// sizeOf returns about how many bytes a message, or one with it and such texts, is beside the numbers of blocks.
func sizeOf(m proto.Message, texts ...string) int {
	size := 64
	if m != nil {
		size += proto.Size(m)
	}
	for _, t := range texts {
		size += len(t)
	}
	return size
}
