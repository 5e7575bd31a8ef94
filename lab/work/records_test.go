package work

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestHexDigits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range 20000 {
		v := rnd.Uint32()
		if i < 1000 {
			v = uint32(i)
		}
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], hexDigits(v))
		if want := fmt.Sprintf("%08x", v); string(b[:]) != want {
			t.Fatalf("%d: %q, want %q", v, b, want)
		}
		if got, ok := hexNumber(binary.BigEndian.Uint64(b[:])); !ok || got != v {
			t.Fatalf("%s: %d, %v", b, got, ok)
		}
		// One other byte makes it no number, or another one.
		at, other := rnd.IntN(8), byte(rnd.UintN(256))
		was := b[at]
		if b[at] = other; other == was {
			continue
		}
		var want uint32
		n, err := fmt.Sscanf(string(b[:]), "%08x", &want)
		good := n == 1 && err == nil && strings.Trim(string(b[:]), "0123456789abcdef") == ""
		if got, ok := hexNumber(binary.BigEndian.Uint64(b[:])); ok != good || ok && got != want {
			t.Fatalf("%q: %d, %v, want %d, %v", b, got, ok, want, good)
		}
	}
}

// makeTestRecords writes records to a file of its own.
func makeTestRecords(t *testing.T, bytes int64, first uint32) (string, Tally) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "records")
	all, err := WriteRecords(path, bytes, first)
	if err != nil {
		t.Fatal(err)
	}
	return path, all
}

func TestRecordsAreLines(t *testing.T) {
	path, all := makeTestRecords(t, 2345678, 4000000000)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want Tally
	lines := strings.SplitAfter(string(text), "\n")
	last := ""
	for _, line := range lines[:len(lines)-1] {
		var number uint64
		if _, err := fmt.Sscanf(line, "%08x", &number); err != nil || len(line) != RecordBytes {
			t.Fatalf("line %d is %q", want.Records, line)
		}
		if number != 4000000000+want.Records {
			t.Fatalf("line %d has the number %d", want.Records, number)
		}
		if line[8:] == last {
			t.Fatalf("line %d has the text of the one before", want.Records)
		}
		last = line[8:]
		want.Records, want.Sum, want.Squares = want.Records+1, want.Sum+number, want.Squares+number*number
	}
	if rest := lines[len(lines)-1]; rest != "" || all != want || want.Records != 23456 {
		t.Errorf("%+v, want %+v; behind the last line: %q", all, want, rest)
	}
}

// However the text is cut, the same is found.
func TestRecordReader(t *testing.T) {
	path, all := makeTestRecords(t, 300000, 7)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(2, 2))
	for range 50 {
		r, left := &recordReader{}, text
		for most := 1 + rnd.IntN(1000); len(left) > 0; {
			n := min(rnd.IntN(most+1), len(left))
			if _, err := r.Write(left[:n]); err != nil {
				t.Fatal(err)
			}
			left = left[n:]
		}
		if err := r.end(); err != nil || r.found != all {
			t.Fatalf("%+v, %v, want %+v", r.found, err, all)
		}
	}
	for what, broken := range map[string][]byte{
		"cut at the end":   text[:len(text)-1],
		"a byte too many":  append(bytes.Clone(text), 'x'),
		"a byte is gone":   append(bytes.Clone(text[:500]), text[501:]...),
		"no number":        append([]byte("0000g000"), text[8:]...),
		"no end of a line": bytes.Replace(text, []byte("\n"), []byte("."), 1),
	} {
		r := &recordReader{}
		_, err := io.Copy(struct{ io.Writer }{r}, bytes.NewReader(broken))
		if err == nil {
			err = r.end()
		}
		if err == nil {
			t.Errorf("%s: nothing noticed", what)
		}
	}
}

// A record that is missing, doubled or another one changes the tally.
func TestTallyNotices(t *testing.T) {
	numbers := []uint64{3, 4, 5, 6, 7, 8}
	sum := func(numbers ...uint64) (all Tally) {
		for _, n := range numbers {
			all.add(n)
		}
		return all
	}
	all := sum(numbers...)
	for _, other := range [][]uint64{{3, 4, 5, 6, 7}, {3, 4, 5, 6, 7, 8, 8}, {3, 4, 5, 5, 8, 8}, {4, 4, 4, 6, 7, 8}, {3, 3, 6, 6, 7, 8}} {
		if sum(other...) == all {
			t.Errorf("%v has the same tally as %v", other, numbers)
		}
	}
	if got := sum(8, 3, 5).Plus(sum(4, 7, 6)); got != all {
		t.Errorf("in two parts and another order: %+v, want %+v", got, all)
	}
}

// The regions of a file, whatever their size, have every record once.
func TestRegionsShareTheRecords(t *testing.T) {
	for _, size := range []int64{0, 100, 200, 12300, 1000000} {
		for _, region := range []int64{1, 99, 100, 101, 1 << 10, 1 << 20} {
			if size/region > 20000 {
				continue
			}
			end := int64(0)
			for from := int64(0); from < size; from += region {
				b, e := recordsOf(from, region, size)
				if b != end || e < b || b%RecordBytes != 0 || e%RecordBytes != 0 || e > size {
					t.Fatalf("%d bytes in regions of %d: [%d, %d) after %d", size, region, b, e, end)
				}
				end = e
			}
			if end != size {
				t.Errorf("%d bytes in regions of %d end at %d", size, region, end)
			}
		}
	}
}

func TestConsumerOfARegion(t *testing.T) {
	path, all := makeTestRecords(t, 500000, 0)
	var k kind
	for _, known := range kinds {
		if known.name == "consume" {
			k = known
		}
	}
	var got Tally
	for _, args := range [][]string{{"-length", "123457"}, {"-from", "123457", "-length", "400000"}} {
		var out bytes.Buffer
		text, err := capture(t, func() error { return runTask(k, append([]string{"-file", path}, args...), &out) })
		if err != nil {
			t.Fatal(err)
		}
		told, err := ConsumedOf(text)
		if err != nil {
			t.Fatal(err)
		}
		if told.Began <= 0 || told.Ended < told.Began || told.CPU <= 0 {
			t.Errorf("%+v", told)
		}
		if want := Answer("consume", told.sum()); LastOf(out.String()) != want {
			t.Errorf("the last line is %q, want %q", out.String(), want)
		}
		got = got.Plus(told.Tally)
	}
	if got != all {
		t.Errorf("both regions have %+v, want %+v", got, all)
	}
}

// capture returns what f writes to standard output.
func capture(t *testing.T, f func() error) (string, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stdout
	os.Stdout = w
	err = f()
	os.Stdout = old
	w.Close()
	text, _ := io.ReadAll(r)
	r.Close()
	return string(text), err
}

func TestConsumerTells(t *testing.T) {
	want := Consumed{Tally: Tally{1, 1 << 63, 3}, Began: 1234567.000001, Ended: 1234568.5, CPU: 0.25}
	if got, err := ConsumedOf("words before\n" + want.String() + "\nconsume 0123\n"); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, text := range []string{"", "consumed 1 2 3", "consumed 1 2 3 4 5 x", "consumed -1 2 3 4 5 6"} {
		if got, err := ConsumedOf(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// A slow consumer takes its time, the others do not.
func TestSlowConsumer(t *testing.T) {
	const bytes = 20000
	for _, c := range []struct {
		number, own string
		rate        Size // at which it would take a tenth of a second, or hours
		slow        bool
	}{{"", "", 200000, true}, {"0", "0", 200000, true}, {"0", "1", 1, false}, {"0", "", 1, false}} {
		t.Setenv("HEADRACE_CONSUMER", c.own)
		taken := 0
		to := (&consume{slow: c.rate, slowNumber: c.number}).brake(writerFunc(func(b []byte) (int, error) {
			taken += len(b)
			return len(b), nil
		}))
		start := time.Now()
		for range 10 {
			if _, err := to.Write(make([]byte, bytes/10)); err != nil {
				t.Fatal(err)
			}
		}
		took := time.Since(start).Seconds()
		if slow := took >= bytes/float64(c.rate); slow != c.slow || taken != bytes {
			t.Errorf("number %q of %q: %d bytes in %.3f s", c.number, c.own, taken, took)
		}
	}
}
