package share

import (
	"fmt"
	"math"
	"testing"

	"headrace/lab/labtest"
	"headrace/lab/sample"
)

// modelShare is results as a simple model has them: a job's time is 2 s and what the disks
// deliver to it at 32 MB/s. What is in memory of the data is all that fits, or half of that;
// stock reads a third of it from memory, ordered nearly all, and warmed half of the rest too.
func modelShare() *Results {
	r := &Results{Circumstances: labtest.ModelCircumstances(experimentName), Plan: planned()}
	caches := float64(r.Plan.Cache * servers)
	for repeat := range 3 {
		wobble := 1 + 0.01*float64(repeat)
		for _, part := range Parts {
			for order, e := range entries(part, Modes, false) {
				bytes := e.factor * caches
				resident, hits := bytes, 0.
				if e.factor > 1 {
					resident = caches / 2
				}
				switch e.mode {
				case modeStock:
					hits = resident / 3
				case modeCached:
					hits = resident / 2
				case modeAtOnce:
					hits = 0.9 * resident
				case modeOrdered:
					hits = 0.96 * resident
				case modeWarmed:
					hits = 0.96*resident + (bytes-0.96*resident)/2
				}
				took := func(fromDisks float64) float64 { return (2 + fromDisks/32e6) * wobble }
				x := Run{Part: part, Mode: e.mode, Factor: e.factor, Gap: e.gap.Seconds(), Repeat: repeat, Order: order, Bytes: int64(bytes), Resident: int64(resident),
					First: Job{Framework: "Spark", Duration: took(bytes)}, Second: Job{Framework: "Spark", Duration: took(bytes - hits)},
					FirstRead: int64(bytes), Read: int64(2*bytes - hits)}
				switch x.Second.Began = x.First.Duration; part {
				case partApart: // what comes later shares less
					gap := r.Plan.gap(e.gap).Seconds()
					x.Second.Began, x.FirstRead, x.Resident = gap, 0, 0
					if e.mode == modeStock {
						x.Read, x.Second.Duration = int64(bytes*(1+gap/80)), took(bytes*(1+gap/80))
					}
				case partFrameworks:
					x.First.Framework = "MapReduce"
				}
				x.Took = bothTime(x)
				if ours(e.mode) {
					counted := map[string]int64{"locality.longest.micros": 800 + int64(100*repeat), "locality.micros": 20_000, "locality.doubts": 0, "locality.failed": 0}
					x.Second.Metrics = counted
					x.Use = Use{Manager: 0.01 * x.Took, Node: 0.02 * x.Took, Traffic: int64(8e3 * x.Took)}
				}
				r.Runs = append(r.Runs, x)
			}
		}
	}
	r.Runs = append(r.Runs, Run{Part: partRow, Mode: modeWarmed, Factor: factors[0], Repeat: 3, Failure: "the model has a hole\nand more"})
	r.Failed("row: repeat 4, warmed: the model has a hole")
	return r
}

func TestReport(t *testing.T) { labtest.CheckReport(t, modelShare(), "share") }

// The figures of the model, computed by hand.
func TestFigures(t *testing.T) {
	r := modelShare()
	near := func(what string, got sample.Spread, want float64) {
		t.Helper()
		if math.Abs(got.Median-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	fits, above := place{partRow, factors[0], 0}, place{partRow, factors[1], 0}
	near("all offers", sample.Of(r.at(fits, modeOrdered), allOffers), 0.02)
	near("hits stock", sample.Of(r.at(fits, modeStock), hitRate), 1./3)
	near("hits", sample.Of(r.at(fits, modeOrdered), hitRate), 0.96)
	near("hits above", sample.Of(r.at(above, modeOrdered), hitRate), 0.96/2/factors[1])
	near("hits of what is resident", sample.Of(r.at(above, modeOrdered), hitsOfResident), 0.96)
	near("warmed", sample.Of(r.at(fits, modeWarmed), hitRate), 0.98)
	// All data are 256 MiB, which take 8.39 s and 2 s more; two thirds of it stock.
	bytes := 256. * (1 << 20) / 32e6
	near("the second job", r.over(fits, modeOrdered, secondTime), (2+0.04*bytes)/(2+bytes*2/3))
	near("over the first", sample.Of(r.at(fits, modeStock), secondOverFirst), (2+bytes*2/3)/(2+bytes))
	near("read apart", sample.Of(r.at(place{partApart, factors[1], 0}, modeStock), readOfBoth), 0.5)
	near("both", sample.Of(r.at(place{partApart, factors[1], 240}, modeOrdered)[:1], bothTime), 32+2+2*bytes-0.96*1.5*bytes/2)
	near("traffic in kB", sample.Of(r.at(fits, modeOrdered), func(x Run) float64 { return math.Round(traffic(x)) / 1e3 }), 4)
	near("traffic of one", sample.Of(r.at(place{partFrameworks, factors[0], 0}, modeOrdered), func(x Run) float64 { return math.Round(traffic(x)) / 1e3 }), 8)
	near("the longest offer", sample.Of(r.at(fits, modeOrdered), longestOffer), 900e-6)
	for _, a := range r.aims() {
		if !a.Measured() {
			t.Errorf("%s is not measured", a.What)
		}
	}
}

// TestPlan compares with the paper: what of its data all page caches hold, and how many blocks
// one of them.
func TestPlan(t *testing.T) {
	p := planned()
	for i, gigabytes := range []float64{256, 512, 1024} {
		files := p.data(factors[i])
		if got, want := float64(int64(len(files))*p.Part)/float64(p.Cache*servers), gigabytes/(24*16); math.Abs(got-want) > 0.001 || len(files) != 1<<i {
			t.Errorf("%v GB: %d files, %v of all caches, want %v", gigabytes, len(files), got, want)
		}
	}
	if p.Part%block != 0 || p.practice()%block != 0 {
		t.Errorf("files that are no whole blocks: %+v", p)
	}
	if n := len(entries(partRow, Modes, false)) + len(entries(partApart, Modes, false)) + len(entries(partFrameworks, Modes, false)); n != 35 {
		t.Errorf("%d runs", n)
	}
	if s := fmt.Sprint(entries(partApart, Modes[:1], true)[1]); s != "1m0s apart, 1.33 times the page cache, stock" {
		t.Error(s)
	}
}
