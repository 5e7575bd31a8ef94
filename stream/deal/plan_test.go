package deal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"headrace/fileset"
	"headrace/stream/protocol"
)

// TestPlanUnits makes plans of random sizes and sees that every unit is found
// again, that units are in order, and that batches keep within their bounds.
func TestPlanUnits(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		p := &Plan{Rule: Rule{Split: Lines, Delimiter: []byte("\n")}}
		n := rng.IntN(60)
		for i := range n {
			var size int64
			switch rng.IntN(4) {
			case 1:
				size = rng.Int64N(smallFile + 1)
			case 2:
				size = rng.Int64N(100 << 20)
			case 3:
				size = rng.Int64N(1000)
			}
			codec := protocol.Plain
			if rng.IntN(8) == 0 && size > 0 {
				codec = protocol.Gzip
			}
			if err := p.Add(fmt.Sprint(i), fileset.Identity{Size: size}, codec); err != nil {
				t.Fatal(err)
			}
		}
		checkPlan(t, p)
	}
}

func checkPlan(t *testing.T, p *Plan) {
	t.Helper()
	seen := map[int]int{}
	for id := range p.Units {
		f := p.FileOf(id)
		for i := range p.Files {
			if near := p.fileNear(i, id); near != f {
				t.Fatalf("unit %d is said to be of file %d, and near file %d of file %d", id, f, i, near)
			}
		}
		file := &p.Files[f]
		if id < file.First || id >= file.First+file.Units {
			t.Fatalf("unit %d is said to be of file %d with units %d+%d", id, f, file.First, file.Units)
		}
		if file.Block > 0 || file.Codec != protocol.Plain {
			seen[f]++
			continue
		}
		from, to := p.Batch(id)
		bytes, files := int64(0), 0
		for i := from; i < to; i++ {
			if p.Files[i].Size > 0 {
				bytes += p.Files[i].Size
				files++
				seen[i]++
			}
		}
		if files == 0 || files > batchFiles || bytes > batchBytes && files > 1 {
			t.Fatalf("batch %d has %d files, %d bytes", id, files, bytes)
		}
	}
	for i := range p.Files {
		if want := p.Files[i].Units; seen[i] != int(want) {
			t.Fatalf("file %d (%d bytes) is in %d units, want %d", i, p.Files[i].Size, seen[i], want)
		}
	}
}

// TestVeryLargeFiles: a file with holes may have any size. What cannot be dealt in blocks
// is refused, and what is dealt by name is not measured by its size.
func TestVeryLargeFiles(t *testing.T) {
	const most = MaxUnits * MaxBlock
	for _, c := range []struct {
		rule  Rule
		codec protocol.Codec
		size  int64
		units uint32 // 0: refused
	}{
		{Rule{Split: Raw}, protocol.Plain, most, MaxUnits}, {Rule{Split: Raw}, protocol.Plain, most + 1, 0},
		{Rule{Split: Raw}, protocol.Plain, math.MaxInt64 - MaxBlock, 0}, {Rule{Split: Raw}, protocol.Plain, math.MaxInt64, 0},
		{Rule{Split: Raw}, protocol.Gzip, math.MaxInt64, 0}, {Rule{Split: Files}, protocol.Plain, math.MaxInt64, 1},
	} {
		p := &Plan{Rule: c.rule}
		err := p.Add("f", fileset.Identity{Size: c.size}, c.codec)
		if p.Units != c.units || (err == nil) != (c.units > 0) {
			t.Errorf("%v, codec %d, %d bytes: %d units, %v", c.rule, c.codec, c.size, p.Units, err)
		}
	}
	p := &Plan{Rule: Rule{Split: Files}}
	for range 3 {
		if err := p.Add("f", fileset.Identity{Size: math.MaxInt64}, protocol.Plain); err != nil || p.Bytes != math.MaxInt64 {
			t.Errorf("%d bytes in all, %v", p.Bytes, err)
		}
	}
}

// TestMeasure: a list has each unit once, and no more than there are.
func TestMeasure(t *testing.T) {
	p := &Plan{Rule: Rule{Split: Raw}}
	for _, size := range []int64{1 << 20, 1000, 2000} {
		if err := p.Add("f", fileset.Identity{Size: size}, protocol.Plain); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		units []uint32
		want  int64 // -1: an error
	}{
		"nothing": {nil, 0}, "a block and the batch": {[]uint32{p.Units - 1, 0}, 3000 + MinBlock},
		"one twice": {[]uint32{0, 1, 0}, -1}, "one that is not there": {[]uint32{p.Units}, -1},
		"more than there are": {make([]uint32, p.Units+1), -1},
	} {
		n, err := p.Measure(c.units)
		if n != max(0, c.want) || (err != nil) != (c.want < 0) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}
