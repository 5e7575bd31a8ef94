package policy

import (
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
		{Config{Doubling: 0.1}, "double every 0.1 steps"},
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
	want := Config{Cost, "", 5 * time.Second, 10 * time.Minute, false, 6, 0.1, 1}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	none := Config{MinRun: None, Ageing: None, reserve: -1, overlap: -1, Doubling: -1}.resolved()
	if (none != Config{Policy: Cost}) {
		t.Errorf("negative values are not zero: %+v", none)
	}
	for _, n := range Names() {
		if err := (Config{Policy: n, VictimOrder: Config{Policy: n}.resolved().VictimOrder}).Validate(); err != nil {
			t.Errorf("%s: %v", n, err)
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
