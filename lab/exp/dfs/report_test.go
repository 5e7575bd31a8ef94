package dfs

import (
	"math"
	"slices"
	"testing"
	"time"

	"headrace/lab/labtest"
	"headrace/lab/sample"
	"headrace/lab/yarn"
)

// modelDFS is results as a simple model has them: HDFS reads at 80 MB/s and writes at 40, ours at
// 130 and 50; each change of a name takes a ninth of what it takes HDFS, and with three nodes
// as long as there.
func modelDFS() *Results {
	r := &Results{Circumstances: labtest.ModelCircumstances(experimentName), Plan: planned(false), Idle: map[string]int64{systemHDFS: 140e6, systemOurs: 36e6}}
	for repeat := range 3 {
		wobble := 1 + 0.01*float64(repeat)
		for _, part := range Parts {
			for order, e := range r.Plan.entries(part, Systems) {
				ours := e.system == systemOurs
				choose := func(theirs, here float64) float64 {
					if ours {
						return here
					}
					return theirs
				}
				x := Run{Part: part, System: e.system, Point: e.Point, Repeat: repeat, Order: order}
				x.Use = Use{Names: choose(0.1, 0), Data: choose(0.9, 1.5), Idle: int64(choose(150e6, 40e6)), IdleAll: int64(choose(300e6, 40e6)), Memory: int64(choose(300e6, 120e6)), MemoryAll: int64(choose(500e6, 120e6))}
				switch part {
				case partRead, partDevice:
					x.Bytes = int64(r.Plan.Readers) * r.Plan.ReadBytes
					x.Took = float64(x.Bytes) / choose(80e6, 130e6) * wobble
				case partWrite:
					x.Bytes = r.Plan.WriteBytes
					x.Took = float64(x.Bytes) / choose(60e6, 70e6)
					x.Durable = float64(x.Bytes) / choose(40e6, 50e6) * wobble
				case partNames:
					for i, kind := range []string{"mkdir", "create", "stat", "open", "list", "rename", "delete"} {
						took := choose(9, 1) * wobble
						if e.Nodes == 3 {
							took = 9 * wobble
						}
						x.Names = append(x.Names, Names{What: kind, Count: 6400, Took: took, Half: took / 100, Most: took / 20, Max: took / 10 * float64(i+1)})
					}
				case partLoss:
					x.Took, x.Bytes = r.Plan.Loss, 1e9
					x.Reader, x.Writer = Stalls{0.15, choose(0.4, 0.5) * wobble, "read"}, Stalls{0.2, choose(3, 4) * wobble, "write"}
					if e.Lost == lostLeader && repeat == 1 {
						x.Errors = []string{"write /headrace/loss/w9-1: a model of an error"}
					}
				}
				if part == partRead || part == partWrite {
					x.Disk = Count{Read: x.Bytes, Seeks: int64(choose(40, 8) * math.Max(x.Took, x.Durable)), Busy: 0.97 * x.Took}
				}
				r.Runs = append(r.Runs, x)
			}
		}
	}
	r.Runs = append(r.Runs, Run{Part: partRead, System: systemOurs, Repeat: 3, Failure: "the model has a hole\nand more"})
	r.Failed("read: repeat 4, headrace: the model has a hole")
	return r
}

func TestReport(t *testing.T) { labtest.CheckReport(t, modelDFS(), "dfs") }

// The figures of the model, computed by hand.
func TestFigures(t *testing.T) {
	r := modelDFS()
	near := func(what string, got sample.Spread, want float64) {
		t.Helper()
		if math.Abs(got.Median-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("reading", r.over(partRead, Point{}, speed), 130./80)
	near("writing", r.over(partWrite, Point{Writers: 16}, speed), 50./40)
	near("until closed", r.over(partWrite, Point{Writers: 4}, clientSpeed), 70./60)
	near("names", r.over(partNames, Point{Nodes: 1}, ofKind("mkdir", rate)), 9)
	near("names of three", r.over(partNames, Point{Nodes: 3}, ofKind("delete", rate)), 1)
	near("processor time", r.over(partRead, Point{}, allCPU), 1.5)
	near("of copies", sample.Of(r.at(partWrite, systemOurs, Point{Writers: 4}), dataCPU), 1.5/(3*0.536870912))
	near("a writer's wait", sample.Of(r.at(partLoss, systemOurs, Point{Lost: lostLeader}), writerStall), 4.04)
	for _, a := range r.aims() {
		if !a.Measured() {
			t.Errorf("%s is not measured", a.What)
		}
	}
}

// TestStalls: what was not over when the node was lost came of that, and who waits counts apart.
func TestStalls(t *testing.T) {
	at := time.UnixMilli(10_000)
	held := []yarn.Held{{Writer: true, AtMs: 1000, Took: 2, What: "create"}, {Writer: true, AtMs: 9500, Took: 1.5, What: "write"}, {AtMs: 12_000, Took: 0.7, What: "open"}, {AtMs: 13_000, Took: 0.6, What: "read"}}
	if got, want := stallsOf(held, true, at), (Stalls{2, 1.5, "write"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := stallsOf(held, false, at), (Stalls{0, 0.7, "open"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestPlan: both systems meet the same points, but for those that HDFS has not.
func TestPlan(t *testing.T) {
	for _, quick := range []bool{false, true} {
		p := planned(quick)
		for _, part := range Parts {
			for _, at := range p.points(part, systemHDFS) {
				if !slices.Contains(p.points(part, systemOurs), at) {
					t.Errorf("%s, %v: HDFS has nothing to be compared with", part, at)
				}
			}
		}
		for _, n := range p.Writers {
			if p.WriteBytes%int64(n) != 0 {
				t.Errorf("%d writers write no whole bytes", n)
			}
		}
	}
	if s := (entry{partWrite, systemOurs, Point{Writers: 4}}).String(); s != "4 writers, headrace" {
		t.Error(s)
	}
}
