package pagecache

import (
	"errors"
	"os"
	"strings"
	"testing"

	"headrace/internal/linux"
)

func TestSafeBudget(t *testing.T) {
	const gb = 1 << 30
	in := func(limit, left int64) linux.CgroupMemory {
		return linux.CgroupMemory{Dir: "/cg", Limit: limit, Free: left}
	}
	for name, c := range map[string]struct {
		l           Limits
		usual, most int64
		bound       string
	}{
		"no limits":         {Limits{Memory: 16 * gb, Lock: Unlimited}, 4 * gb, 12 * gb, "machine"},
		"roomy cgroup":      {Limits{Memory: 16 * gb, Cgroup: in(64*gb, 60*gb), Lock: Unlimited}, 4 * gb, 12 * gb, "machine"},
		"cgroup":            {Limits{Memory: 16 * gb, Cgroup: in(6*gb, 4*gb), Lock: Unlimited}, 2 * gb, 3 * gb, "/cg"},
		"full cgroup":       {Limits{Memory: 16 * gb, Cgroup: in(6*gb, 0), Lock: Unlimited}, 0, 0, "/cg"},
		"may lock little":   {Limits{Memory: 16 * gb, Lock: 8 << 20}, 8 << 20, 8 << 20, "RLIMIT_MEMLOCK"},
		"may lock nothing":  {Limits{Memory: 16 * gb, Cgroup: in(gb, gb), Lock: 0}, 0, 0, "RLIMIT_MEMLOCK"},
		"not whole pages":   {Limits{Memory: 16 * gb, Lock: 8<<20 + 5}, 8 << 20, 8 << 20, "RLIMIT_MEMLOCK"},
		"tiny":              {Limits{Memory: 1000, Lock: Unlimited}, 0, 0, "machine"},
		"cgroup not whole":  {Limits{Memory: 16 * gb, Cgroup: in(gb, 8*pageSize+4), Lock: Unlimited}, 4 * pageSize, 6 * pageSize, "/cg"},
		"lock above usual":  {Limits{Memory: 16 * gb, Lock: 6 * gb}, 4 * gb, 6 * gb, "RLIMIT_MEMLOCK"},
		"cgroup above lock": {Limits{Memory: 16 * gb, Cgroup: in(6*gb, 4*gb), Lock: gb}, gb, gb, "RLIMIT_MEMLOCK"},
	} {
		usual, most, bound := SafeBudget(c.l)
		if usual != c.usual || most != c.most || !strings.Contains(bound, c.bound) {
			t.Errorf("%s: %d, %d (%s), want %d, %d (%s)", name, usual, most, bound, c.usual, c.most, c.bound)
		}
	}
}

func TestSpare(t *testing.T) {
	const gb = 1 << 30
	cg := linux.CgroupMemory{Dir: "/cg", Limit: 4 * gb, Free: gb}
	for name, c := range map[string]struct {
		l    Limits
		want int64
	}{
		"much":        {Limits{Memory: 16 * gb, Available: 8 * gb}, 7 * gb},
		"too little":  {Limits{Memory: 16 * gb, Available: gb / 2}, -gb / 2},
		"cgroup":      {Limits{Memory: 16 * gb, Available: 8 * gb, Cgroup: cg}, gb * 3 / 4},
		"the machine": {Limits{Memory: 16 * gb, Available: gb, Cgroup: cg}, 0},
		"small":       {Limits{Memory: 512 << 20, Available: 512 << 20}, 448 << 20},
		"tiny":        {Limits{Memory: 64 << 20, Available: 64 << 20}, 48 << 20},
	} {
		if got := Spare(c.l); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestBudgetThatIsAskedFor(t *testing.T) {
	l := &Limits{Memory: 1 << 30, Lock: 64 << 20}
	for asked, want := range map[int64]int64{0: 64 << 20, 5: 5, 64 << 20: 64 << 20, 64<<20 + 1: -1, Unlimited: -1, -1: -1} {
		c, err := New(Config{Budget: asked, Limits: l, Method: None})
		if err != nil {
			if want >= 0 || asked > 0 && (!errors.Is(err, ErrUnsafeBudget) || !strings.Contains(err.Error(), "RLIMIT_MEMLOCK")) {
				t.Errorf("%d: %v", asked, err)
			}
			continue
		}
		if c.Budget() != want {
			t.Errorf("%d: a budget of %d, want %d", asked, c.Budget(), want)
		}
		c.Close()
	}
}

func TestLimitsHere(t *testing.T) {
	l, err := ReadLimits()
	if err != nil || l.Memory <= 0 || l.Lock < 0 {
		t.Fatalf("%+v, %v", l, err)
	}
	usual, most, _ := SafeBudget(l)
	if usual > most || most > l.Memory || usual%pageSize != 0 {
		t.Errorf("%d, %d of %+v", usual, most, l)
	}
}

func TestConfigsThatMakeNoSense(t *testing.T) {
	for _, c := range []Config{{Method: "guess"}, {Files: -1}, {Files: maxFiles + 1}} {
		if pc, err := New(c); err == nil {
			pc.Close()
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestRanges(t *testing.T) {
	for _, c := range []struct{ r, want Range }{
		{Range{0, 0}, Range{0, 0}},
		{Range{0, 1}, Range{0, pageSize}},
		{Range{pageSize - 1, 2}, Range{0, 2 * pageSize}},
		{Range{pageSize, pageSize}, Range{pageSize, pageSize}},
		{Range{pageSize + 1, Unlimited - pageSize - 1}, Range{pageSize, Unlimited - (pageSize - 1) - pageSize}},
	} {
		if got := wholePages(c.r); got != c.want {
			t.Errorf("pages of %v: %v, want %v", c.r, got, c.want)
		}
	}
	for _, c := range []struct {
		r, hole Range
		want    []Range
	}{
		{Range{10, 10}, Range{0, 10}, []Range{{10, 10}}},
		{Range{10, 10}, Range{20, 5}, []Range{{10, 10}}},
		{Range{10, 10}, Range{15, 0}, []Range{{10, 10}}},
		{Range{10, 10}, Range{10, 10}, nil},
		{Range{10, 10}, Range{0, 50}, nil},
		{Range{10, 10}, Range{12, 3}, []Range{{10, 2}, {15, 5}}},
		{Range{10, 10}, Range{5, 6}, []Range{{11, 9}}},
		{Range{10, 10}, Range{19, 6}, []Range{{10, 9}}},
	} {
		got := without(c.r, c.hole)
		if len(got) != len(c.want) {
			t.Errorf("%v without %v: %v", c.r, c.hole, got)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%v without %v: %v", c.r, c.hole, got)
			}
		}
	}
}

func TestErrorsAreForPeople(t *testing.T) {
	err := error(&BudgetError{Need: 2_500_000_000, Free: 1_250_000, Budget: 999})
	if !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "2.50 GB is wanted, 1.2 MB of 999 bytes is free") {
		t.Error(err)
	}
	f, ferr := os.Open(os.DevNull)
	if ferr != nil {
		t.Fatal(ferr)
	}
	defer f.Close()
	if err := fileError("watch", f, ErrNotRegular); err.Error() != "watch /dev/null: not a regular file" || !errors.Is(err, ErrNotRegular) {
		t.Error(err)
	}
}
