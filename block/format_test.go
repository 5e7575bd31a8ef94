package block

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestLayout(t *testing.T) {
	for _, piece := range []int64{2 * page, 3 * page, Piece} {
		l := layout{piece}
		if piece == Piece && l.sums() != 64<<10 {
			t.Errorf("checksums of a piece take %d", l.sums())
		}
		for _, capacity := range []int64{0, 1, Chunk, piece - 1, piece, piece + 1, 5*piece + 100} {
			end := int64(headerSize)
			for at := int64(0); at < capacity; at = l.pieceEnd(at) {
				n := min(piece, capacity-at)
				last := l.sumAt(at+n-1) + SumSize
				if l.sumAt(at) != end || last > l.dataAt(at) || l.dataAt(at)%page != 0 || l.dataAt(at+n-1)-l.dataAt(at) != n-1 {
					t.Fatalf("piece %d, capacity %d: at %d checksums %d to %d, data %d", piece, capacity, at, l.sumAt(at), last, l.dataAt(at))
				}
				end = l.dataAt(at) + n
			}
			if got := l.size(capacity); got < end || got >= end+page && capacity > 0 || got%page != 0 {
				t.Errorf("piece %d: a region for %d takes %d, and %d are used", piece, capacity, got, end)
			}
		}
	}
}

func someHeader(r *rand.Rand) header {
	h := header{seq: r.Uint64(), file: r.Uint64(), offset: r.Int64N(1<<30) * page, block: r.Int64(), stamp: r.Uint64(), fence: r.Uint64(),
		capacity: r.Int64N(maxCapacity), kind: kind(1 + r.IntN(4)), since: r.Uint64()}
	h.disk[r.IntN(16)] = byte(r.Uint32())
	for _, m := range []*mark{&h.mark, &h.durable, &h.settled} {
		*m = mark{r.Int64N(h.capacity + 1), r.Uint32()}
	}
	return h
}

func TestHeader(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		h := someHeader(r)
		b := h.append(nil)
		if got, err := parseHeader(b); err != nil || got != h || len(b) != headerLen {
			t.Fatalf("%+v became %+v, %v", h, got, err)
		}
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		if _, err := parseHeader(b); err == nil {
			t.Fatal("a flipped bit was not found")
		}
		next := someHeader(r)
		next.seq = h.seq + 1
		if next.seq == 0 {
			continue
		}
		p := make([]byte, page)
		copy(p[h.slot():], h.append(nil))
		copy(p[next.slot():], next.append(nil))
		if got, err := newest(p); err != nil || got != next {
			t.Fatalf("of %d and %d the newer is %d, %v", h.seq, next.seq, got.seq, err)
		}
		p[next.slot()+int64(r.IntN(headerLen))] ^= 4
		if got, err := newest(p); err != nil || got != h {
			t.Fatalf("of %d and a torn %d there is left %d, %v", h.seq, next.seq, got.seq, err)
		}
	}
}

func FuzzHeader(f *testing.F) {
	r := rand.New(rand.NewPCG(2, 1))
	for range 10 {
		h := someHeader(r)
		f.Add(h.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= headerLen { // the checksum is no hurdle
			b = bytes.Clone(b[:headerLen])
			binary.BigEndian.PutUint32(b[headerLen-4:], sum(b[:headerLen-4]))
		}
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		if h.mark.length > h.capacity || h.offset%page != 0 || (layout{Piece}).size(h.capacity) <= 0 {
			t.Fatalf("%+v", h)
		}
		if again, err := parseHeader(h.append(nil)); err != nil || again != h {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
	})
}

func FuzzIndex(f *testing.F) {
	disk := [16]byte{1, 2, 3}
	r := rand.New(rand.NewPCG(3, 1))
	var body []byte
	for i := range 3 {
		h := someHeader(r)
		h.disk, h.file, h.kind = disk, uint64(i), final
		body = h.append(body)
	}
	head := indexHead{disk, 3, 9}
	whole := append(append(head.record(), body...), forgetRecord(1)...)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(head.record())
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		for c := b; len(c) >= headerLen; c = c[headerLen:] { // checksums are no hurdle
			binary.BigEndian.PutUint32(c[headerLen-4:], sum(c[:headerLen-4]))
		}
		files, _, err := parseIndex(b, disk)
		if err != nil {
			return
		}
		if len(b)%headerLen != 0 {
			t.Fatal("a torn index was taken for a good one")
		}
		for id, hs := range files {
			for _, h := range hs {
				if h.file != id || h.disk != disk || h.kind != final && h.kind != gone {
					t.Fatalf("%+v of file %d", h, id)
				}
			}
		}
	})
}

func TestIndex(t *testing.T) {
	disk := [16]byte{7}
	var body []byte
	for i := range 4 {
		h := header{disk: disk, file: uint64(i / 2), offset: int64(i%2) * page, kind: final}
		body = h.append(body)
	}
	head := indexHead{disk, 4, 42}
	b := append(append(head.record(), body...), forgetRecord(1)...)
	files, scrubbed, err := parseIndex(b, disk)
	if err != nil || scrubbed != 42 || len(files) != 1 || len(files[0]) != 2 {
		t.Errorf("%v, %d, %v", files, scrubbed, err)
	}
	if _, _, err := parseIndex(b, [16]byte{8}); err == nil {
		t.Error("the index of another disk was taken")
	}
	for cut := range b {
		if cut < len(b)-headerLen || cut%headerLen != 0 {
			if _, _, err := parseIndex(b[:cut], disk); err == nil {
				t.Fatalf("%d of %d bytes were taken for an index", cut, len(b))
			}
		}
		c := bytes.Clone(b)
		c[cut] ^= 1
		if _, _, err := parseIndex(c, disk); err == nil {
			t.Fatalf("a flipped bit at %d was not found", cut)
		}
	}
}

// naivePlace says the same as Place in other words: with exact numbers, and by asking of
// each disk whether any other goes before it.
func naivePlace(disks []Room, need int64, keepPercent int64) int {
	spare := func(d Room) *big.Rat {
		s := big.NewRat(d.Free-need, 1)
		return s.Sub(s, big.NewRat(keepPercent*d.Total, 100))
	}
	fits := func(d Room) bool { return !d.Out && spare(d).Sign() >= 0 }
	for i, d := range disks {
		if !fits(d) {
			continue
		}
		best := true
		for j, e := range disks {
			if !fits(e) || i == j {
				continue
			}
			a := new(big.Rat).Quo(spare(d), big.NewRat(int64(d.Writers)+1, 1))
			b := new(big.Rat).Quo(spare(e), big.NewRat(int64(e.Writers)+1, 1))
			if c := a.Cmp(b); c < 0 || c == 0 && j < i {
				best = false
			}
		}
		if best {
			return i
		}
	}
	return -1
}

func TestPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	chosen := map[int]int{}
	for range 20000 {
		disks := make([]Room, r.IntN(5))
		for i := range disks {
			total := r.Int64N(50) * 100
			disks[i] = Room{Out: r.IntN(5) == 0, Total: total, Free: r.Int64N(total + 1), Writers: r.IntN(4)}
		}
		need, percent := r.Int64N(2000), []int64{0, 25, 50}[r.IntN(3)]
		got, want := Place(disks, need, float64(percent)/100), naivePlace(disks, need, percent)
		if got != want {
			t.Fatalf("%+v, need %d, keep %d %%: %d, want %d", disks, need, percent, got, want)
		}
		chosen[got]++
	}
	if len(chosen) < 5 {
		t.Errorf("chosen were only %v", chosen)
	}
	// Of disks of different sizes the same is left to be used.
	disks := []Room{{Total: 1000, Free: 1000}, {Total: 4000, Free: 4000}, {Total: 2000, Free: 1500}}
	for range 500 {
		i := Place(disks, 10, 0.05)
		if i < 0 {
			break
		}
		disks[i].Free -= 10
	}
	for _, d := range disks {
		if left := d.Free - d.Total/20; left < 375 || left > 395 {
			t.Errorf("left are %+v", disks)
		}
	}
}

func TestOrderInAFile(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for range 1000 {
		var queue []*waiter
		for range 1 + r.IntN(8) {
			queue = append(queue, &waiter{off: r.Int64N(100)})
		}
		head := r.Int64N(100)
		// Walking on from head and around meets the right one first.
		want := head
		for {
			met := false
			for _, w := range queue {
				met = met || w.off == want
			}
			if met {
				break
			}
			want = (want + 1) % 100
		}
		if got := queue[nextInOrder(queue, head)].off; got != want {
			t.Fatalf("at %d: %d, want %d", head, got, want)
		}
	}
	if nextInOrder(nil, 0) != -1 {
		t.Error("nobody waits, and somebody is next")
	}
}

func TestExtent(t *testing.T) {
	for _, c := range []struct{ memory, readers, want int64 }{
		{256 << 20, 1, 16 << 20}, {256 << 20, 16, 16 << 20}, {256 << 20, 64, 4 << 20}, {256 << 20, 10000, 1 << 20}, {0, 0, 1 << 20},
	} {
		if got := extent(c.memory, c.readers, Piece); got != c.want {
			t.Errorf("%d bytes for %d readers: %d, want %d", c.memory, c.readers, got, c.want)
		}
	}
}
