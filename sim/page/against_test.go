package page

import (
	"math"
	"slices"
	"strings"
	"testing"

	"headrace/policy"
	"headrace/report"
	"headrace/sim"
)

func TestAgainst(t *testing.T) {
	run := func(p policy.Name, medium string, nodes int, wasted, took float64) *sim.Result {
		c := sim.DefaultConfig()
		c.Nodes, c.Policy.Policy = nodes, p
		return &sim.Result{Workload: "day", Policy: p, Medium: medium, UsesMedium: medium != "", Config: c, Tasks: 7,
			Work: sim.Work{Useful: 3600, Killed: wasted}, Bands: []sim.Band{{Name: "free"}, {Name: "production", Jobs: 2, Response: sim.Spread{N: 2, Mean: took, At: []float64{took, took}}}}}
	}
	before := []*sim.Result{run(policy.Kill, "", 4, 7200, 50), run(policy.Cost, "ssd", 4, 0, 40), run(policy.Suspend, "ssd", 4, 1, 1)}
	now := []*sim.Result{run(policy.Kill, "", 5, 3600, 51), run(policy.Cost, "ssd", 4, 3600, 40), run(policy.Wait, "", 4, 0, 1)}
	now[1].Config.KnowShare = true
	table, notes := Against(now, before)
	var text strings.Builder
	for _, row := range table.Rows {
		for _, c := range row {
			text.WriteString(c.Text + "|")
		}
		text.WriteString("\n")
	}
	for _, want := range []string{"kill|wasted|2 core-h|1 core-h|0.50×|", "|production jobs, mean|50.0s|51.0s|1.02×|", "cost on ssd|wasted|0 core-h|1 core-h|"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("it lacks %s:\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "free jobs") {
		t.Errorf("a band without jobs is compared:\n%s", &text)
	}
	tones := map[string]report.Tone{}
	for _, row := range table.Rows {
		if row[0].Text != "" {
			tones[row[0].Text] = row[4].Tone
		}
	}
	if tones["kill"] != report.Good || tones["cost on ssd"] != report.Bad {
		t.Errorf("tones: %v", tones)
	}
	for _, want := range []string{"nodes was 4, and is 5", "know_share was false, and is true", "only in one of the two: wait, suspend on ssd"} {
		if !slices.Contains(notes, want) {
			t.Errorf("the notes lack %q: %q", want, notes)
		}
	}
	if len(notes) != 3 {
		t.Errorf("notes: %q", notes)
	}
	same, notes := Against(now, now)
	for _, row := range same.Rows {
		if r := row[4].Value; row[4].Tone != "" || r != nil && *r != 1 && !math.IsNaN(*r) {
			t.Errorf("a result differs from itself: %+v", row)
		}
	}
	if len(notes) != 0 || len(same.Rows) == 0 {
		t.Errorf("%d rows, notes %q", len(same.Rows), notes)
	}
	if nothing, _ := Against(nil, nil); len(nothing.Rows) != 0 {
		t.Error("nothing is compared with nothing")
	}
}
