package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"headrace/wire"
)

// TestParts: parts have at most so many blocks, and together they are the whole, in its order.
func TestParts(t *testing.T) {
	numbers := func(n int) (l []int64) {
		for i := range n {
			l = append(l, int64(i))
		}
		return l
	}
	places := func(n int) (l []uint32) {
		for i := range n {
			l = append(l, uint32(100+i))
		}
		return l
	}
	for _, sizes := range [][2][]int{{}, {{3}, {4}}, {{0, 1, 2}, {0}}, {{10, 1}, {30, 7, 7}}, {{7}, {}}, {{7}, {7}}, {{8}, {}}} {
		whole := &wire.ExchangeRequest{
			Node: "n", Session: 3, Full: true, Hosts: []string{"h"}, Jobs: []*wire.JobFacts{{Input: 1}}, Reads: []*wire.JobReads{{Disk: 1}}, Budget: 5, Speed: 6, Wait: 7, Refusal: "why",
		}
		for pool, n := range sizes[0] {
			whole.Resident = append(whole.Resident, &wire.BlocksInMemory{
				Blocks: &wire.BlockList{Pool: fmt.Sprint(pool), Numbers: numbers(n)}, Resident: numbers(n), Bytes: numbers(n),
			})
		}
		for job, n := range sizes[1] {
			whole.Kept = append(whole.Kept, &wire.KeptBlocks{
				Job: &wire.JobRef{Job: fmt.Sprint(job)}, State: wire.KeptState_KEPT_STATE_PINNED, Reason: "r",
				Blocks: &wire.BlocksToKeep{Blocks: &wire.BlockList{Pool: "p", Numbers: numbers(n)}, Generations: numbers(n), Bytes: numbers(n), Places: places(n)},
			})
		}
		var got []string
		lines := func(q *wire.ExchangeRequest) (all []string) {
			for _, m := range q.Resident {
				for i, n := range m.Blocks.Numbers {
					all = append(all, fmt.Sprint(m.Blocks.Pool, n, m.Resident[i], m.Bytes[i]))
				}
			}
			for _, k := range q.Kept {
				for i, n := range k.Blocks.Blocks.Numbers {
					all = append(all, fmt.Sprint(k.Job.Job, k.State, k.Reason, k.Blocks.Blocks.Pool, n, k.Blocks.Generations[i], k.Blocks.Bytes[i], k.Blocks.Places[i]))
				}
			}
			return all
		}
		want := lines(whole)
		parts := inParts(proto.CloneOf(whole), 7, mostText)
		for i, p := range parts {
			these := lines(p)
			if len(these) > 7 || p.Part != uint32(i) || p.More != (i < len(parts)-1) || !p.Full || p.Session != 3 || p.Node != "n" || p.Budget != 5 || p.Speed != 6 {
				t.Errorf("%v, part %d: %v", sizes, i, p)
			}
			if (i == 0) != (len(p.Hosts)+len(p.Jobs)+len(p.Reads) == 3) {
				t.Errorf("%v, part %d: what is told once: %v", sizes, i, p)
			}
			got = append(got, these...)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(parts) != max(1, (len(want)+6)/7) {
			t.Errorf("%v: %d parts\n%v\n%v", sizes, len(parts), got, want)
		}
	}
}

// TestPartsOfText: what a manager would not read in one message, because of the names of jobs and the reasons, is told in several.
func TestPartsOfText(t *testing.T) {
	const most = 1000
	whole := &wire.ExchangeRequest{Node: "n", Session: 3, Full: true, Hosts: []string{"h"}}
	for i := range 100 {
		job := &wire.JobRef{User: "u", Job: fmt.Sprint("job", i)}
		whole.Jobs = append(whole.Jobs, &wire.JobFacts{Job: job})
		whole.Reads = append(whole.Reads, &wire.JobReads{Job: job, Disk: int64(i)})
		whole.Kept = append(whole.Kept, &wire.KeptBlocks{
			Job: job, State: wire.KeptState_KEPT_STATE_FAILED, Reason: strings.Repeat("r", 300),
			Blocks: &wire.BlocksToKeep{Blocks: &wire.BlockList{Pool: "p", Numbers: []int64{1}}, Generations: []int64{1}, Bytes: []int64{1}, Places: []uint32{1}},
		})
	}
	whole.Kept[50].Reason = strings.Repeat("r", 2*most) // more than there is room for at all
	got := &wire.ExchangeRequest{}
	parts := inParts(proto.CloneOf(whole), mostBlocks, most)
	for i, p := range parts {
		if size := proto.Size(p); size > most+100 && !slices.ContainsFunc(p.Kept, func(k *wire.KeptBlocks) bool { return len(k.Reason) > most }) {
			t.Errorf("part %d has %d bytes", i, size)
		}
		if p.More != (i < len(parts)-1) || p.Part != uint32(i) || p.Session != 3 || !p.Full {
			t.Errorf("part %d: %v", i, p)
		}
		got.Jobs, got.Reads, got.Kept = append(got.Jobs, p.Jobs...), append(got.Reads, p.Reads...), append(got.Kept, p.Kept...)
	}
	if want := (&wire.ExchangeRequest{Jobs: whole.Jobs, Reads: whole.Reads, Kept: whole.Kept}); !proto.Equal(got, want) {
		t.Errorf("together they are %v, want %v", got, want)
	}
}
