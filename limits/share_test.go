package limits

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"headrace"
)

const (
	alice = 1
	bob   = 2
	carol = 3
)

func claim(uid uint32, p headrace.Priority, cpus float64) Claim {
	return Claim{UID: uid, Priority: p, CPUs: cpus}
}

func (c Claim) has() Claim   { c.Has = true; return c }
func (c Claim) begun() Claim { c.Begun = true; return c }
func (c Claim) aside() Claim { c.Begun, c.Aside, c.CPUs = true, true, 0; return c }

func (c Claim) leaves() Claim { c.Begun, c.Leaves = true, true; return c }

func (c Claim) holding(memory int64) Claim { c.Memory = memory; return c }

func (c Claim) turn(t uint64) Claim { c.Turn = t; return c }

func times(n int, c Claim) []Claim { return slices.Repeat([]Claim{c}, n) }

func indices(m map[int]bool) []int {
	var all []int
	for i := range m {
		all = append(all, i)
	}
	slices.Sort(all)
	return all
}

func TestBeyond(t *testing.T) {
	cases := []struct {
		name   string
		claims []Claim
		want   []int
	}{
		{"nobody", nil, nil},
		{"one user has everything", append(times(4, claim(alice, 8, 1).has()), times(90, claim(alice, 8, 1))...), nil},
		{"others have what they want", append(times(3, claim(alice, 8, 1).has()), claim(bob, 8, 1).has(), claim(alice, 8, 1)), nil},
		{"one waits while another has all", append(times(4, claim(alice, 8, 1).has()), claim(bob, 8, 1)), []int{3}},
		{"many wait while another has all", append(append(times(4, claim(alice, 8, 1).has()), claim(alice, 8, 1)), times(5, claim(bob, 8, 1))...), []int{2, 3, 4, 7, 8, 9}},
		{"another priority is none of theirs", append(times(4, claim(alice, 8, 1).has()), claim(bob, 7, 1)), nil},
		{"who came first does not count", []Claim{claim(alice, 4, 1), claim(alice, 4, 1), claim(alice, 4, 1), claim(alice, 4, 1), claim(alice, 4, 1), claim(bob, 4, 1)}, []int{3, 4}},
		{"what runs above counts", []Claim{claim(alice, 9, 1).has(), claim(alice, 9, 1).has(), claim(alice, 4, 1).has(), claim(bob, 4, 1).has(), claim(bob, 4, 1)}, []int{2}},
		{"what was begun goes before what was not", []Claim{claim(alice, 4, 2), claim(alice, 4, 2).begun(), claim(bob, 4, 2), claim(bob, 4, 1)}, []int{0, 3}},
		{"memory counts as processors do", []Claim{claim(alice, 4, 0.1).holding(50).has(), claim(alice, 4, 0.1).holding(40).has(), claim(bob, 4, 1).holding(30)}, []int{1}},
		{"memory that was set aside counts", []Claim{claim(alice, 4, 0.1).holding(10).has(), claim(alice, 4, 0.1).holding(45).aside(), claim(bob, 4, 1).holding(60)}, []int{0}},
		{"what was set aside gives nothing up, and wants nothing", []Claim{claim(alice, 4, 1).holding(90).aside(), claim(alice, 4, 1).holding(60).aside(), claim(bob, 4, 4).has()}, nil},
		{"nor does its owner wait with it", []Claim{claim(alice, 4, 1).holding(10).aside(), claim(bob, 4, 2).has(), claim(bob, 4, 2).has()}, nil},
		{"what was set aside above counts", []Claim{claim(alice, 9, 1).holding(60).aside(), claim(alice, 4, 1).has(), claim(bob, 4, 1).has(), claim(bob, 4, 1)}, []int{1}},
		{"the first is within its share, however large", []Claim{claim(alice, 4, 4).has(), claim(bob, 4, 4)}, nil},
		{"a share less than a task: who had no turn", append(times(3, claim(alice, 4, 4).turn(1)), claim(bob, 4, 4)), []int{0, 1, 2}},
		{"who had one the longest ago", append(times(2, claim(alice, 4, 4).turn(7)), claim(bob, 4, 4).turn(8), claim(carol, 4, 4).turn(3)), []int{0, 1, 2}},
		{"of those who had none, the first", append(times(2, claim(alice, 4, 4)), claim(bob, 4, 4)), []int{1, 2}},
		{"as many as fit", []Claim{claim(alice, 4, 2).has(), claim(alice, 4, 2).turn(1), claim(bob, 4, 2).turn(2), claim(carol, 4, 2).turn(3)}, []int{1, 3}},
		{"one of them also where nothing is free", []Claim{claim(alice, 4, 4).has(), claim(bob, 4, 4), claim(carol, 4, 4)}, []int{2}},
		{"free has nothing below it", append(times(4, claim(alice, 0, 1).has()), claim(bob, 0, 1)), nil},
		{"three", append(append(times(4, claim(alice, 8, 1).has()), claim(bob, 8, 1)), claim(carol, 8, 1)), []int{2, 3}},
	}
	for _, c := range cases {
		if got := indices(Beyond(c.claims, 4, 100)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestBeyondAlwaysLeavesAShare: whatever is there, who waits with nothing has a claim that
// counts in full, or waits behind one who had a turn as long ago; nobody within an equal share
// is put behind, and without two users of a priority nobody is.
func TestBeyondAlwaysLeavesAShare(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		n := 1 + random.IntN(12)
		claims := make([]Claim, n)
		for i := range claims {
			claims[i] = Claim{UID: uint32(random.IntN(4)), Priority: headrace.Priority(random.IntN(3)), CPUs: float64(1 + random.IntN(3)),
				Memory: int64(random.IntN(40)), Has: random.IntN(2) == 0, Begun: random.IntN(3) == 0}
			claims[i].Turn = uint64(claims[i].UID+uint32(claims[i].Priority)) % 3
		}
		beyond := Beyond(claims, 6, 100)
		type key struct {
			uid uint32
			p   headrace.Priority
		}
		within, all, users := map[key]int{}, map[key]float64{}, map[headrace.Priority]map[uint32]bool{}
		above := map[uint32]bool{}
		for i, c := range claims {
			k := key{c.UID, c.Priority}
			if !beyond[i] {
				within[k]++
			}
			all[k] += max(c.CPUs/6, float64(c.Memory)/100)
			if users[c.Priority] == nil {
				users[c.Priority] = map[uint32]bool{}
			}
			users[c.Priority][c.UID] = true
			for _, other := range claims {
				above[c.UID] = above[c.UID] || other.UID == c.UID && other.Has && other.Priority > c.Priority
			}
		}
		for i, c := range claims {
			k := key{c.UID, c.Priority}
			switch {
			case within[k] == 0 && !above[c.UID] && !slices.ContainsFunc(claims, func(o Claim) bool {
				return o.UID != c.UID && o.Priority == c.Priority && !o.Has && o.Turn <= c.Turn && within[key{o.UID, o.Priority}] > 0
			}):
				t.Fatalf("nothing of user %d counts in full at %d: %+v", c.UID, c.Priority, claims)
			case beyond[i] && len(users[c.Priority]) < 2:
				t.Fatalf("%d is alone at its priority and put behind: %+v", i, claims)
			case beyond[i] && !above[c.UID] && all[k] <= 1/float64(len(users[c.Priority]))-slack:
				t.Fatalf("%d is within an equal share and put behind: %+v", i, claims)
			}
		}
	}
}

func TestHold(t *testing.T) {
	some := Limits{Slots: 2, Memory: None, Running: None}
	cases := []struct {
		name   string
		limits Limits
		claims []Claim
		want   []int
	}{
		{"none", Limits{Slots: math.Inf(1), Memory: None, Running: None}, times(9, claim(alice, 4, 1)), nil},
		{"slots", some, times(4, claim(alice, 4, 1)), []int{2, 3}},
		{"what runs stays", some, []Claim{claim(alice, 4, 1).has(), claim(alice, 4, 1).has(), claim(alice, 4, 1).has(), claim(alice, 4, 1)}, []int{3}},
		{"what is to leave counts until it has left", some, []Claim{claim(alice, 4, 1).leaves(), claim(alice, 5, 1), claim(alice, 5, 1)}, []int{2}},
		{"the urgent first", some, []Claim{claim(alice, 4, 1), claim(alice, 4, 1), claim(alice, 5, 1)}, []int{1}},
		{"the begun first", some, []Claim{claim(alice, 4, 1), claim(alice, 4, 1), claim(alice, 4, 1).begun()}, []int{1}},
		{"a large one is not passed for ever", some, []Claim{claim(alice, 4, 1).has(), claim(alice, 4, 2), claim(alice, 4, 1)}, []int{1, 2}},
		{"what is too large keeps nobody back", some, []Claim{claim(alice, 4, 3), claim(alice, 4, 1)}, []int{0}},
		{"memory", Limits{Slots: math.Inf(1), Memory: 100, Running: None}, []Claim{claim(alice, 4, 1).holding(60).has(), claim(alice, 4, 1).holding(40), claim(alice, 4, 1).holding(1)}, []int{2}},
		{"memory that was set aside", Limits{Slots: math.Inf(1), Memory: 100, Running: None}, []Claim{claim(alice, 4, 1).holding(60).aside(), claim(alice, 4, 1).holding(41), claim(bob, 4, 1).holding(41)}, []int{1}},
		{"no slot is set aside, and no number", Limits{Slots: 1, Memory: None, Running: 1}, []Claim{claim(alice, 4, 1).aside(), claim(alice, 4, 1).aside(), claim(alice, 4, 1)}, nil},
		{"number", Limits{Slots: math.Inf(1), Memory: None, Running: 1}, []Claim{claim(alice, 4, 1), claim(alice, 4, 1)}, []int{1}},
		{"none may run", Limits{Slots: math.Inf(1), Memory: None, Running: 0}, []Claim{claim(alice, 4, 1)}, []int{0}},
		{"each for themselves", some, []Claim{claim(alice, 4, 2), claim(bob, 4, 2), claim(alice, 4, 1)}, []int{2}},
	}
	for _, c := range cases {
		held := Hold(c.claims, func(int) Limits { return c.limits })
		got := map[int]bool{}
		for i, why := range held {
			got[i] = true
			if why == "" {
				t.Errorf("%s: no reason for %d", c.name, i)
			}
		}
		if got := indices(got); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func BenchmarkBeyond(b *testing.B) {
	claims := append(times(100000, claim(alice, 8, 1)), claim(bob, 8, 1))
	for b.Loop() {
		Beyond(claims, 4, 1<<30)
	}
}
