package stream

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestJournalRoundTrip(t *testing.T) {
	dir := t.TempDir()
	j, entries, err := openJournal(dir)
	if err != nil || len(entries) != 0 {
		t.Fatal(entries, err)
	}
	want := []entry{
		{verb: attached, consumer: 1, attempt: 1},
		{verb: left, consumer: 1, attempt: 1, units: []uint32{5, 3, maxUnits, 0}},
		{verb: finished, consumer: 7, attempt: 2, code: -1, units: []uint32{1}},
		{verb: failed, consumer: 1, attempt: 4},
	}
	for _, e := range want {
		if err := j.write(e); err != nil {
			t.Fatal(err)
		}
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
		n := len(entries)
		if n > len(want) || n > 0 && !reflect.DeepEqual(entries, want[:n]) || cut == len(whole) && n != len(want) {
			t.Fatalf("%d bytes: %v", cut, entries)
		}
		if err := j.write(want[0]); err != nil {
			t.Fatal(err)
		}
		j.f.Close()
		_, entries, err = openJournal(dir)
		if err != nil || len(entries) != n+1 {
			t.Fatalf("%d bytes, then one more: %v %v", cut, entries, err)
		}
	}
}

func FuzzJournal(f *testing.F) {
	for _, e := range []entry{{verb: attached}, {verb: left, units: []uint32{1, 2, 9}}} {
		f.Add(e.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, size, err := readJournal(bytes.NewReader(b))
		if size > int64(len(b)) {
			t.Fatal("longer than what there is")
		}
		if err != nil {
			return
		}
		var again []byte
		for i := range entries {
			again = append(again, entries[i].encode()...)
		}
		back, _, err := readJournal(bytes.NewReader(again))
		if err != nil || len(back) != len(entries) {
			t.Fatalf("%v became %v, %v", entries, back, err)
		}
	})
}
