package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"headrace/trace"
)

// pieces says where the bytes of all inputs lie. A piece is a part of a block that
// every task reads as a whole or not at all: files are cut where blocks end, and
// where tasks begin and end to read. It is in memory, or not, as a whole.
type pieces struct {
	seed            uint64
	nodes, replicas int
	block           int64
	all             []piece
	first           []int32 // of each file, and one past the last
}

// piece is a part of a file.
type piece struct {
	file         int32
	start, bytes int64
}

// mostPieces is a bound for the memory that they take: about 3 GB.
const mostPieces = 1 << 26

// cut finds the pieces of what the tasks of w read.
func cut(w *trace.Workload, c Config) (*pieces, error) {
	p := &pieces{seed: c.Seed, nodes: c.Nodes, replicas: min(c.Reading.Replicas, c.Nodes), block: c.Reading.Block}
	cuts, err := p.cuts(w)
	if err != nil {
		return nil, err
	}
	p.first = make([]int32, 1, len(cuts)+1)
	for file, at := range cuts {
		for i := 1; i < len(at); i++ {
			p.all = append(p.all, piece{int32(file), at[i-1], at[i] - at[i-1]})
		}
		p.first = append(p.first, int32(len(p.all)))
	}
	return p, nil
}

var errPieces = fmt.Errorf("sim: the inputs have more than %d blocks: give larger blocks", mostPieces)

// cuts are, for each file, the places at which it is cut, sorted.
func (p *pieces) cuts(w *trace.Workload) ([][]int64, error) {
	cuts := make([][]int64, len(w.Files))
	n := 0
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Input == 0 {
			continue
		}
		if t.File <= 0 || int(t.File) > len(w.Files) || t.Offset < 0 || t.Input < 0 || t.Offset > math.MaxInt64-t.Input-p.block {
			return nil, fmt.Errorf("sim: task %d of the workload, of job %s, reads %d bytes from %d on of file %d, of which there are %d: that cannot be",
				i, w.Jobs[t.Job], t.Input, t.Offset, t.File, len(w.Files))
		}
		if n += int(min(t.Input/p.block, mostPieces)) + 2; n > mostPieces {
			return nil, errPieces
		}
		at, end := cuts[t.File-1], t.Offset+t.Input
		at = append(at, t.Offset)
		for next := (t.Offset/p.block + 1) * p.block; next < end; next += p.block {
			at = append(at, next)
		}
		cuts[t.File-1] = append(at, end)
	}
	for i, at := range cuts {
		slices.Sort(at)
		cuts[i] = slices.Compact(at)
	}
	return cuts, nil
}

// of returns the pieces that a task reads, from the first to before the last.
func (p *pieces) of(t *trace.Task) (first, last int32) {
	return p.at(t.File-1, t.Offset), p.at(t.File-1, t.Offset+t.Input)
}

// at returns the piece that begins at an offset of a file.
func (p *pieces) at(file int32, offset int64) int32 {
	from := p.first[file]
	i, _ := slices.BinarySearchFunc(p.all[from:p.first[file+1]], offset, func(x piece, offset int64) int {
		return cmp.Compare(x.start, offset)
	})
	return from + int32(i)
}

// sameBlock reports whether two pieces of a file are in one block.
func (p *pieces) sameBlock(a, b int32) bool {
	return p.all[a].start/p.block == p.all[b].start/p.block
}

// replicasOf appends the nodes on which a piece lies, as HDFS places blocks that come
// from outside: on nodes chosen at random, no two of them alike.
func (p *pieces) replicasOf(i int32, dst []int32) []int32 {
	h, nodes := p.hash(i), uint64(p.nodes)
	from := len(dst)
	for len(dst) < from+p.replicas {
		n := int32(h % nodes)
		if p.replicas == p.nodes { // everywhere: in order, after the first
			n = int32((h%nodes + uint64(len(dst)-from)) % nodes)
		} else {
			h = mix(h)
		}
		if !slices.Contains(dst[from:], n) {
			dst = append(dst, n)
		}
	}
	return dst
}

// home returns the first of the replicas: the one that is warmed (ignem, section
// III.A.2: one replica, chosen at random).
func (p *pieces) home(i int32) int32 { return int32(p.hash(i) % uint64(p.nodes)) }

func (p *pieces) hash(i int32) uint64 {
	x := &p.all[i]
	return mix(mix(mix(p.seed)+uint64(x.file)) + uint64(x.start/p.block))
}

// mix is SplitMix64 (Steele, Lea and Flood, 2014): a number that looks random.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
