package page

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"headrace/policy"
	"headrace/report"
	"headrace/sim"
	"headrace/trace"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files of testdata")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run with -rewrite and look at the difference. Got:\n%.3000s", path, got)
	}
}

func render(t *testing.T, write func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tables(t *testing.T, results []*sim.Result, term report.Terminal) []byte {
	t.Helper()
	return render(t, func(w io.Writer) error {
		for _, table := range Tables(results) {
			if err := table.WriteTerminal(w, term); err != nil {
				return err
			}
			fmt.Fprintln(w)
		}
		return nil
	})
}

func TestGolden(t *testing.T) {
	day, reads := invented(), inventedReading()
	golden(t, "day.html", render(t, Page(day, inventedAbout()).WriteHTML))
	golden(t, "day.txt", tables(t, day, report.Terminal{Width: 100}))
	golden(t, "day.csv", render(t, func(w io.Writer) error { return WriteCSV(w, day) }))
	golden(t, "reading.html", render(t, Page(reads, About{}).WriteHTML))
	golden(t, "reading.txt", tables(t, reads, report.Terminal{Width: 100, ASCII: true}))
	golden(t, "reading.csv", render(t, func(w io.Writer) error { return WriteCSV(w, reads) }))
	golden(t, "cdfs.csv", render(t, func(w io.Writer) error { return WriteCDFs(w, reads[:1]) }))
}

// odd are results that a page must survive.
func odd() map[string][]*sim.Result {
	hostile := invented()[:3]
	const bad = "</title><script>alert(1)</script>`x`\x1b[2J\u202e"
	for _, r := range hostile {
		r.Workload, r.Medium, r.UsesMedium, r.Config.Medium.Name = bad, bad, true, bad
		r.Bands[1].Name = bad
	}
	hostile[2].Policy = policy.Name(bad)
	idle := invented()[:2]
	for _, r := range idle {
		r.Bands = []sim.Band{{Name: "free"}, {Name: "middle", Jobs: 1, Tasks: 1, Response: sim.Spread{N: 1, At: []float64{0}}}}
		r.Work, r.Energy, r.Counts, r.Outcome, r.Load, r.Waiting = sim.Work{}, sim.Energy{}, sim.Counts{}, trace.Outcome{}, nil, nil
	}
	return map[string][]*sim.Result{
		"none": nil, "only nil": {nil}, "zero": {{}}, "two zeros": {{}, {}}, "one": invented()[4:5],
		"no kill": invented()[3:5], "hostile": hostile, "idle": idle, "twice": append(invented(), invented()...),
		"no bands":        {{Policy: policy.Kill, Work: sim.Work{Useful: 1, Killed: 1}}, {Policy: policy.Cost}},
		"reading in some": append(inventedReading(), invented()[1]),
		"short steps":     {{Step: math.SmallestNonzeroFloat64, Load: make([]float64, 1000), Waiting: []float64{1}}},
	}
}

func TestOddResults(t *testing.T) {
	for name, results := range odd() {
		t.Run(name, func(t *testing.T) {
			html := render(t, Page(results, About{}).WriteHTML)
			wellFormed(t, html)
			outputs := [][]byte{html, tables(t, results, report.Terminal{Width: 80}),
				render(t, func(w io.Writer) error { return WriteCSV(w, results) }),
				render(t, func(w io.Writer) error { return WriteCDFs(w, results) }),
				render(t, func(w io.Writer) error { return WriteJSON(w, results, About{}) })}
			for i, out := range outputs {
				for _, word := range []string{"NaN", "Inf", "∞"} {
					if bytes.Contains(out, []byte(word)) {
						t.Errorf("output %d contains %s", i, word)
					}
				}
			}
			for _, word := range []string{"<script", "\x1b", "\u202e"} {
				if bytes.Contains(html, []byte(word)) || word != "<script" && bytes.Contains(outputs[1], []byte(word)) {
					t.Errorf("%q is shown as it is", word)
				}
			}
		})
	}
}

func wellFormed(t *testing.T, html []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(html)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
	}
}

func TestPageLeavesResultsAlone(t *testing.T) {
	results := invented()
	first := render(t, Page(results, inventedAbout()).WriteHTML)
	if !reflect.DeepEqual(results, invented()) {
		t.Error("the results were changed")
	}
	if !bytes.Equal(first, render(t, Page(results, inventedAbout()).WriteHTML)) {
		t.Error("the same results were shown differently")
	}
}

func TestJSONRoundTrip(t *testing.T) {
	for name, results := range odd() {
		if name == "hostile" { // control characters in names do come back, bytes that are not UTF-8 would not
			results = invented()
		}
		results = slices.DeleteFunc(slices.Clone(results), func(r *sim.Result) bool { return r == nil })
		text := render(t, func(w io.Writer) error { return WriteJSON(w, results, inventedAbout()) })
		back, about, err := ReadJSON(bytes.NewReader(text))
		if len(results) == 0 {
			if err == nil {
				t.Errorf("%s: a file without results was read", name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(about, inventedAbout()) {
			t.Errorf("%s: about came back as %+v", name, about)
		}
		if again := render(t, func(w io.Writer) error { return WriteJSON(w, back, about) }); !bytes.Equal(text, again) {
			t.Errorf("%s: differs after a round trip", name)
		}
	}
}

func TestReadJSONSaysWhatIsWrong(t *testing.T) {
	head := "{\"kind\": \"headrace simulation\",\n\"version\": 1,\n\"results\": "
	for text, want := range map[string]string{
		"":                                  "the file is empty",
		"{\n\"kind\": 3}":                   "line 2: kind: is a JSON number, want string",
		"[]":                                "is a JSON array",
		"{\n\n\"a\" 1}":                     "line 3: invalid character '1'",
		`{"kind": "table"}`:                 `kind is "table", want "headrace simulation"`,
		`{"kind": "headrace simulation"}`:   "version is 0, this program knows 1",
		head + "[]}":                        "results: there are none",
		head + "[null]}":                    "results: number 1 is null",
		head + "[{},\n{\"tasks\": \"x\"}]}": "line 4: results.tasks: is a JSON string, want int",
		head + `[{"policy": "kill", "jobs": -1}]}`:                            `results: number 1 ("kill"): -1 jobs and 0 tasks`,
		head + `[{"outcome": {"times": [1, -2]}}]}`:                           "-2 tasks were preempted 1 times",
		head + `[{"bands": [{"name": "free", "response": {"at": [2, 1]}}]}]}`: `band "free": response falls from 2 to 1 at place 1`,
	} {
		_, _, err := ReadJSON(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzReadJSON(f *testing.F) {
	for _, results := range odd() {
		var b bytes.Buffer
		if err := WriteJSON(&b, results, inventedAbout()); err != nil {
			f.Fatal(err)
		}
		if b.Len() < 20_000 {
			f.Add(b.Bytes())
		}
	}
	f.Add([]byte(`{"kind": "headrace simulation", "version": 1, "results": [{"step": 1e-300, "load": [1e300, -1], "makespan": 1e308,
		"bands": [{"name": "free", "jobs": 2, "response": {"n": 1, "mean": -1, "at": [-1e308, 1e308]}}],
		"outcome": {"times": [1, 2], "by_class": [{"tasks": -1, "scheduled": 3}]}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		results, about, err := ReadJSON(bytes.NewReader(text))
		if err != nil {
			return
		}
		html := render(t, Page(results, about).WriteHTML)
		wellFormed(t, html)
		tables(t, results, report.Terminal{Width: 80})
		render(t, func(w io.Writer) error { return WriteCSV(w, results) })
		render(t, func(w io.Writer) error { return WriteCDFs(w, results) })
		if _, _, err := ReadJSON(bytes.NewReader(render(t, func(w io.Writer) error { return WriteJSON(w, results, about) }))); err != nil {
			t.Errorf("what was read and written again: %v", err)
		}
	})
}

// The columns that the comment of WriteCSV promises are those of the file.
func TestCSVColumnsAreDocumented(t *testing.T) {
	source, err := os.ReadFile("csv.go")
	if err != nil {
		t.Fatal(err)
	}
	_, comment, _ := strings.Cut(string(source), "// WriteCSV")
	comment, _, _ = strings.Cut(comment, "func WriteCSV")
	fixed, each, ok := strings.Cut(comment, "and for each band (free, middle, production):")
	if !ok {
		t.Fatal("the comment of WriteCSV has no bands")
	}
	names := func(s string) (names []string) {
		for line := range strings.SplitSeq(s, "\n") {
			if line, ok := strings.CutPrefix(line, "//\t"); ok {
				for name := range strings.SplitSeq(line, ",") {
					if name = strings.TrimSpace(name); name != "" {
						names = append(names, name)
					}
				}
			}
		}
		return names
	}
	want := names(fixed)
	for _, b := range []string{"free", "middle", "production"} {
		for _, name := range names(each) {
			want = append(want, strings.Replace(name, "BAND", b, 1))
		}
	}
	rows, err := csv.NewReader(bytes.NewReader(render(t, func(w io.Writer) error { return WriteCSV(w, invented()) }))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(rows[0], want) {
		t.Errorf("columns\n%q\ndocumented\n%q", rows[0], want)
	}
	if len(rows) != len(inventedRuns)+1 {
		t.Errorf("%d rows for %d results", len(rows)-1, len(inventedRuns))
	}
}

func TestReferenceAndLabels(t *testing.T) {
	s := newSet(invented())
	if s.refName != "kill" || s.reference.Policy != policy.Kill {
		t.Errorf("the reference is %s", s.refName)
	}
	if want := []string{"wait", "kill", "suspend", "checkpoint on hdd", "adaptive on hdd", "cost on hdd", "checkpoint on nvm", "adaptive on nvm", "cost on nvm"}; !slices.Equal(s.labels, want) {
		t.Errorf("labels %q", s.labels)
	}
	if s = newSet(invented()[2:4]); s.refName != "suspend" {
		t.Errorf("without kill the reference is %s", s.refName)
	}
	if s = newSet(append(invented()[1:2], invented()[1:2]...)); !slices.Equal(s.labels, []string{"kill", "kill (2)"}) {
		t.Errorf("labels of the same policy %q", s.labels)
	}
	if s = newSet(inventedReading()); !slices.Equal(s.labels, []string{"cost, cold", "cost, 16 GiB warmed"}) {
		t.Errorf("labels of configurations %q", s.labels)
	}
	for _, f := range newSet(invented()).facets() {
		if want := []string{"wait", "kill", "suspend", "checkpoint", "adaptive", "cost"}; !slices.Equal(f.names, want) {
			t.Errorf("on %s there are %q", f.name, f.names)
		}
	}
}

// A policy to which the medium may make a difference names it even where it did
// not; what is the same on all media is shown once, and written to files as given.
func TestMediumWithoutDifference(t *testing.T) {
	cost := made{policy: policy.Cost, medium: "ssd", free: 1, checkpoints: 1}.result()
	idle := made{policy: policy.Cost, free: 1}.result()
	kill, again := invented()[1], invented()[1]
	again.Medium = "ssd"
	suspend, other := invented()[2], invented()[2]
	other.Medium, other.Work.PageIn = "ssd", 5
	results := []*sim.Result{kill, again, cost, idle, suspend, other, kill}
	if s := newSet(results); !slices.Equal(s.labels, []string{"kill", "cost on ssd", "cost on hdd", "suspend on hdd", "suspend on ssd", "kill (2)"}) || !slices.Equal(s.media, []string{"ssd", "hdd"}) {
		t.Errorf("labels %q, media %q", s.labels, s.media)
	}
	if n := bytes.Count(render(t, func(w io.Writer) error { return WriteCSV(w, results) }), []byte("\n")); n != 8 {
		t.Errorf("%d lines for 7 results", n)
	}
}

func TestChosen(t *testing.T) {
	results := invented()
	chosen := func(results []*sim.Result) (int, bool) {
		h := newHeadline(newSet(results))
		return h.chosen, h.inTime
	}
	i, inTime := chosen(results)
	if results[i].Policy != policy.Cost || results[i].Medium != "nvm" || !inTime {
		t.Errorf("chosen: %d, in time %v", i, inTime)
	}
	for _, r := range results {
		if r.Policy != policy.Kill {
			r.Bands[2].Response.Mean *= 2
		}
	}
	if i, inTime = chosen(results); inTime || results[i].Policy == policy.Wait {
		t.Errorf("chosen among slow ones: %d, in time %v", i, inTime)
	}
	if i, _ = chosen(results[1:2]); i >= 0 {
		t.Errorf("chosen of one: %d", i)
	}
}

func TestOften(t *testing.T) {
	got := often(trace.Outcome{Times: []int{90, 5, 3, 2}})
	want := []report.Point{{X: 1, Y: 1}, {X: 2, Y: 0.5}, {X: 3, Y: 0.2}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := often(trace.Outcome{Times: []int{90, 0}}); got != nil {
		t.Errorf("nobody was preempted: %v", got)
	}
}

func TestSteps(t *testing.T) {
	means := make([]float64, 3*mostSteps+1)
	sum := 0.0
	for i := range means {
		means[i] = float64(i % 7)
		sum += means[i]
	}
	points := steps(means, 10)
	if len(points) > mostSteps {
		t.Errorf("%d points, want at most %d", len(points), mostSteps)
	}
	each := float64((len(means) + mostSteps - 1) / mostSteps)
	total := 0.0
	for i, p := range points {
		n := min(each, float64(len(means))-float64(i)*each)
		total += p.Y * n
	}
	if math.Abs(total-sum) > 1e-6 {
		t.Errorf("the sum of what is drawn is %g, want %g", total, sum)
	}
	if points := steps([]float64{4}, 600); len(points) != 1 || points[0].X != 300 || points[0].Y != 4 {
		t.Errorf("one mean: %v", points)
	}
}

func TestChange(t *testing.T) {
	for _, c := range []struct {
		a, b float64
		want string
	}{{110, 100, "+10.0 %"}, {26, 100, "-74.0 %"}, {100.01, 100, "0.0 %"}, {1, 0, "–"}, {math.NaN(), 1, "–"}} {
		if got := change(c.a, c.b); got != c.want {
			t.Errorf("from %g to %g: %s, want %s", c.b, c.a, got, c.want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", 1234567: "1,234,567", -123: "-123"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is written %s", n, got)
		}
	}
}

func TestWriterFails(t *testing.T) {
	for name, err := range map[string]error{
		"write CSV: ":     WriteCSV(broken{}, invented()),
		"write results: ": WriteJSON(broken{}, invented(), About{}),
	} {
		if !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
	nan := invented()[:1]
	nan[0].Makespan = math.NaN()
	if err := WriteJSON(io.Discard, nan, About{}); err == nil {
		t.Error("NaN was written")
	}
}

type broken struct{}

var errBroken = errors.New("disk full")

func (broken) Write([]byte) (int, error) { return 0, errBroken }
