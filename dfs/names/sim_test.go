package names

import (
	"crypto/rand"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"headrace/meta"
)

var (
	seeds = flag.Int("seeds", 60, "how many worlds are simulated")
	seed  = flag.Uint64("seed", 0, "the first of them")
)

const simSteps = 700

// check judges what clients have seen: by what was agreed on, applied by itself to a state in memory, which is exact;
// and then by a checker that knows only the clients' side.
func (w *world) check() string {
	type place struct {
		index  uint64
		answer string
	}
	places, lists := map[string][]place{}, map[uint64]string{} // of a call, once for each time that it was agreed on
	state, now := firstKeys(), int64(0)
	latest := list(state)
	indexes := slices.Sorted(maps.Keys(w.agreed))
	for _, i := range indexes {
		e := w.agreed[i]
		if e.data[0] == kindMeta {
			m, err := meta.DecodeCommand([]byte(e.data[1:]))
			if err != nil {
				return err.Error()
			}
			now = max(now, m.Time)
			m.Time = now
			r, err := meta.Apply(state, m)
			answer := string(append([]byte{isAnswer}, meta.EncodeAnswer(r, err)...))
			if answer != e.answer {
				return fmt.Sprintf("entry %d was answered %q, and would be %q", i, e.answer, answer)
			}
			key := fmt.Sprint(m.Client, m.Call)
			places[key] = append(places[key], place{i, answer})
			latest = list(state)
		}
		lists[i] = latest
	}
	for _, p := range w.processes {
		if !w.leads(p) {
			continue
		}
		if got := text(withoutOwn(p)); got != text(state) {
			return fmt.Sprintf("the state is\n%s\nand would be\n%s", got, text(state))
		}
	}
	var history []porcupine.Operation
	ops := slices.Clone(w.ops)
	for _, o := range w.ops {
		if o.data == nil {
			if o.index > 1 && lists[o.index] != o.answer {
				return fmt.Sprintf("%s %d: %q, but at %d it was %q", o.client, o.number, o.answer, o.index, lists[o.index])
			}
			continue
		}
		all := places[fmt.Sprint(o.client, int64(o.number))]
		if !slices.ContainsFunc(all, func(p place) bool { return p.answer == o.answer }) {
			return fmt.Sprintf("%s %d was answered %q, and that is none of %v", o.client, o.number, o.answer, all)
		}
		// Only what was done is kept: who was told that nothing was, and asks again, is asking anew.
		i := slices.IndexFunc(all, func(p place) bool { return !nothing(p.answer) })
		if i < 0 {
			continue
		}
		if slices.ContainsFunc(all[i:], func(p place) bool { return p.answer != all[i].answer }) {
			return fmt.Sprintf("%s %d: asked again, the answer is another: %v", o.client, o.number, all)
		}
		if !nothing(o.answer) {
			o.index = all[i].index
		} else { // and it was done later, for an earlier asking
			late := *o
			late.index, late.answer, late.end = all[i].index, all[i].answer, math.MaxInt64
			ops = append(ops, &late)
		}
	}
	if problem := ordered(ops); problem != "" {
		return problem
	}
	for i, o := range ops {
		history = append(history, porcupine.Operation{ClientId: i, Input: o, Output: o.answer, Call: o.call, Return: o.end})
	}
	if r := porcupine.CheckOperationsTimeout(directory, history, time.Minute); r != porcupine.Ok {
		return fmt.Sprintf("not linearizable: %v", r)
	}
	return ""
}

// nothing reports whether an answer says that nothing was done.
func nothing(answer string) bool {
	r, err := meta.DecodeAnswer([]byte(answer[1:]))
	f, is := r.(*meta.Flag)
	return err != nil || is && !bool(*f)
}

// ordered reports a call that has seen an older state than another one that ended before it began.
func ordered(ops []*op) string {
	for _, a := range ops {
		for _, b := range ops {
			if a.index > 0 && b.index > 0 && a.end < b.call && a.index > b.index {
				return fmt.Sprintf("%s %d is at entry %d, and %s %d, which ended before it, at %d", b.client, b.number, b.index, a.client, a.number, a.index)
			}
		}
	}
	return ""
}

// withoutOwn is the state of package meta in a process, in memory.
func withoutOwn(p *process) meta.Reader {
	r, _, done, err := p.machine.read()
	if err != nil {
		p.w.failf("%v", err)
	}
	defer done()
	m := meta.NewMemory()
	for k, v := range r.Scan([]byte{1}, end) {
		m.Set(k, v)
	}
	return m
}

// directory is what the clients' directory is to them, to a checker: a set of names.
var directory = porcupine.Model{
	Init: func() any { return " " },
	Step: func(state, input, output any) (bool, any) {
		o, s, answer := input.(*op), state.(string), output.(string)
		has := strings.Contains(s, " "+o.name+" ")
		if o.data == nil {
			return answer == s[1:], s
		}
		r, err := meta.DecodeAnswer([]byte(answer[1:]))
		f, is := r.(*meta.Flag)
		yes := err == nil && is && bool(*f)
		without := strings.Replace(s, " "+o.name+" ", " ", 1)
		switch o.kind {
		case "mkdir":
			return yes, with(s, o.name)
		case "delete":
			return yes == has, without
		}
		// Below a directory that is there it is moved into it: then the name is gone from here as well.
		to := fmt.Sprintf("r%d", o.number%7)
		if !has {
			return !yes, s
		}
		return yes || strings.Contains(s, " "+to+" "), map[bool]string{true: with(without, to), false: s}[yes]
	},
}

// with enters a name in order.
func with(s, name string) string {
	all := strings.Fields(s)
	if !slices.Contains(all, name) {
		all = append(all, name)
	}
	slices.Sort(all)
	return " " + strings.Join(all, " ") + " "
}

// withChance lets worlds replace Raft's chance, and puts the real one back.
func withChance(t testing.TB) {
	real := rand.Reader
	t.Cleanup(func() { rand.Reader = real })
}

// TestWorlds simulates many worlds: nodes that die at any step and lose what was not synced, a network that loses, repeats,
// delays and cuts, a ring that nodes join, leave and are thrown out of, with seats that follow. What was answered is there,
// who asks again gets the same answer, all is linearizable, and replicas come to the same state.
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
		counts["ops"] += len(w.ops)
		counts["entries"] += len(w.agreed)
	}
	t.Logf("%d worlds: %v", n, counts)
	if n < 50 {
		return
	}
	for _, k := range []string{"joined", "chunk", "asked of one that is alone", "answered when asked again", "disk error", "ring.Down", "ring.Out", "ring.Back", "ring.Drain", "ring.Remove",
		"died names.seat.taken", "died names.seat.leaving", "died names.seat.dropped", "died before flush", "died after flush", "died before replace", "died after replace"} {
		if counts[k] == 0 {
			t.Errorf("no %s", k)
		}
	}
}

// TestFaultsAreFound: the simulation finds mistakes made on purpose.
func TestFaultsAreFound(t *testing.T) {
	withChance(t)
	for name, f := range map[string]struct {
		fault
		from uint64 // the world to begin with, so that it does not take long
	}{
		"says that it is durable before it is": {fault{durableEarly: true}, 0}, "forgets calls": {fault{forgetsCalls: true}, 0},
		"keeps writes above a received state": {fault{keepsWrites: true}, 420}, "makes a replica again": {fault{leavesEarly: true, sitsAgain: true}, 540},
		"reads without asking others": {fault{readsAlone: true}, 60},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range uint64(1000) {
				if problem := newWorld(f.from+i, f.fault, map[string]int{}).run(simSteps); problem != "" {
					t.Logf("seed %d: %.300s", f.from+i, problem)
					return
				}
			}
			t.Error("not found")
		})
	}
}
