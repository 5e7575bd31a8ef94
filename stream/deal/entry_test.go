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
		entries, size, err := read(b)
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
		back, _, err := read(again)
		if err != nil || len(back) != len(entries) {
			t.Fatalf("%v became %v, %v", entries, back, err)
		}
	})
}

func read(b []byte) (entries []Entry, size int64, err error) {
	size, err = ReadEntries(bytes.NewReader(b), func(e Entry) { entries = append(entries, e) })
	return entries, size, err
}

// TestDamagedJournal: what is torn at the end is passed over, what is damaged before
// entries that were acknowledged is not.
func TestDamagedJournal(t *testing.T) {
	first := (&Entry{Kind: Finished, Units: []uint32{1, 2}}).Encode()
	both := append(bytes.Clone(first), (&Entry{Kind: Attached, Attempt: 2}).Encode()...)
	for name, c := range map[string]struct {
		journal []byte
		whole   int // entries
		err     error
	}{
		"whole":                        {both, 2, nil},
		"torn":                         {both[:len(both)-1], 1, nil},
		"the last is damaged":          {flip(both, len(both)-1), 1, nil},
		"the first is damaged":         {flip(both, len(first)-1), 0, ErrJournal},
		"zeros behind":                 {append(bytes.Clone(both), make([]byte, 100)...), 2, nil},
		"zeros in place of the last":   {append(bytes.Clone(first), make([]byte, 15)...), 1, nil},
		"zeros in place of the first":  {append(make([]byte, len(first)), both[len(first):]...), 0, ErrJournal},
		"a damaged one, then zeros":    {append(flip(both, len(both)-1), make([]byte, 100)...), 1, nil},
		"nothing of its contents came": {make([]byte, 4096), 0, nil},
	} {
		entries, _, err := read(c.journal)
		if len(entries) != c.whole || err != c.err {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
	}
}

func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}
