package simulate

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"headrace/sim"
)

func TestParseGoal(t *testing.T) {
	for text, want := range map[string]goal{
		"production 95% < 10m":   {"production", 0.95, 10 * time.Minute},
		" free 99.5 %<90 ":       {"free", 0.995, 90 * time.Second},
		"middle 100% < 1h30m0s ": {"middle", 1, 90 * time.Minute},
		"middle 99.2% < 1m":      {"middle", 0.995, time.Minute},
		"middle 99.7% < 1m":      {"middle", 1, time.Minute},
	} {
		if got, err := parseGoal(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "production", "urgent 95% < 1m", "production 95 < 1m", "production 0% < 1m", "production 101% < 1m",
		"production 95% < 0", "production 95% < soon", "production 95% > 1m", "production 95% < 1m 2m"} {
		if g, err := parseGoal(bad); err == nil {
			t.Errorf("%q is %+v", bad, g)
		}
	}
}

// clusterOf returns a cluster on which a job takes so many seconds.
func clusterOf(took float64, preemptions int) *sim.Result {
	return &sim.Result{Counts: sim.Counts{Kills: preemptions}, Bands: []sim.Band{{Name: "production", Jobs: 1, Response: sim.Spread{N: 1, At: []float64{took}}}}}
}

// TestLeastNodes: it finds the least number wherever it begins, and does not try many.
func TestLeastNodes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		most := 1 + r.IntN(1000)
		want := r.IntN(most + 1) // 0: none is enough
		flat := 1 + r.IntN(most) // from here on more make no difference
		if want > 0 {
			flat = most + 1
		}
		trials := 0
		s := &search{goal: goal{"production", 0.95, time.Minute}, most: most, tried: map[int]*sim.Result{}}
		s.try = func(n int) (*sim.Result, error) {
			trials++
			if n < 1 || n > most {
				t.Fatalf("tries %d nodes of %d", n, most)
			}
			if want > 0 && n >= want {
				return clusterOf(10, 0), nil
			}
			return clusterOf(1e6-float64(min(n, flat)), 0), nil
		}
		got, err := s.least(r.IntN(2 * most))
		if err != nil || got != want || trials > 24 {
			t.Fatalf("of %d the least is %d: got %d after %d trials, %v", most, want, got, trials, err)
		}
		if s.say(simRun{policy: "cost"}, got) == "" {
			t.Error("nothing is said")
		}
	}
	failing := errors.New("no")
	s := &search{most: 5, tried: map[int]*sim.Result{}, try: func(int) (*sim.Result, error) { return nil, failing }}
	if _, err := s.least(2); err != failing {
		t.Errorf("error %v", err)
	}
}

// TestLeastNodesBehindOthers: that jobs of the band take as long on twice as many nodes does not mean that they run at once: a is on the one,
// b then on the other, and p waits as long as before.
func TestLeastNodesBehindOthers(t *testing.T) {
	s := &search{goal: goal{"production", 0.95, 10 * time.Minute}, most: 3, tried: map[int]*sim.Result{}}
	s.try = func(n int) (*sim.Result, error) {
		r := clusterOf(map[bool]float64{true: 60, false: 3660}[n == 3], 0)
		r.Bands = append(r.Bands, sim.Band{Name: "free", Jobs: 2, TaskResponse: sim.Spread{N: 2, Mean: map[bool]float64{true: 5430, false: 3600}[n == 1]}})
		return r, nil
	}
	if got, err := s.least(1); err != nil || got != 3 {
		t.Errorf("got %d, %v, want 3", got, err)
	}
}

func TestParseKind(t *testing.T) {
	for text, want := range map[string]sim.Kind{
		"20x16:64G":                      {Nodes: 20, CPUs: 16, Memory: 64 << 30},
		" 1x0.5:900M ":                   {Nodes: 1, CPUs: 0.5, Memory: 900 << 20},
		"4x64:256000MB":                  {Nodes: 4, CPUs: 64, Memory: 256e9},
		"8x64:1G:gpu=8:yarn.io/fpga=0.5": {Nodes: 8, CPUs: 64, Memory: 1 << 30, Counted: map[string]float64{"gpu": 8, "yarn.io/fpga": 0.5}},
	} {
		if got, ok := parseKind(text); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
	}
	for _, bad := range []string{"", "x", "20", "20x16", "x16:64G", "0x16:64G", "-1x16:64G", "20x0:64G", "20x16:0", "20x16:-1", "20x16:", "20x:64G", "20x16:64G:1", "20x16:64G:", "20x16:64G:gpu", "20x16:64G:gpu=", "20x16:64G:=1", "20x16:64G:gpu=-1", "20x16:64G:gpu=1:gpu=1", "20x16:64G:gpu=NaN", "1.5x16:64G"} {
		if k, ok := parseKind(bad); ok {
			t.Errorf("%q is %+v", bad, k)
		}
	}
}
