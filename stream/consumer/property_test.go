package consumer

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"headrace/stream/protocol"
)

// Random records, dealt to several consumers over connections that break, come
// once each.
func TestClientProperty(t *testing.T) {
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
			c := dial(t, d, Options{Consumer: uint32(i)})
			stop := make(chan bool)
			wg.Go(func() {
				var err error
				if got[i], err = records(testContext(t), c, delimiter); err == nil {
					err = c.Finish(testContext(t), 0, "")
				}
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				close(stop)
			})
			wg.Go(func() { // somebody else disconnects now and then, but not for ever: on a slow machine nothing may come in between
				for n := range 5 * oftenEnough {
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

// records reads all records.
func records(ctx context.Context, c *Client, delimiter string) (all []string, err error) {
	for {
		u, err := c.Next(ctx)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		in, err := u.Open()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(in)
		in.Close()
		if err != nil {
			return nil, err
		}
		of := strings.Split(string(data), delimiter)
		if last := len(of) - 1; of[last] == "" {
			of = of[:last]
		}
		all = append(all, of...)
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
