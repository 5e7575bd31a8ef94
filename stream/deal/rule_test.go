package deal

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// oracleStarts returns all places where a record may start, found the slow way: the
// beginning, and behind every delimiter, wherever it is.
func oracleStarts(r Rule, data []byte) map[int]bool {
	starts := map[int]bool{0: true, len(data): true}
	for i := range data {
		switch r.Split {
		case Raw:
			starts[i] = true
		case Fixed:
			if int64(i)%r.Size == 0 {
				starts[i] = true
			}
		case Lines:
			if i >= len(r.Delimiter) && bytes.Equal(data[i-len(r.Delimiter):i], r.Delimiter) {
				starts[i] = true
			}
		}
	}
	return starts
}

// TestCut cuts random data at random places and compares with the first start
// that the oracle knows.
func TestCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	rules := []Rule{
		{Split: Raw}, {Split: Fixed, Size: 1}, {Split: Fixed, Size: 7}, {Split: Fixed, Size: 40},
		{Split: Lines, Delimiter: []byte("\n")}, {Split: Lines, Delimiter: []byte("ab")},
		{Split: Lines, Delimiter: []byte("aab")}, {Split: Lines, Delimiter: []byte("\n\n")},
		{Split: Lines, Delimiter: []byte("abcabd")},
	}
	for range 20000 {
		r := rules[rng.IntN(len(rules))]
		data := make([]byte, rng.IntN(60))
		for i := range data {
			data[i] = "aab\ncd"[rng.IntN(6)]
		}
		if len(data) == 0 {
			continue
		}
		off := rng.IntN(len(data))
		n := rng.IntN(len(data) - off + 1)
		got := r.Cut(int64(off), data[max(0, off-r.Context()):off], data[off:off+n])
		want := -1
		starts := oracleStarts(r, append(bytes.Clone(data), 0))
		for i := off; i <= off+n; i++ {
			if starts[i] {
				want = i - off
				break
			}
		}
		if r.Split == Raw || off == 0 {
			want = 0
		}
		if got != want {
			t.Fatalf("%v: cut %q at %d, %d bytes: got %d, want %d", r, data, off, n, got, want)
		}
	}
}

func TestRuleCheck(t *testing.T) {
	for _, c := range []struct {
		r  Rule
		ok bool
	}{
		{Rule{Split: Lines, Delimiter: []byte("\n")}, true}, {Rule{Split: Lines}, false},
		{Rule{Split: Lines, Delimiter: make([]byte, MaxDelimiter+1)}, false},
		{Rule{Split: Fixed, Size: 1}, true}, {Rule{Split: Fixed}, false}, {Rule{Split: Fixed, Size: -3}, false},
		{Rule{Split: Raw}, true}, {Rule{Split: Files}, true}, {Rule{}, false}, {Rule{Split: "words"}, false},
	} {
		if err := c.r.Check(); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.r, err)
		}
	}
}
