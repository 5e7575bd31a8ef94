package consumer

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"

	"headrace/stream/protocol"
)

// scan reads all records.
func scan(t testing.TB, d *dealer, r Records) ([]string, error) {
	t.Helper()
	r.Client = dial(t, d.listen(), Options{})
	defer r.Client.Close()
	var got []string
	for r.Scan(testContext(t)) {
		got = append(got, string(r.Record()))
	}
	return got, r.Err()
}

func TestRecords(t *testing.T) {
	long := strings.Repeat("long ", 50000)
	for name, c := range map[string]struct {
		delimiter string
		records   Records
		units     []testUnit
		want      []string
		err       error
	}{
		"lines": {"\n", Records{}, []testUnit{{data: []byte("a\n\nbc\n")}, {}, {data: []byte("d\n")}},
			[]string{"a", "", "bc", "d"}, nil},
		"the last lacks its delimiter": {"\n", Records{}, []testUnit{{data: []byte("a\nb"), unterminated: true}, {data: []byte("c\n")}},
			[]string{"a", "b", "c"}, nil},
		"a long delimiter": {"--", Records{}, []testUnit{{data: []byte("a-b--c---d--"), piece: 1}, {data: []byte("-"), unterminated: true}},
			[]string{"a-b", "c", "-d", "-"}, nil},
		"long records": {"\n", Records{}, []testUnit{{data: []byte("x\n" + long + "\ny\n")}},
			[]string{"x", long, "y"}, nil},
		"too long": {"\n", Records{Max: 100000}, []testUnit{{data: []byte("x\n" + long + "\ny\n")}},
			[]string{"x"}, ErrTooLong},
		"fixed size": {"", Records{Size: 3}, []testUnit{{data: []byte("abcdef"), piece: 2}, {data: []byte("ghi")}},
			[]string{"abc", "def", "ghi"}, nil},
		"fixed size, cut": {"", Records{Size: 3}, []testUnit{{data: []byte("abcde")}},
			[]string{"abc"}, ErrCutRecord},
		"gzip": {"\n", Records{}, []testUnit{{codec: protocol.Gzip, data: gzipped(t, "", []byte("a\nb"))}, {data: []byte("c\n")}},
			[]string{"a", "b", "c"}, nil},
		"zstd": {"\n", Records{}, []testUnit{{codec: protocol.Zstd, data: zstded(t, []byte("a\nb\n"))}, {data: []byte("c\n")}},
			[]string{"a", "b", "c"}, nil},
		"damaged": {"\n", Records{}, []testUnit{{data: []byte("a\n")}, {codec: protocol.Gzip, data: []byte("this is not gzip")}},
			[]string{"a"}, gzip.ErrHeader},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDealer(t, c.units...)
			d.delimiter = c.delimiter
			got, err := scan(t, d, c.records)
			if !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
				t.Errorf("%d records %.60q, %v; want %.60q, %v", len(got), got, err, c.want, c.err)
			}
		})
	}
}

// Without a delimiter and a size, whatever comes at once is a record.
func TestRecordsRaw(t *testing.T) {
	units := someUnits(20)
	d := newDealer(t, units...)
	d.delimiter = ""
	got, err := scan(t, d, Records{})
	if err != nil || strings.Join(got, "") != string(concat(units)) || slices.Contains(got, "") {
		t.Errorf("%d records, %v", len(got), err)
	}
}

// Random records, dealt to several consumers over connections that break, come
// once each.
func TestRecordsProperty(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 99))
		delimiter := []string{"\n", "\r\n", "ab", "aab"}[r.IntN(4)]
		d, want := randomDeal(t, r, delimiter, true)
		d.fault = randomFaults(seed, 30)
		d.listen()
		got := make([][]string, 3)
		var wg sync.WaitGroup
		for i := range got {
			c := dial(t, d, Options{Consumer: uint32(i), Inline: i == 2})
			stop := make(chan bool)
			wg.Go(func() {
				rec := Records{Client: c}
				for rec.Scan(testContext(t)) {
					got[i] = append(got[i], string(rec.Record()))
				}
				if rec.Err() != nil {
					t.Errorf("seed %d: %v", seed, rec.Err())
				} else if err := c.Finish(testContext(t), 0, ""); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				close(stop)
			})
			wg.Go(func() { // somebody else disconnects now and then
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					if n%5 == i {
						c.Disconnect()
						c.Reconnect()
					}
					nap()
				}
			})
		}
		wg.Wait()
		all := slices.Concat(got...)
		slices.Sort(all)
		slices.Sort(want)
		if !slices.Equal(all, want) {
			t.Fatalf("seed %d: %d records came, %d were dealt; they differ", seed, len(all), len(want))
		}
		d.close()
	}
}

// randomDeal makes units of random records, and returns the records.
func randomDeal(t testing.TB, r *rand.Rand, delimiter string, compressed bool) (*dealer, []string) {
	t.Helper()
	var units []testUnit
	var want []string
	for range 20 + r.IntN(30) {
		var b bytes.Buffer
		n := r.IntN(200)
		for range n {
			rec := make([]byte, r.IntN(60))
			for i := range rec {
				rec[i] = "abc\r 0123456789"[r.IntN(15)]
			}
			if r.IntN(300) == 0 {
				rec = bytes.Repeat([]byte("0123456789"), 2000)
			}
			// What would make or end with a delimiter is none.
			s := strings.ReplaceAll(string(rec), delimiter, "")
			s = strings.TrimRight(strings.ReplaceAll(s, delimiter, ""), delimiter)
			want = append(want, s)
			b.WriteString(s + delimiter)
		}
		u := testUnit{path: "/f", data: b.Bytes(), piece: 1 + r.IntN(5000)}
		if n > 0 && r.IntN(3) == 0 && want[len(want)-1] != "" { // an empty last record that lacks its delimiter is none
			u.data, u.unterminated = u.data[:len(u.data)-len(delimiter)], true
		}
		if compressed && r.IntN(4) == 0 {
			u.data, u.codec, u.unterminated = gzipped(t, "", u.data), protocol.Gzip, false
		} else if compressed && r.IntN(4) == 0 {
			u.data, u.codec, u.unterminated = zstded(t, u.data), protocol.Zstd, false
			if len(u.data) == 0 {
				u.codec = protocol.Plain
			}
		}
		units = append(units, u)
	}
	d := newDealer(t, units...)
	d.delimiter, d.window = delimiter, 1+r.IntN(6)
	return d, want
}

// randomFaults breaks about one in n events.
func randomFaults(seed uint64, n int) func(event) action {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 7))
	return func(event) action {
		mu.Lock()
		defer mu.Unlock()
		if r.IntN(n) != 0 {
			return goOn
		}
		return []action{drop, cut, restart}[r.IntN(3)]
	}
}
