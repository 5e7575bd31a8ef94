package quorum

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

var (
	seeds = flag.Int("seeds", 300, "how many worlds are simulated")
	seed  = flag.Uint64("seed", 0, "the first of them")
)

const simSteps = 400

// texts is what a key of a group is to clients: an append returns the new text.
var texts = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		for _, o := range history {
			k := fmt.Sprint(o.Input.(*op).group, o.Input.(*op).key)
			parts[k] = append(parts[k], o)
		}
		var all [][]porcupine.Operation
		for _, k := range sorted(parts) {
			all = append(all, parts[k])
		}
		return all
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		o, s := input.(*op), state.(string)
		if o.word != "" {
			s += o.word + " "
		}
		return o.output == s, s
	},
}

// check judges what clients have seen, twice: by what the texts at the end say, which is
// exact, and then by a checker that knows nothing of that.
func (w *world) check() string {
	var happened []*op
	for _, o := range w.ops {
		if o.group == 0 || o.word == "" && !o.known {
			continue
		}
		n := strings.Count(" "+w.final(o.group).Texts[o.key], " "+o.word+" ")
		if o.word != "" && (n > 1 || n == 0 && o.known) {
			return fmt.Sprintf("group %d: %s, answered %v, is there %d times", o.group, o.word, o.known, n)
		}
		if o.word != "" && n == 0 {
			continue // it has not happened, and will not: all is quiet
		}
		if !o.known {
			o.end = math.MaxInt64
		}
		w.counts["ops"]++
		happened = append(happened, o)
	}
	if problem := w.ordered(happened); problem != "" {
		return problem
	}
	var history []porcupine.Operation
	for i, o := range happened {
		history = append(history, porcupine.Operation{ClientId: i, Input: o, Call: o.call, Return: o.end})
	}
	for g := uint64(1); g <= w.groups; g++ {
		for k, text := range w.final(g).Texts {
			o := &op{group: g, key: k, output: text, known: true}
			history = append(history, porcupine.Operation{ClientId: len(w.ops) + int(g), Input: o, Call: w.clock + 1, Return: w.clock + 2})
		}
	}
	if r := porcupine.CheckOperationsTimeout(texts, history, time.Minute); r != porcupine.Ok {
		return fmt.Sprintf("not linearizable: %v", r)
	}
	return ""
}

// ordered compares the order that the texts say with that of time. The text at the end has
// every append's place, and what a read returned says which two appends it lies between;
// reads between the same two may be in any order. So there is an order for all if, and only
// if, no call that ended before another began comes behind it.
func (w *world) ordered(ops []*op) string {
	type text struct {
		group uint64
		key   string
	}
	places := map[*op]int{}
	for _, o := range ops {
		final := w.final(o.group).Texts[o.key]
		before, _, _ := strings.Cut(" "+final, " "+o.word+" ")
		until := o.output
		if o.word != "" {
			until = strings.TrimPrefix(before+" "+o.word+" ", " ")
		}
		if o.known && o.output != until || !strings.HasPrefix(final, until) {
			return fmt.Sprintf("group %d: %q is no beginning of %q", o.group, o.output, final)
		}
		o.output, o.known = until, true // also what nobody was told
		places[o] = 2 * strings.Count(until, " ")
		if o.word == "" {
			places[o]++
		}
	}
	byCall, byEnd := slices.Clone(ops), slices.Clone(ops)
	slices.SortFunc(byCall, func(a, b *op) int { return cmp.Compare(a.call, b.call) })
	slices.SortFunc(byEnd, func(a, b *op) int { return cmp.Compare(a.end, b.end) })
	latest := map[text]*op{}
	for _, o := range byCall {
		for ; byEnd[0].end < o.call; byEnd = byEnd[1:] {
			k := text{byEnd[0].group, byEnd[0].key}
			if l := latest[k]; l == nil || places[l] < places[byEnd[0]] {
				latest[k] = byEnd[0]
			}
		}
		if l := latest[text{o.group, o.key}]; l != nil && places[l] > places[o] {
			return fmt.Sprintf("group %d: %s%q after %s%q had ended", o.group, o.word, o.output, l.word, l.output)
		}
	}
	return ""
}

// TestWorlds simulates many worlds: nodes that lose what they have not synced at any step,
// a network that loses, repeats, delays and reorders, cuts in one direction, changes of
// members, transfers. All is linearizable, nothing that was answered is lost, replicas come
// to the same state, and nobody forgets a term, a vote or an entry that it has told of.
func TestWorlds(t *testing.T) {
	withChance(t)
	counts := map[string]int{}
	n := *seeds
	if testing.Short() {
		n /= 10
	}
	for i := range uint64(n) {
		w := newWorld(*seed+i, fault{}, counts)
		if problem := w.run(simSteps); problem != "" {
			for _, line := range w.log {
				t.Log(line)
			}
			t.Fatalf("seed %d (-seed %d -seeds 1): %s", w.seed, w.seed, problem)
		}
	}
	t.Logf("%d worlds: %v", n, counts)
	if n < 100 {
		return
	}
	for _, p := range points {
		if p != "quorum.created" && counts["died "+p] == 0 {
			t.Errorf("no process died at %s", p)
		}
	}
	for _, k := range []string{"change", "joint change", "chunk", "disk error", "ops"} {
		if counts[k] == 0 {
			t.Errorf("no %s", k)
		}
	}
}

// TestWorldsAreTheSameAgain: a seed that has failed once fails again.
func TestWorldsAreTheSameAgain(t *testing.T) {
	withChance(t)
	for i := range uint64(10) {
		a, b := newWorld(i, fault{}, map[string]int{}), (*world)(nil)
		pa := a.run(simSteps)
		b = newWorld(i, fault{}, map[string]int{})
		if pb := b.run(simSteps); pa != pb || !slices.Equal(a.log, b.log) {
			t.Errorf("seed %d: two worlds", i)
		}
	}
}

// TestFaultsAreFound: the simulation finds mistakes made on purpose.
func TestFaultsAreFound(t *testing.T) {
	withChance(t)
	for name, f := range map[string]fault{
		"answers before it syncs": {answersEarly: true}, "forgets terms and votes": {forgetsHard: true},
		"applies twice after a start": {appliesTwice: true}, "keeps a torn tail": {keepsTail: true},
		"trusts the page cache":       {trustsCache: true},
		"reads without asking others": {readsAlone: true},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range uint64(1000) {
				if problem := newWorld(i, f, map[string]int{}).run(simSteps); problem != "" {
					t.Logf("seed %d: %s", i, problem)
					return
				}
			}
			t.Error("not found")
		})
	}
}
