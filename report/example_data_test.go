package report

import (
	"math"

	"headrace"
)

// A run is what one policy makes of two tasks: nightly needs 80 s, urgent needs
// 60 s and arrives when nightly has done a share r of its work.
type run struct {
	policy                string
	timeline              Panel
	sojourn, makespan     float64
	lost, cpu, bytesMoved float64
}

const (
	nightlyNeeds = 80.0
	urgentNeeds  = 60.0
	image        = 2.2e9
)

var policies = []string{"wait", "kill", "suspend", "checkpoint", "cost"}

// simulate returns a model, good enough for numbers that look like measurements.
func simulate(policy string, r, bandwidth float64) run {
	arrives := nightlyNeeds * r
	dump, restore := image/bandwidth+0.6, image/bandwidth*0.8+0.4
	low := Lane{Name: "nightly"}
	high := Lane{Name: "urgent", Strong: true}
	out := run{policy: policy}
	add := func(l *Lane, k Kind, from, lasts float64, note string) float64 {
		l.Segments = append(l.Segments, Segment{Kind: k, Start: from, End: from + lasts, Note: note})
		return from + lasts
	}
	choice := policy
	if policy == "cost" {
		choice = "suspend"
	}
	var end float64
	switch choice {
	case "wait":
		begin := add(&low, Running, 0, nightlyNeeds, "")
		add(&high, Waiting, arrives, begin-arrives, "")
		end = add(&high, Running, begin, urgentNeeds, "")
		out.makespan = end
	case "kill":
		add(&low, Lost, 0, arrives, "killed to make room")
		end = add(&high, Running, arrives+0.2, urgentNeeds, "")
		add(&low, Waiting, arrives, end-arrives, "")
		out.makespan = add(&low, Running, end, nightlyNeeds, "from the beginning")
		out.lost = arrives
	case "suspend":
		add(&low, Running, 0, arrives, "")
		end = add(&high, Running, arrives+0.4, urgentNeeds*1.008, "")
		add(&low, Suspended, arrives, end+0.5-arrives, "1.9 GB paged out")
		out.makespan = add(&low, Running, end+0.5, nightlyNeeds-arrives, "")
		out.cpu, out.bytesMoved = 1.4, 1.9e9*2
	case "checkpoint":
		add(&low, Running, 0, arrives, "")
		begin := add(&low, Checkpointing, arrives, dump, "2.2 GB written")
		add(&high, Waiting, arrives, begin-arrives, "")
		end = add(&high, Running, begin, urgentNeeds, "")
		add(&low, Checkpointed, begin, end-begin, "")
		back := add(&low, Restoring, end, restore, "2.2 GB read")
		out.makespan = add(&low, Running, back, nightlyNeeds-arrives, "")
		out.cpu, out.bytesMoved = 5.8, image*2
	}
	out.sojourn = end - arrives
	out.timeline = Panel{
		Name: policy, Lanes: []Lane{low, high}, Markers: []Marker{{arrives, "urgent arrives"}},
		Note: "urgent done after " + Seconds(out.sojourn) + ", all done after " + Seconds(out.makespan),
	}
	if policy == "cost" {
		out.timeline.Note += " (chose suspend)"
	}
	return out
}

// sweep returns one line per policy. The noise is a fixed wobble, not random.
func sweep(xs []float64, at func(policy string, x float64) run, measure func(run) float64) []Series {
	var series []Series
	for i, p := range policies {
		s := Series{Name: p}
		for j, x := range xs {
			y := measure(at(p, x)) * (1 + 0.006*math.Sin(float64(7*i+3*j)))
			s.Points = append(s.Points, Point{X: x, Y: y, Min: y * 0.98, Max: y * 1.025})
		}
		series = append(series, s)
	}
	return series
}

func exampleTimeline() *Timeline {
	t := &Timeline{
		Title: "What the two tasks did",
		Note:  "nightly starts first; urgent arrives when nightly has done half of its work. One slot, so one of them runs at a time.",
	}
	for _, p := range policies {
		t.Panels = append(t.Panels, simulate(p, 0.5, 150e6).timeline)
	}
	return t
}

func exampleBars() *Bars {
	b := &Bars{Title: "What each policy costs", Note: "Medians of 5 runs; thin lines from the least to the greatest.", Rows: policies}
	measures := []struct {
		title string
		unit  Unit
		of    func(run) float64
	}{
		{"Urgent: sojourn", UnitTenths, func(r run) float64 { return r.sojourn }},
		{"Makespan", UnitTenths, func(r run) float64 { return r.makespan }},
		{"Work lost", UnitTenths, func(r run) float64 { return r.lost }},
		{"CPU overhead", UnitTenths, func(r run) float64 { return r.cpu }},
		{"Moved to and from disk", UnitBytes, func(r run) float64 { return r.bytesMoved }},
	}
	for _, m := range measures {
		g := BarGroup{Title: m.title, Unit: m.unit, Better: Lower}
		for _, p := range policies {
			v := m.of(simulate(p, 0.5, 150e6))
			g.Values = append(g.Values, v)
			g.Min, g.Max = append(g.Min, v*0.97), append(g.Max, v*1.05)
		}
		b.Groups = append(b.Groups, g)
	}
	return b
}

func exampleTable() *Table {
	t := &Table{
		Title: "Half-way, disk of 150 MB/s",
		Columns: []Column{
			{Title: "policy"}, {Title: "urgent: sojourn", Align: Right, Better: Lower}, {Title: "vs kill", Align: Right},
			{Title: "makespan", Align: Right, Better: Lower}, {Title: "vs wait", Align: Right},
			{Title: "work lost", Align: Right, Better: Lower}, {Title: "CPU", Align: Right}, {Title: "I/O", Align: Right},
		},
		Note: "Medians of 5 runs. The best of each column stands out.",
	}
	kill, wait := simulate("kill", 0.5, 150e6), simulate("wait", 0.5, 150e6)
	for _, p := range policies {
		r := simulate(p, 0.5, 150e6)
		t.Add(Str(p), Num(r.sojourn, UnitTenths), Num(r.sojourn/kill.sojourn, UnitRatio), Num(r.makespan, UnitTenths),
			Num(r.makespan/wait.makespan, UnitRatio), Num(r.lost, UnitTenths), Num(r.cpu, UnitTenths), Num(r.bytesMoved, UnitBytes))
	}
	return t
}

func exampleLines(title string, sojourn, bandwidth bool) *Lines {
	l := &Lines{Title: title, Better: Lower, Y: Axis{Unit: UnitTenths, Label: "makespan"}}
	measure := func(r run) float64 { return r.makespan }
	if sojourn {
		measure = func(r run) float64 { return r.sojourn }
		l.Y.Label = "sojourn time"
	}
	if !bandwidth {
		l.X = Axis{Label: "work that nightly had done when urgent arrived", Unit: UnitPercent}
		l.Series = sweep([]float64{.1, .2, .3, .4, .5, .6, .7, .8, .9}, func(p string, r float64) run { return simulate(p, r, 150e6) }, measure)
		return l
	}
	l.X = Axis{Label: "bandwidth of the store", Unit: UnitBytesPerSecond, Log: true}
	l.Markers = []Marker{{At: 120e6, Label: "disk"}, {At: 500e6, Label: "SSD"}, {At: 2e9, Label: "NVMe"}}
	l.Series = sweep([]float64{10e6, 30e6, 100e6, 300e6, 1e9, 3e9}, func(p string, bw float64) run { return simulate(p, 0.5, bw) }, measure)
	return l
}

func examplePage() *Page {
	p := &Page{
		Title: "Preempting without losing work",
		Intro: "A long job, `nightly`, has the only slot when an urgent one arrives. Each policy makes room in its own way: let it finish, kill it, suspend it, write it to storage, or take whichever is expected to be cheapest.",
		Figures: []Figure{
			{Value: "+1.5 %", Label: "sojourn of the urgent task under suspend, compared with kill", Note: "aim: at most 3 %", Tone: Good},
			{Value: "+1.0 %", Label: "makespan under suspend, compared with wait", Note: "aim: at most 3 %", Tone: Good},
			{Value: "40.0s", Label: "of work thrown away by kill, and by no other"},
			{Value: "+6.2 %", Label: "`cost` over the best single mechanism, at worst", Note: "aim: at most 5 %, missed at 30 MB/s", Tone: Bad},
		},
		Facts: []Fact{
			{"Command", "`headrace-lab bench preempt --repeat 5 --html preempt.html`"},
			{"Machine", "2 cores, 8 GB of memory, 2 GB of swap, Linux 6.12"},
			{"Date", "2026-03-14 15:09 UTC"},
		},
	}
	p.Add("At a glance", Block{Table: exampleTable()}, Block{Timeline: exampleTimeline()}, Block{Bars: exampleBars()})
	p.Add("Early or late: light tasks",
		Text("Waiting helps only when little is left to wait for; killing is harmless only when little was done. Suspending costs next to nothing in either case."),
		Block{Lines: exampleLines("Urgent task", true, false), Half: true}, Block{Lines: exampleLines("Both tasks", false, false), Half: true})
	p.Add("Slow or fast storage",
		Text("A checkpoint pays once the store writes it faster than the work could be done again."),
		Block{Lines: exampleLines("Urgent task, half-way", true, true)}, Block{Lines: exampleLines("Both tasks, half-way", false, true)})
	return p
}

func examplePS() *Table {
	t := &Table{Columns: []Column{
		{Title: "ID"}, {Title: "NAME"}, {Title: "PRIORITY"}, {Title: "STATE"}, {Title: "RAN", Align: Right},
		{Title: "MEMORY", Align: Right}, {Title: "COMMAND", Flex: true},
	}}
	t.Add(Str("t1"), Str("nightly"), Str(headrace.Low.String()), State(headrace.Suspended), Num(192, UnitSeconds), Num(1.42e9, UnitBytes), Str("python3 train.py --epochs 40 --data /srv/corpus"))
	t.Add(Str("t2"), Str("urgent"), Str(headrace.High.String()), State(headrace.Running), Num(4.2, UnitSeconds), Num(310e6, UnitBytes), Str("./urgent.sh"))
	t.Add(Str("t17"), Str("索引"), Str(headrace.Priority(3).String()), State(headrace.Pending), Num(math.NaN(), UnitSeconds), Num(0, UnitBytes), Str("make -C index\tall"))
	return t
}
