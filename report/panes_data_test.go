package report

import "math"

func exampleStacks() *Stacks {
	return &Stacks{
		Title: "Where time was wasted", Note: "Each bar is time of processors that brought nothing to its end; shorter is better.",
		Unit: UnitPercent, Better: Lower, Targets: "published",
		Parts: []Part{{"thrown away", Lost}, {"writing", Checkpointing}, {"reading", Restoring}, {"paging in", Suspended}, {"starting", Waiting}, {"never", Running}},
		Rows: []Stack{
			{Name: "kill", Values: []float64{0.31, 0, 0, 0, 0.01}, Target: 0.35, Label: "3,310 core-hours"},
			{Name: "checkpoint on ssd", Values: []float64{0, 0.06, 0.04, 0, 0.02}, Target: 0.111, Label: "1,010 core-hours"},
			{Name: "suspend", Values: []float64{0, 0, 0, 0.03, 0.01}},
			{Name: "adaptive on ssd", Values: []float64{math.NaN(), math.Inf(1)}, Target: math.NaN()},
		},
	}
}

func examplePanes() *Panes {
	p := &Panes{
		Title: "How long jobs take", Note: "Further left is better.", Columns: 3, Cumulative: true,
		X: Axis{Label: "response", Unit: UnitSeconds, Log: true}, Y: Axis{Label: "share of the jobs", Unit: UnitPercent},
	}
	for i, band := range []string{"free", "middle", "production"} {
		pane := Pane{Title: band, Note: "40 jobs"}
		for j, policy := range []string{"kill", "suspend", "cost"} {
			s := Series{Name: policy}
			for k := range 41 {
				q := float64(k) / 40
				s.Points = append(s.Points, Point{X: float64(i+1) * 20 * math.Pow(10, 3*q+0.3*float64(j)*(1-q)), Y: q})
			}
			pane.Series = append(pane.Series, s)
		}
		p.Panes = append(p.Panes, pane)
	}
	p.Panes[2].Series[1].Points = nil
	return p
}

func exampleLoad() *Panes {
	p := &Panes{X: Axis{Label: "time", Unit: UnitSeconds}, Y: Axis{Label: "CPUs held", Unit: UnitPercent}, Panes: []Pane{{Title: "ssd"}, {Title: "hdd"}}}
	for i := range p.Panes {
		s := Series{Name: "kill"}
		for k := range 100 {
			s.Points = append(s.Points, Point{X: float64(k) * 864, Y: 0.5 + 0.4*math.Sin(float64(k+10*i)/15)})
		}
		s.Points[50].Y = math.NaN()
		p.Panes[i].Series = []Series{s}
	}
	return p
}

func exampleTargets() *Bars {
	return &Bars{
		Title: "Response against kill", Rows: []string{"kill", "checkpoint on hdd", "suspend"}, Targets: "published",
		Groups: []BarGroup{
			{Title: "free", Unit: UnitRatio, Better: Lower, Values: []float64{1, 0.6, 0.4}, Targets: []float64{0, 0.8, math.NaN()}, Line: 1},
			{Title: "production", Unit: UnitRatio, Better: Lower, Values: []float64{1, 1.4, 1.01}, Line: 1},
		},
	}
}
