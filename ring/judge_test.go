package ring

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// bench is a judge with a clock that the test turns, a second at a time.
type bench struct {
	*testing.T
	table  *Table
	watch  Watch
	now    time.Duration
	beats  map[string]Beat
	silent map[string]bool
	said   map[string][]string
	past   []string // what was decided, with the second
}

func newBench(t *testing.T, nodes ...Node) *bench {
	table, err := New(64, 3, nodes...)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{T: t, table: table, now: time.Hour, beats: map[string]Beat{}, silent: map[string]bool{}, said: map[string][]string{}}
}

// second lets all that are not silent beat, judges, and applies the verdict.
func (b *bench) second() Verdict {
	b.Helper()
	b.now += time.Second
	for _, n := range b.table.Nodes() {
		if !b.silent[n.Name] {
			b.beats[n.Name] = Beat{b.now, b.said[n.Name]}
		}
	}
	var v Verdict
	b.watch, v = DefaultPatience.Judge(b.table, b.watch, b.beats, b.now)
	for _, e := range v.Events {
		next, _, err := b.table.Apply(e)
		if err != nil {
			b.Fatalf("%#v: %v", e, err)
		}
		b.table = next
		b.past = append(b.past, fmt.Sprintf("%d %T %v", b.now/time.Second-3600, e, e))
	}
	return v
}

func (b *bench) run(seconds int) (v Verdict) {
	for range seconds {
		v = b.second()
	}
	return v
}

func (b *bench) want(past ...string) {
	b.Helper()
	if !slices.Equal(b.past, past) {
		b.Errorf("decided %q, want %q", b.past, past)
	}
}

func racked(n, racks int) []Node {
	nodes := names(n)
	for i := range nodes {
		nodes[i].Rack = fmt.Sprint("r", i%racks)
	}
	return nodes
}

func TestJudge(t *testing.T) {
	t.Run("one dies and returns", func(t *testing.T) {
		b := newBench(t, names(5)...)
		b.run(100)
		b.silent["n2"] = true
		b.run(4)
		b.want()
		b.run(596)
		b.silent["n2"] = false
		if v := b.second(); !slices.Equal(v.Returned, []string{"n2"}) {
			t.Errorf("returned: %v", v.Returned)
		}
		b.want("110 ring.Down {n2}", "700 ring.Out {n2}")
	})
	t.Run("evidence", func(t *testing.T) {
		b := newBench(t, names(5)...)
		b.run(100)
		b.silent["n2"] = true
		b.said["n0"] = []string{"n2", "n2", "n1"}
		b.run(5)
		b.want() // one accuser is not enough, however often it says so
		b.said["n4"] = []string{"n2", "n1"}
		b.run(5)
		b.want("106 ring.Down {n2}") // n1 is accused as well, and was heard
	})
	t.Run("who is silent accuses nobody", func(t *testing.T) {
		b := newBench(t, names(5)...)
		b.run(100)
		b.said["n0"], b.said["n1"] = []string{"n2"}, []string{"n2"}
		b.second()
		b.silent["n0"], b.silent["n1"], b.silent["n2"] = true, true, true
		b.run(9)
		b.want()
	})
	t.Run("a judge that begins", func(t *testing.T) {
		b := newBench(t, names(5)...)
		for _, n := range b.table.Nodes() {
			b.beats[n.Name] = Beat{At: time.Minute} // long ago
		}
		b.silent["n1"] = true
		b.run(10)
		b.want()
		b.second()
		b.want("11 ring.Down {n1}")
	})
	t.Run("a judge that stood still", func(t *testing.T) {
		b := newBench(t, names(5)...)
		b.run(100)
		b.silent["n1"], b.silent["n2"] = true, true
		b.run(9)
		b.now += time.Hour
		b.run(10)
		b.want()
		b.now -= 30 * time.Minute
		b.silent["n2"] = false
		b.run(10)
		b.want()
		b.second()
		if len(b.past) != 1 || b.table.nodes[b.table.index("n1")].State != IsDown {
			t.Errorf("decided %v", b.past)
		}
	})
	t.Run("judges that do not last", func(t *testing.T) {
		b := newBench(t, names(5)...)
		b.run(100)
		b.silent["n2"] = true
		for range 8 {
			b.run(60)
			b.now += 10 * time.Second // it stands still
			b.run(30)
			b.watch = DefaultPatience.Follow(b.table, b.watch, b.now) // another one judges
		}
		b.want("110 ring.Down {n2}", "759 ring.Out {n2}")
	})
	t.Run("heard while it is down", func(t *testing.T) {
		b := newBench(t, names(5)...)
		b.run(100)
		b.silent["n2"] = true
		b.run(590)
		b.silent["n2"] = false
		b.second()
		b.silent["n2"] = true
		b.run(590)
		b.want("110 ring.Down {n2}")
		b.run(20)
		b.want("110 ring.Down {n2}", "1291 ring.Out {n2}")
	})
	t.Run("all look dead", func(t *testing.T) {
		b := newBench(t, names(5)...)
		b.run(100)
		for i := range 3 {
			b.silent[fmt.Sprint("n", i)] = true
		}
		if v := b.run(1000); len(v.Held) != 1 {
			t.Errorf("held: %v", v.Held)
		}
		b.want()
		b.silent["n0"] = false // two of five are as many as may be
		b.run(700)
		b.want("1101 ring.Down {n1}", "1101 ring.Down {n2}", "1102 ring.Out {n1}", "1102 ring.Out {n2}")
	})
	t.Run("a rack goes dark", func(t *testing.T) {
		b := newBench(t, racked(9, 3)...)
		b.run(100)
		for _, n := range []string{"n0", "n3", "n6"} {
			b.silent[n] = true
		}
		if v := b.run(2000); len(v.Held) != 3 {
			t.Errorf("held: %v", v.Held)
		}
		if len(b.past) != 3 {
			t.Errorf("decided %v", b.past)
		}
		b.silent["n3"] = false
		b.run(2)
		b.table, _ = apply(t, b.table, Back{Node: "n3"})
		b.run(2)
		if len(b.past) != 5 {
			t.Errorf("with one back the rack is not dark, the others are out: %v", b.past)
		}
	})
	t.Run("one after the other", func(t *testing.T) {
		b := newBench(t, names(10)...)
		b.run(100)
		for i := range 10 {
			b.silent[fmt.Sprint("n", i)] = true
			b.run(1000)
		}
		out := 0
		for _, n := range b.table.Nodes() {
			if n.State == IsOut {
				out++
			}
		}
		if out != 4 {
			t.Errorf("%d of 10 nodes are out, and 4 may be:\n%v", out, b.table.Picture())
		}
	})
}

// TestJudgeIsFair: whatever is heard and however the clock runs, nobody is dead who was
// heard within the time, nor before the judge has listened for so long.
func TestJudgeIsFair(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	p := DefaultPatience
	decided := 0
	for range 300 {
		table, _ := New(16, 2, racked(1+r.IntN(7), 3)...)
		var w Watch
		now, listened := time.Duration(r.IntN(1e12)), time.Duration(0)
		beats, heard := map[string]Beat{}, map[string]time.Duration{} // heard: how long ago
		bad := r.IntN(3)
		for range 200 {
			step := time.Duration(r.IntN(2500)) * time.Millisecond
			if r.IntN(100) == 0 {
				step = time.Duration(r.IntN(int(time.Hour))) - 30*time.Minute
			}
			now += step
			if step < 0 || step > p.Stall {
				listened = 0
			} else {
				listened += step
			}
			for i, n := range table.Nodes() {
				heard[n.Name] += max(0, step)
				if r.IntN(4) > 0 && i%3 >= bad {
					beats[n.Name], heard[n.Name] = Beat{At: now}, 0
				}
			}
			var v Verdict
			w, v = p.Judge(table, w, beats, now)
			for _, e := range v.Events {
				decided++
				name, least := "", p.Down
				switch e := e.(type) {
				case Down:
					name = e.Node
				case Out:
					name, least = e.Node, p.Out
				}
				if listened < least || heard[name] < least {
					t.Fatalf("%#v, which was heard %v ago, by a judge that listens for %v", e, heard[name], listened)
				}
				next, _, err := table.Apply(e)
				if err != nil {
					t.Fatal(err)
				}
				table = next
			}
		}
	}
	if decided < 100 {
		t.Errorf("only %d were decided", decided)
	}
}
