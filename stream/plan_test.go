package stream

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"headrace/fileset"
	"headrace/stream/protocol"
)

// TestPlanUnits makes plans of random sizes and sees that every unit is found
// again, that units are in order, and that batches keep within their bounds.
func TestPlanUnits(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		m := newMaker(Rule{Split: Lines, Delimiter: []byte("\n")})
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
			if err := m.add(fmt.Sprint(i), fileset.Identity{Size: size}, codec); err != nil {
				t.Fatal(err)
			}
		}
		checkPlan(t, m.p)
	}
}

func checkPlan(t *testing.T, p *plan) {
	t.Helper()
	seen := map[int]int{}
	for id := range p.units {
		f := p.fileOf(id)
		file := &p.files[f]
		if id < file.first || id >= file.first+file.units {
			t.Fatalf("unit %d is said to be of file %d with units %d+%d", id, f, file.first, file.units)
		}
		if file.block > 0 || file.codec != protocol.Plain {
			seen[f]++
			continue
		}
		from, to := p.batch(id)
		bytes, files := int64(0), 0
		for i := from; i < to; i++ {
			if p.files[i].Size > 0 {
				bytes += p.files[i].Size
				files++
				seen[i]++
			}
		}
		if files == 0 || files > batchFiles || bytes > batchBytes && files > 1 {
			t.Fatalf("batch %d has %d files, %d bytes", id, files, bytes)
		}
	}
	for i := range p.files {
		if want := p.files[i].units; seen[i] != int(want) {
			t.Fatalf("file %d (%d bytes) is in %d units, want %d", i, p.files[i].Size, seen[i], want)
		}
	}
}

func TestPlanOnDisk(t *testing.T) {
	m := newMaker(Rule{Split: Lines, Delimiter: []byte("x\x00y")})
	for i, size := range []int64{0, 10, 300 << 10, 20 << 20, 5, 0, 7} {
		if err := m.add(fmt.Sprintf("/a\n\xff\xc3\xa4 %d", i), fileset.Identity{Dev: 1, Ino: uint64(i), Size: size, Mtime: 99}, protocol.Codec(i%2)); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	spec := Spec{ID: "s", Rule: m.p.rule, Consumers: 3}
	if err := writePlan(dir, &spec, m.p); err != nil {
		t.Fatal(err)
	}
	back, p, err := readPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(*back) != fmt.Sprint(spec) || fmt.Sprint(p.files, p.starts, p.units, p.bytes) != fmt.Sprint(m.p.files, m.p.starts, m.p.units, m.p.bytes) {
		t.Errorf("%v %v became %v %v", spec, m.p, *back, p)
	}
	if err := os.WriteFile(filepath.Join(dir, planName), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readPlan(dir); err == nil {
		t.Error("rubbish was read as a plan")
	}
}
