package stream

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"headrace/fileset"
	"headrace/stream/deal"
	"headrace/stream/protocol"
)

func TestJournalRoundTrip(t *testing.T) {
	dir := t.TempDir()
	j, entries, err := openJournal(dir)
	if err != nil || len(entries) != 0 {
		t.Fatal(entries, err)
	}
	want := []deal.Entry{
		{Kind: deal.Attached, Consumer: 1, Attempt: 1},
		{Kind: deal.Left, Consumer: 1, Attempt: 1, Units: []uint32{5, 3, deal.MaxUnits, 0}},
		{Kind: deal.Finished, Consumer: 7, Attempt: 2, Code: -1, Units: []uint32{1}},
		{Kind: deal.Failed, Consumer: 1, Attempt: 4},
	}
	var ends []int
	for _, e := range want {
		if err := j.write(&e); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int(j.size))
	}
	j.f.Close()
	path := filepath.Join(dir, journalName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Torn anywhere, it has the entries that were whole, and goes on behind them.
	for cut := len(whole); cut >= 0; cut-- {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, entries, err := openJournal(dir)
		if err != nil {
			t.Fatal(cut, err)
		}
		n := 0
		for n < len(ends) && ends[n] <= cut {
			n++
		}
		if !reflect.DeepEqual(entries, folded(want[:n]...)) {
			t.Fatalf("%d bytes: %v", cut, entries)
		}
		if err := j.write(&want[0]); err != nil {
			t.Fatal(err)
		}
		j.f.Close()
		_, entries, err = openJournal(dir)
		if err != nil || !reflect.DeepEqual(entries, folded(append(slices.Clone(want[:n]), want[0])...)) {
			t.Fatalf("%d bytes, then one more: %v %v", cut, entries, err)
		}
	}
}

// folded is what a journal with these entries is read as.
func folded(entries ...deal.Entry) []*deal.Entry {
	var f deal.Fold
	for _, e := range entries {
		f.Add(e)
	}
	return f.Entries()
}

// TestJournalStaysSmall has a consumer that comes and goes with a long list.
func TestJournalStaysSmall(t *testing.T) {
	j, _, err := openJournal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { j.f.Close() }()
	s := &stream{common: &common{}, journal: j}
	units := make([]uint32, 100_000)
	for i := range units {
		units[i] = uint32(i)
	}
	left := deal.Entry{Kind: deal.Left, Consumer: 3, Attempt: 1, Units: units}
	for range 50 {
		if err := s.write(func() *deal.Entry { return &left }); err != nil {
			t.Fatal(err)
		}
	}
	one := int64(len(left.Encode()))
	if st, err := os.Stat(j.path); err != nil || st.Size() != j.size || st.Size() > 3*one+foldAfter {
		t.Errorf("the journal has %v bytes, %d as it takes it, one entry has %d: %v", st.Size(), j.size, one, err)
	}
	if _, entries, err := openJournal(filepath.Dir(j.path)); err != nil || !reflect.DeepEqual(entries, folded(left)) {
		t.Errorf("%d entries came back, %v", len(entries), err)
	}
}

func TestPlanOnDisk(t *testing.T) {
	m := &deal.Plan{Rule: deal.Rule{Split: deal.Lines, Delimiter: []byte("x\x00y")}}
	for i, size := range []int64{0, 10, 300 << 10, 20 << 20, 5, 0, 7} {
		if err := m.Add(fmt.Sprintf("/a\n\xff\xc3\xa4 %d", i), fileset.Identity{Dev: 1, Ino: uint64(i), Size: size, Mtime: 99}, protocol.Codec(i%2)); err != nil {
			t.Fatal(err)
		}
		m.Files[i].End = uint64(i) << 60
	}
	dir := t.TempDir()
	spec := Spec{ID: "s", Rule: m.Rule, Consumers: 3}
	if err := writePlan(dir, &spec, m); err != nil {
		t.Fatal(err)
	}
	back, p, err := readPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(*back) != fmt.Sprint(spec) || !reflect.DeepEqual(p, m) {
		t.Errorf("%v %v became %v %v", spec, m, *back, p)
	}
	if err := os.WriteFile(filepath.Join(dir, planName), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readPlan(dir); err == nil {
		t.Error("rubbish was read as a plan")
	}
}

// TestTornEntry: what was written of an entry, and could not be cut off either, is cut off before the next one.
func TestTornEntry(t *testing.T) {
	dir := t.TempDir()
	j, _, err := openJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.write(&deal.Entry{Kind: deal.Attached, Attempt: 1}); err != nil {
		t.Fatal(err)
	}
	good := j.f
	defer good.Close()
	broken, err := os.Open(j.path) // neither written nor cut
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	j.f = broken
	if err := j.write(&deal.Entry{Kind: deal.Attached, Attempt: 2}); err == nil {
		t.Fatal("no error")
	}
	j.f = good
	if _, err := good.Write(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if err := j.write(&deal.Entry{Kind: deal.Attached, Attempt: 3}); err != nil {
		t.Fatal(err)
	}
	again, entries, err := openJournal(dir)
	if err != nil || len(entries) == 0 || entries[len(entries)-1].Attempt != 3 {
		t.Fatalf("%+v, %v", entries, err)
	}
	again.f.Close()
}
