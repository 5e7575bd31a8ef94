package prefetch

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	"headrace"
	"headrace/policy/internal/words"
)

// Host is a node of a distributed file system, as far as it matters to where a block is
// read into memory.
type Host struct {
	Name string
	// Away: nothing is heard of it.
	Away bool
	// Queued is how many bytes it will read into memory before.
	Queued int64
	// Room is how many more bytes it may pin, without those that it is going to, and without what is in memory
	// there unpinned for jobs that are served before, and this one.
	Room int64
	// Speed is what its disk reads, in bytes per second; 0: not known.
	Speed float64
	// Reads is how many others read its disk at the moment.
	Reads int
	// Busy: input of the job is being read there, by the job itself or whoever has the same input.
	Busy bool
}

// Copy is a replica of a block.
type Copy struct {
	// Host is an index into what Place was given.
	Host int
	// Resident is how many bytes of it are in memory.
	Resident int64
	// Kept: it is pinned there for another job, or will be.
	Kept bool
	// Own: it takes nothing of what the job's owner may pin, for one of the owner's jobs has it there, or will before.
	Own bool
	// Near: whoever reads the block runs there, as far as is known.
	Near bool
}

// Replicated is a block with its replicas.
type Replicated struct {
	ID    headrace.BlockID
	Bytes int64
	// Busy: somebody is reading it. It counts as in memory when all of it is.
	Busy bool
	// Bound: whoever reads it runs on a node that is there, which need not be among the copies: it may be unable to keep it.
	Bound  bool
	Copies []Copy
}

// InMemory reports whether n bytes of a replica are as good as all of it: half of it or more. Whoever reads it finds these,
// and a node reads what is missing, and nothing besides.
func InMemory(n, bytes int64) bool { return n >= bytes-n }

// Limits are how many more bytes may be pinned for a job, and for all jobs of its owner together; negative: as many as there is room for.
type Limits struct{ Job, Owner int64 }

// fit reports whether a job may pin a block, of which its owner has nothing yet unless own is set.
func (l Limits) fit(bytes int64, own bool) bool {
	return (l.Job < 0 || bytes <= l.Job) && (own || l.Owner < 0 || bytes <= l.Owner)
}

// take takes what fits.
func (l *Limits) take(bytes int64, own bool) {
	if l.Job >= 0 {
		l.Job -= bytes
	}
	if l.Owner >= 0 && !own {
		l.Owner -= bytes
	}
}

// Choice is where a block is to be in memory.
type Choice struct {
	// Do is Migrate, Refer (it is in memory there, or is kept for another job), Wait (it is left to those who read) or Skip.
	Do Do
	// Host is an index into what Place was given; negative if Wait or Skip.
	Host int
	// Done is when it is expected to be in memory, in seconds from now.
	Done float64
	// Reason is for people.
	Reason string
}

// ShareUsed is the reason why a block beyond the limit is kept nowhere.
const ShareUsed = "the share of the memory that its job or its owner may have is used up"

// LeftToReaders is the reason why a block is not read ahead for now.
const LeftToReaders = "it is left to those who read this input now"

// unknownSpeed is that of a hard disk, in bytes per second.
const unknownSpeed = 100e6

// Place chooses for each block of a job which of its replicas is to be in memory: one, for
// others read it over the network (ignem, section III.A.2, where it is one at random). The
// first of these that there is:
//
//   - a replica that is in memory already (InMemory), if several then one that is kept, and of these the one of which most is;
//   - one that is kept, or will be, for another job;
//   - the one that is expected to be read first: bytes that are queued before it and
//     those of it that are not in memory, divided by the speed that the disk has left.
//
// A block of which it is known where its reader runs is read there or nowhere, unless that node is away: the reader would read it
// there once more. So it is where that node has no room for it. Nothing is read that somebody is reading, nor where the job's input is being read: who reads needs the disk more, and would read
// the same block from another replica a moment later.
//
// A block is read only on a node that has room for all of it, and only within the limits. Where the owner has no more, it is still
// shared with another of the owner's jobs. What one block takes,
// the next ones find taken, and what is in memory already takes room as well: what is read besides would drive it out before
// its readers come. Of replicas that are equal in all that the hash of block and
// node decides, so that blocks spread. The time taken is proportional to the number of
// replicas.
//
// It is greedy: it looks at one block after the other, those that are in memory first, then those with the fewest replicas,
// then in the order given. On small random cases the last block is in memory 1.8 % later
// than in the best plan of all, 65 % in the worst case, and a block in the mean 1.4 % and 35 %
// later (TestPlaceAgainstOracle); in the order given alone the last one is 6 % later.
func Place(blocks []Replicated, hosts []Host, most Limits) []Choice {
	p := placing{hosts: append([]Host(nil), hosts...), hash: make([]uint64, len(hosts)), left: most}
	for i := range hosts {
		h := fnv.New64a()
		h.Write([]byte(hosts[i].Name))
		p.hash[i] = h.Sum64()
	}
	choices := make([]Choice, len(blocks))
	order := make([]int, len(blocks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(p.coldness(&blocks[a])-p.coldness(&blocks[b]), len(blocks[a].Copies)-len(blocks[b].Copies))
	})
	for _, i := range order {
		choices[i] = p.place(&blocks[i])
	}
	return choices
}

type placing struct {
	hosts []Host
	hash  []uint64 // of their names
	left  Limits
}

// readable returns the replicas that may be read ahead, as far as it depends on where the block's reader runs.
func (p *placing) readable(b *Replicated) func(Copy) bool {
	near := func(c Copy) bool { return c.Near && !p.hosts[c.Host].Away }
	if b.Bound || slices.ContainsFunc(b.Copies, near) {
		return near
	}
	return func(c Copy) bool { return !p.hosts[c.Host].Away }
}

// place chooses for one block, and takes room for it.
func (p *placing) place(b *Replicated) Choice {
	best, bestRank, bestDone := -1, cannot, 0.0
	readable, own := p.readable(b), p.ownAlone(b)
	for i, c := range b.Copies {
		rank, done := p.rank(b, c)
		if rank == cold && !readable(c) || own && !c.Own && rank != resident {
			rank = cannot
		}
		switch {
		case rank == cannot || rank > bestRank || rank == bestRank && done > bestDone:
		case rank < bestRank, done < bestDone, p.tie(b, c) < p.tie(b, b.Copies[best]):
			best, bestRank, bestDone = i, rank, done
		}
	}
	switch {
	case best >= 0:
	case p.leftToReaders(b):
		return Choice{Do: Wait, Host: -1, Reason: LeftToReaders}
	default:
		return Choice{Do: Skip, Host: -1, Reason: p.why(b)}
	}
	c := b.Copies[best]
	choice := Choice{Do: Refer, Host: c.Host, Done: bestDone}
	switch bestRank {
	case residentKept, kept:
		choice.Reason = "it is kept there for another job"
		return p.charge(b, choice, c, 0)
	case resident:
		p.hosts[c.Host].Room -= b.Bytes
		choice.Reason = "it is in memory there already"
		return choice
	}
	choice.Do, choice.Reason = Migrate, "it is read there first"
	return p.charge(b, choice, c, b.Bytes)
}

// ownAlone reports whether the owner has no share for a block but with another of the owner's jobs.
func (p *placing) ownAlone(b *Replicated) bool {
	return p.left.Owner >= 0 && b.Bytes > p.left.Owner && slices.ContainsFunc(b.Copies, func(c Copy) bool { return c.Own && !p.hosts[c.Host].Away })
}

// The ranks of replicas, best first.
const (
	residentKept = iota
	resident
	kept
	cold
	cannot
)

// rank says how good a replica is, and when it would be in memory.
func (p *placing) rank(b *Replicated, c Copy) (rank int, done float64) {
	h := &p.hosts[c.Host]
	missing := float64(max(0, b.Bytes-c.Resident))
	switch warm := b.warm(c); {
	case h.Away:
		return cannot, 0
	case warm && c.Kept:
		return residentKept, missing / h.speed()
	case warm:
		return resident, missing / h.speed()
	case c.Kept:
		return kept, h.seconds(b.Bytes - c.Resident)
	case h.Room < b.Bytes, h.Busy, b.Busy:
		return cannot, 0
	}
	return cold, h.seconds(b.Bytes - c.Resident)
}

// warm reports whether a replica counts as in memory.
func (b *Replicated) warm(c Copy) bool {
	return c.Resident >= b.Bytes || !b.Busy && InMemory(c.Resident, b.Bytes)
}

// coldness is 0 if a replica of a block is in memory, else 1.
func (p *placing) coldness(b *Replicated) int {
	if slices.ContainsFunc(b.Copies, func(c Copy) bool { return !p.hosts[c.Host].Away && b.warm(c) }) {
		return 0
	}
	return 1
}

// leftToReaders reports whether a block would be read but for those who read.
func (p *placing) leftToReaders(b *Replicated) bool {
	readable := p.readable(b)
	return p.left.fit(b.Bytes, false) && slices.ContainsFunc(b.Copies, func(c Copy) bool {
		h := &p.hosts[c.Host]
		return readable(c) && h.Room >= b.Bytes && (h.Busy || b.Busy)
	})
}

func (h *Host) speed() float64 {
	if h.Speed > 0 {
		return h.Speed
	}
	return unknownSpeed
}

// seconds is how long it takes until n more bytes have been read. Reading ahead gets its share of
// a disk at most: demand goes before it.
func (h *Host) seconds(n int64) float64 {
	return float64(max(0, h.Queued)+max(0, n)) / h.speed() * float64(1+max(0, h.Reads))
}

// tie is smallest where a block goes if all else is equal.
func (p *placing) tie(b *Replicated, c Copy) uint64 {
	x := p.hash[c.Host] ^ uint64(b.ID.Number)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // mixed as in splitmix64
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// charge takes what the choice takes from the limits and, for bytes that are to be pinned,
// from its host, if the limits allow it.
func (p *placing) charge(b *Replicated, choice Choice, c Copy, pin int64) Choice {
	if !p.left.fit(b.Bytes, c.Own) {
		return Choice{Do: Skip, Host: -1, Reason: ShareUsed}
	}
	p.left.take(b.Bytes, c.Own)
	if pin > 0 {
		h := &p.hosts[choice.Host]
		h.Room -= pin
		h.Queued += max(0, b.Bytes-c.Resident)
	}
	return choice
}

// why says why no replica can be chosen.
func (p *placing) why(b *Replicated) string {
	here, most, near := 0, int64(0), false
	readable := p.readable(b)
	for _, c := range b.Copies {
		if readable(c) {
			here, most, near = here+1, max(most, p.hosts[c.Host].Room), c.Near
		}
	}
	switch {
	case len(b.Copies) == 0:
		return "no node that could keep it has a replica"
	case here == 0 && b.Bound:
		return "the node on which it will be read cannot keep it"
	case here == 0:
		return fmt.Sprintf("all %d nodes that have a replica are away", len(b.Copies))
	case near:
		return fmt.Sprintf("the node on which it will be read has no room for %s; it has room for %s", words.Size(b.Bytes), words.Size(most))
	}
	return fmt.Sprintf("no node with a replica has room for %s; the most that one has is %s", words.Size(b.Bytes), words.Size(most))
}
