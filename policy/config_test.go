package policy

import (
	"math"
	"strings"
	"testing"
	"time"

	"headrace"
)

func TestValidate(t *testing.T) {
	for _, c := range []Config{
		{}, {Policy: Kill, VictimOrder: LeastWork}, {MinRun: None, Ageing: None}, {Ageing: time.Second},
	} {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, bad := range []struct {
		c    Config
		says string
	}{
		{Config{Policy: "murder"}, `unknown policy "murder": want one of cost, wait, kill, suspend, checkpoint, adaptive`},
		{Config{VictimOrder: "oldest"}, `unknown victim order "oldest": want one of cheapest-checkpoint`},
		{Config{Ageing: time.Millisecond}, "ageing 1ms"},
		{Config{Policy: "murder", Ageing: time.Millisecond}, "ageing 1ms"},
	} {
		if err := bad.c.Validate(); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%+v: %v, want %q", bad.c, err, bad.says)
		}
	}
}

func TestUnknownPolicyPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Decide(headrace.View{}, Config{Policy: "murder"})
}

func TestDefaults(t *testing.T) {
	got := Config{}.resolved()
	want := Config{Cost, SmallestMemory, 5 * time.Second, 10 * time.Minute, false, 0.1, 1, 6, 100}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	none := Config{MinRun: None, Ageing: None, reserve: -1, overlap: -1, doubling: -1, attempts: -1}.resolved()
	if (none != Config{Policy: Cost, VictimOrder: SmallestMemory}) {
		t.Errorf("negative values are not zero: %+v", none)
	}
	for _, n := range Names() {
		if err := (Config{Policy: n, VictimOrder: Config{Policy: n}.resolved().VictimOrder}).Validate(); err != nil {
			t.Errorf("%s: %v", n, err)
		}
	}
}

func TestAged(t *testing.T) {
	for _, x := range []struct {
		ageing, waited time.Duration
		from, to       headrace.Priority
	}{
		{0, 0, 2, 2},
		{0, 10*time.Minute - 1, 2, 2},
		{0, 10 * time.Minute, 2, 3},
		{0, 59 * time.Minute, 2, 7},
		{0, 1000 * time.Hour, 2, 11},
		{0, math.MaxInt64, 0, 11},
		{0, -time.Hour, 4, 4},
		{None, math.MaxInt64, 4, 4},
		{time.Second, math.MaxInt64, 11, 11},
		{0, 0, 200, 11},
	} {
		if got := NewPlanner(Config{Ageing: x.ageing}).ageing.aged(x.from, x.waited); got != x.to {
			t.Errorf("ageing %v: priority %d after %v is %d, want %d", x.ageing, x.from, x.waited, got, x.to)
		}
	}
}

func TestRemaining(t *testing.T) {
	for _, x := range []struct {
		total, running time.Duration
		share          float64
		want           time.Duration
	}{
		{30 * time.Second, 0, 0.5, 30 * time.Second},
		{30 * time.Second, 0, 0.25, 90 * time.Second},
		{30 * time.Second, 0, 1, 0},
		{30 * time.Second, 0, -1, 30 * time.Second},
		{30 * time.Second, 40 * time.Second, 0, 40 * time.Second},
		{0, 0, 0.5, time.Second},
		{0, 0, -1, time.Second},
		{30 * time.Second, 0, 7, 30 * time.Second},
		{30 * time.Second, 0, math.NaN(), 30 * time.Second},
		{time.Hour, 0, 1e-300, time.Duration(math.MaxInt64/int64(time.Second)) * time.Second},
	} {
		v := headrace.TaskView{Running: x.running, Progress: headrace.Progress{TotalWall: x.total, Share: x.share}}
		if got := remaining(&v); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	for _, s := range []string{"", "cost", " KILL ", "murder", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParsePolicy(s)
		if err != nil {
			if n != "" || !strings.Contains(err.Error(), "want one of") {
				t.Errorf("%q: %q, %v", s, n, err)
			}
			return
		}
		if again, err := ParsePolicy(string(n)); err != nil || again != n {
			t.Errorf("%q is %q, which is %q, %v", s, n, again, err)
		}
		if err := (Config{Policy: n}).Validate(); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	})
}

func FuzzParseVictimOrder(f *testing.F) {
	for _, s := range []string{"", "least-work", "Smallest-Memory\n", "oldest"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := ParseVictimOrder(s)
		if err != nil {
			if o != "" || !strings.Contains(err.Error(), "want one of") {
				t.Errorf("%q: %q, %v", s, o, err)
			}
			return
		}
		if again, err := ParseVictimOrder(string(o)); err != nil || again != o {
			t.Errorf("%q is %q, which is %q, %v", s, o, again, err)
		}
	})
}

// FuzzScenario reads scenarios and decides about whatever views they make.
func FuzzScenario(f *testing.F) {
	addScenarios(f)
	f.Fuzz(func(t *testing.T, text string) {
		var s scenario
		for _, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(line, "decide") && len(s.view.Nodes)+len(s.view.Tasks) > 40 {
				return
			}
			if _, err := s.do(line); err != nil {
				continue
			}
			if line == "decide" && sane(&s.view) {
				if err := checkDecision(s.view, s.config, map[string]int{}); err != nil {
					t.Fatalf("%s\n%v", text, err)
				}
			}
		}
	})
}
