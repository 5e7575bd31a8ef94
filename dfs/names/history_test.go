package names

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"headrace/meta"
)

// check judges what clients have seen: by what was agreed on, applied by itself to a state in memory, which is exact;
// and then by a checker that knows only the clients' side.
func (w *world) check() string {
	type place struct {
		index  uint64
		answer string
	}
	places, lists := map[string][]place{}, map[uint64]string{} // of a call, once for each time that it was agreed on
	looks := map[uint64]string{}                               // what was seen of the tree, by who looked at that time
	for _, o := range w.ops {
		if o.kind == "look" && o.index > 1 {
			looks[o.index] = o.answer
		}
	}
	state, now := firstKeys(), int64(0)
	names, done := newTree(), map[string]bool{}
	latest := list(state)
	indexes := slices.Sorted(maps.Keys(w.agreed))
	for _, i := range indexes {
		e := w.agreed[i]
		if e.data[0] == kindMeta {
			m, err := meta.DecodeCommand([]byte(e.data[1:]))
			if err != nil {
				return err.Error()
			}
			if now-m.Time > mostAhead || m.Time > now {
				now = m.Time
			}
			m.Time = now
			r, err := w.fault.apply(state, m)
			answer := string(append([]byte{isAnswer}, meta.EncodeAnswer(r, err)...))
			if answer != e.answer {
				return fmt.Sprintf("entry %d was answered %q, and would be %q", i, e.answer, answer)
			}
			key := fmt.Sprint(m.Client, m.Call)
			places[key] = append(places[key], place{i, answer})
			if !done[key] && !inDir(m.Op) { // what was done already is only answered
				names.now = now
				want := names.do(m.Op, r, (meta.Query{Reader: state, Time: now}).Recoveries)
				got := outcome(r, err)
				if want != "" && got != want {
					return fmt.Sprintf("entry %d, %T%+v: %s, and is to be %s\n%s", i, m.Op, m.Op, got, want, names.text())
				}
				if err == nil {
					w.counts["did "+strings.TrimPrefix(fmt.Sprintf("%T", m.Op), "*meta.")]++
				}
				if got, want := "", ""; *every > 0 && i%*every == 0 {
					if got, want = textOf(state), names.text(); got != want {
						return fmt.Sprintf("after entry %d, %T%+v, there is\n%s\nand would be\n%s", i, m.Op, m.Op, got, want)
					}
				}
			}
			done[key] = done[key] || !nothing(answer)
			latest = list(state)
		}
		lists[i] = latest
		if seen, some := looks[i]; some && seen != names.text() {
			return fmt.Sprintf("at entry %d was seen\n%s\nand there is to be\n%s", i, seen, names.text())
		}
	}
	if got, want := textOf(state), names.text(); got != want {
		return fmt.Sprintf("in the end there is\n%s\nand would be\n%s", got, want)
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
			if o.kind == "list" && o.index > 1 && lists[o.index] != o.answer {
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
		switch o.kind {
		case "mkdir", "delete", "rename", "list":
		default:
			continue
		}
		if o.data != nil && refusedSafe(o.answer) {
			continue
		}
		history = append(history, porcupine.Operation{ClientId: i, Input: o, Output: o.answer, Call: o.call, Return: o.end})
	}
	if r := porcupine.CheckOperationsTimeout(directory, history, time.Minute); r != porcupine.Ok {
		return fmt.Sprintf("not linearizable: %v", r)
	}
	return ""
}

// inDir reports whether a command is about simDir, of which the checker knows.
func inDir(op meta.Op) bool {
	in := func(p string) bool { return strings.HasPrefix(p, simDir+"/") }
	switch o := op.(type) {
	case *meta.Mkdirs:
		return in(o.Path)
	case *meta.Delete:
		return in(o.Path)
	case *meta.Rename:
		return in(o.From)
	}
	return false
}

// outcome is what a command came to, as tree.do has it.
func outcome(r meta.Result, err error) string {
	if e, is := errors.AsType[*meta.Error](err); is {
		return e.Class[strings.LastIndexAny(e.Class, ".$")+1:]
	}
	if f, is := r.(*meta.Flag); is {
		return fmt.Sprint(bool(*f))
	}
	return "ok"
}

// refusedSafe reports whether an answer is that of safe mode.
func refusedSafe(answer string) bool {
	r, err := meta.DecodeAnswer([]byte(answer[1:]))
	return outcome(r, err) == "SafeModeException"
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
