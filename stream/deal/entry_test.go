package deal

import (
	"bytes"
	"testing"
)

func FuzzJournal(f *testing.F) {
	for _, e := range []Entry{{Kind: Attached}, {Kind: Left, Units: []uint32{1, 2, 9}}} {
		f.Add(e.Encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, size, err := ReadEntries(bytes.NewReader(b))
		if size > int64(len(b)) {
			t.Fatal("longer than what there is")
		}
		if err != nil {
			return
		}
		var again []byte
		for i := range entries {
			again = append(again, entries[i].Encode()...)
		}
		back, _, err := ReadEntries(bytes.NewReader(again))
		if err != nil || len(back) != len(entries) {
			t.Fatalf("%v became %v, %v", entries, back, err)
		}
	})
}
