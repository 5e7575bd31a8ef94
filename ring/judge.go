package ring

import (
	"fmt"
	"time"
)

// Beat is what the judge knows of a node: when it was heard last, on the judge's own clock,
// and whom it said that it cannot reach.
type Beat struct {
	At          time.Duration
	Unreachable []string
}

// Patience says when silence is death.
type Patience struct {
	Suspect time.Duration // silent for so long, and accused by two others: down
	Down    time.Duration // silent for so long: down
	Out     time.Duration // silent for so long, or down for so long and silent now: out
	Stall   time.Duration // the judge did not look for so long: it has missed beats itself

	// If more than these percentages of the nodes would be down, or out, it is the judge who
	// is cut off, and nothing is done. One node always may.
	MostDown, MostOut int
}

// DefaultPatience is for a beat a second.
var DefaultPatience = Patience{
	Suspect: 3 * time.Second, Down: 10 * time.Second, Out: 10 * time.Minute, Stall: 3 * time.Second,
	MostDown: 50, MostOut: 40,
}

// Watch is what a judge remembers. The zero value is one that begins.
type Watch struct {
	Begun  bool
	Since  time.Duration // since when it has listened without a pause
	Looked time.Duration // when it judged last
	// Down is for how long the table has said of nodes that they are down, as far as this watch has seen: also while another one judged.
	Down map[string]time.Duration
}

// look counts on to now. What lies between looks that are further apart counts as little as if they were not.
func (p Patience) look(t *Table, w Watch, now time.Duration) Watch {
	step := time.Duration(0)
	if w.Begun {
		step = min(max(0, now-w.Looked), p.Stall)
	}
	down := map[string]time.Duration{}
	for _, n := range t.nodes {
		if n.State == IsDown {
			if before, known := w.Down[n.Name]; known {
				down[n.Name] = before + step
			} else {
				down[n.Name] = 0
			}
		}
	}
	w.Begun, w.Looked, w.Down = true, now, down
	return w
}

// Follow is what a judge does while another one judges: it will not know who was silent.
func (p Patience) Follow(t *Table, w Watch, now time.Duration) Watch {
	w = p.look(t, w, now)
	w.Since = now
	return w
}

// Verdict is what a judge finds.
type Verdict struct {
	Events   []Event  // Down and Out, to be applied in this order
	Returned []string // heard again: to be asked for what they have, see Back
	Held     []string // why nothing is done of what the clock says
}

// Judge decides who is dead, from when each node was heard and from nothing else. Nobody is
// silent for longer than the judge has listened, so a judge that begins, that stood still,
// or whose clock went back, gives everybody the whole time once more, until they are down. A node that is down is out in its time also where judges
// change, or stand still, more often than that.
func (p Patience) Judge(t *Table, w Watch, beats map[string]Beat, now time.Duration) (Watch, Verdict) {
	if !w.Begun || now < w.Looked || now-w.Looked > p.Stall {
		w.Since = now
	}
	w = p.look(t, w, now)

	silent := func(name string) time.Duration {
		since := w.Since
		if b, ok := beats[name]; ok && b.At > since {
			since = min(b.At, now)
		}
		return now - since
	}
	accusers := map[string]int{}
	for _, n := range t.nodes {
		// Who is silent itself accuses nobody: it is the one that reaches no one.
		if n.State == IsUp && silent(n.Name) < p.Suspect {
			for _, other := range unique(beats[n.Name].Unreachable) {
				accusers[other]++
			}
		}
	}

	var v Verdict
	var down, out []Event
	members, dead, gone := 0, 0, 0
	dark := darkRacks(t.nodes)
	for _, n := range t.nodes {
		quiet := silent(n.Name)
		returned := n.State != IsUp && heard(beats, n.Name, w, now, p)
		late := quiet >= p.Out || quiet >= p.Down && w.Down[n.Name] >= p.Out
		if n.member() {
			members++
		}
		switch {
		case returned:
			v.Returned = append(v.Returned, n.Name)
			delete(w.Down, n.Name) // it has its time again
		case n.State == IsUp && (quiet >= p.Down || quiet >= p.Suspect && accusers[n.Name] >= 2):
			down = append(down, Down{n.Name})
		case n.State == IsDown && late && dark[n.Rack]:
			v.Held = append(v.Held, fmt.Sprintf("%s would be out, but all of its rack %s is down", n.Name, n.Rack))
		case n.State == IsDown && late:
			out = append(out, Out{n.Name})
		}
		switch n.State {
		case IsDown:
			dead++
		case IsOut:
			gone++
		}
	}
	allow := func(what string, before, all, percent int, events []Event) {
		if would := before + len(events); len(events) == 0 || would <= max(1, all*percent/100) {
			v.Events = append(v.Events, events...)
		} else {
			v.Held = append(v.Held, fmt.Sprintf("%d of %d nodes would be %s", would, all, what))
		}
	}
	allow("down", dead, members, p.MostDown, down)
	allow("out", gone, members+gone, p.MostOut, out)
	return w, v
}

// darkRacks returns the racks of several nodes of which none is up, if there are others.
// They will come back as one.
func darkRacks(nodes []Node) map[string]bool {
	all, up := map[string]int{}, map[string]int{}
	for _, n := range nodes {
		all[n.Rack]++
		if n.State == IsUp {
			up[n.Rack]++
		}
	}
	dark := map[string]bool{}
	for rack, n := range all {
		dark[rack] = n > 1 && up[rack] == 0 && len(all) > 1
	}
	return dark
}

// heard reports whether a node beats: it was heard by this watch, and not long ago.
func heard(beats map[string]Beat, name string, w Watch, now time.Duration, p Patience) bool {
	b, ok := beats[name]
	return ok && b.At >= w.Since && now-b.At < p.Suspect
}

func unique(names []string) []string {
	seen := map[string]bool{}
	var once []string
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			once = append(once, n)
		}
	}
	return once
}
