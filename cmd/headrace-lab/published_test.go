package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"headrace/lab/labtest"
)

// shapeTradeoff is the picture that is made from the shapes' measurements.
const shapeTradeoff = "../../docs/tradeoff-shapes.svg"

// results is where the published results are, with the reports made from them.
const results = "../../docs/results"

// TestPublishedReports makes the reports in docs/results again from the measurements
// beside them.
func TestPublishedReports(t *testing.T) {
	all, err := filepath.Glob(filepath.Join(results, "*.json.gz"))
	if err != nil || len(all) == 0 {
		t.Fatalf("there are no results in %s: %v", results, err)
	}
	for _, path := range all {
		name := strings.TrimSuffix(filepath.Base(path), ".json.gz")
		t.Run(name, func(t *testing.T) {
			made := filepath.Join(t.TempDir(), "made.md")
			experiment, _, _ := strings.Cut(name, "-")
			args := []string{"bench", experiment, "--from", path, "--markdown", made}
			if experiment == "yarn" {
				args = append(args, "--calibrate")
			}
			picture := filepath.Join(t.TempDir(), "made.svg")
			if name == "sim-shapes" {
				args = append(args, "--tradeoff", picture)
			}
			var said bytes.Buffer
			if code := execute(t.Context(), args, os.Stdin, &said, &said); code != 0 {
				t.Fatal(said.String())
			}
			checkMade(t, filepath.Join(results, name+".md"), made)
			if name == "sim-shapes" {
				checkMade(t, shapeTradeoff, picture)
			}
		})
	}
}

// checkMade compares what is published with what was made.
func checkMade(t *testing.T, published, made string) {
	t.Helper()
	labtest.CheckFile(t, published, func(w io.Writer) error {
		text, err := os.ReadFile(made)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
}

// A place is a cell of a report: in the table whose title begins so, in the row that has
// all these cells, below a heading; "a > b" is the first b that comes after a.
type place struct {
	report, title, column string
	row                   []string
}

// across returns a row of README's: a cell for each of its columns.
func across(report, title, column, row string, columns ...string) [][]place {
	var out [][]place
	for _, c := range columns {
		at := place{report, title, column, []string{c}}
		if row != "" {
			at.row = append(at.row, row)
		}
		out = append(out, []place{at})
	}
	return out
}

// beside puts a second figure into each cell.
func beside(a, b [][]place) [][]place {
	for i := range a {
		a[i] = append(a[i], b[i]...)
	}
	return a
}

const (
	light = "(a) light tasks"
	dirty = "(b) both tasks with large dirty memory"
	load  = "The workload: waste, energy and response"
	one   = "modelled disk: One job reads"
	own   = "modelled disk: Jobs read files of their own"
	later = "modelled disk: Jobs come to the same file"
	slow  = "modelled disk: one of several consumers"
	seeds = "The figures over"

	sharing = "The second of two identical line counts of Spark"
)

var (
	policies = []string{"kill", "wait", "checkpoint", "suspend"}
	onYARN   = []string{"kill", "checkpoint tmpfs", "checkpoint disk", "suspend", "cost disk"}
	methods  = []string{"own regions", "stream"}
)

// overSeeds returns a row of the table of simulated days.
func overSeeds(kill string, figure string) [][]place {
	out := [][]place{nil}
	if kill != "" {
		out[0] = []place{{"sim", seeds, "here", []string{kill}}}
	}
	for _, how := range []string{"checkpoint on hdd", "checkpoint on ssd", "checkpoint on nvm", "cost on ssd"} {
		out = append(out, []place{{"sim", seeds, "here", []string{fmt.Sprintf(figure, how)}}})
	}
	return out
}

// inTables says where each row of the tables of README's section comes from, by how the
// row begins; rows that begin alike are told apart by the one above them.
var inTables = map[string][][]place{
	"light tasks, 60 % done: urgent task done after":                                                           across("preempt", light, "urgent: sojourn", "60 % done", policies...),
	"light tasks, 60 % done: urgent task done after / both done after":                                         across("preempt", light, "makespan", "60 % done", policies...),
	"both done after / work lost":                                                                              across("preempt", light, "work lost", "60 % done", policies...),
	"537 MB of dirty memory each under a limit of 856 MB, 50 % done: urgent task done after":                   across("preempt", dirty, "urgent: sojourn", "50 % done", policies...),
	"537 MB of dirty memory each under a limit of 856 MB, 50 % done: urgent task done after / both done after": across("preempt", dirty, "makespan", "50 % done", policies...),

	"processor time wasted":         across("yarn", load, "share", "", onYARN...),
	"response of low-priority jobs": across("yarn", load, "low: mean response", "", onYARN...),
	"response of urgent jobs":       across("yarn", load, "high: mean response", "", onYARN...),

	"16 tasks read one file":                              beside(across("read", one, "throughput", "16 consumers", methods...), across("read", one, "seeks/s", "16 consumers", methods...)),
	"8 jobs on files of their own":                        across("read", own, "throughput", "8 jobs", methods...),
	"8 jobs come to one file one after another: together": across("read", later, "throughput", "8 jobs", methods...),
	"8 tasks, one of them slow: the last ends after":      across("read", slow, "last end", "", methods...),

	"wasted, of all time of processors":        overSeeds("waste: kill", "waste: %s"),
	"response of low-priority jobs, over kill": overSeeds("", "response, free: %s, over kill"),
	"response of urgent jobs, over kill":       overSeeds("", "response, production: %s, over kill"),
}

// inProse says where the figures in README's sentences come from, each that is set in
// parentheses here.
var inProse = []struct {
	sentence string
	from     []place
}{
	{`writes (\S+) times less and takes (\S+) times less time on storage`, []place{
		{"preempt", "(d)", "fewer", []string{"100 MB/s", "spread"}}, {"preempt", "(d)", "faster", []string{"100 MB/s", "spread"}}}},
	{`jobs take (\d+ %) less time than cold, (\d+ %) of what`, []place{
		{"warm", "Mean duration of the jobs", "less than cold", []string{"warmed"}}, {"warm", "Mean duration of the jobs", "share of the possible", []string{"warmed"}}}},
	{`second of two identical jobs takes (\d+ %) of the time of the first where memory holds two thirds of the data, and (\d+ %) without`, []place{
		{"order", "The second of two", "second over first", []string{"files dealt to two tasks", "1.33×", "yes"}},
		{"order", "The second of two", "second over first", []string{"files dealt to two tasks", "1.33×", "no"}}}},
	{`nine queries of Spark SQL take (\d+ %) less time with their inputs read ahead while their executors start, and Hadoop's sort (\d+ %) .* with all inputs in memory beforehand (\S+ %) and (\d+ %);`, []place{
		{"hdfs", "Queries", "warmed > less", []string{"mean"}}, {"hdfs", "Hadoop's sort", "less than stock", []string{"warmed"}},
		{"hdfs", "Queries", "in RAM > less", []string{"mean"}}, {"hdfs", "Hadoop's sort", "less than stock", []string{"in RAM"}}}},
	{`takes (\d+ %) less time than stock where all data fit into the page caches \((\S+ s), (\S+ s) with Headrace\), and (\d+ %) less where three quarters do \((\S+ s), (\S+ s)\)`, []place{
		{"share", sharing, "second less than stock", []string{"0.67×", "ordered"}},
		{"share", sharing, "second job", []string{"0.67×", "stock"}}, {"share", sharing, "second job", []string{"0.67×", "ordered"}},
		{"share", sharing, "second less than stock", []string{"1.33×", "ordered"}},
		{"share", sharing, "second job", []string{"1.33×", "stock"}}, {"share", sharing, "second job", []string{"1.33×", "ordered"}}}},
}

// TestFiguresOfREADME compares each figure with the report that it comes from.
func TestFiguresOfREADME(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## What it gains\n")
	section, _, _ = strings.Cut(section, "\n## ")
	missing := maps.Clone(inTables)
	above := ""
	for line := range strings.Lines(section) {
		cells := cellsOf(strings.ReplaceAll(line, "**", ""))
		if len(cells) == 0 || cells[0] == "" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		name := cells[0]
		if _, ok := inTables[above+" / "+name]; ok {
			name = above + " / " + name
		}
		above = cells[0]
		from, ok := inTables[name]
		if !ok {
			t.Errorf("nothing says where the row %q comes from", name)
			continue
		}
		delete(missing, name)
		if len(from) != len(cells)-1 {
			t.Errorf("%s: %d figures, %d known", name, len(cells)-1, len(from))
			continue
		}
		for i, places := range from {
			figures := strings.Split(cells[i+1], ", ")
			if places == nil && cells[i+1] == "" {
				continue
			}
			if len(figures) != len(places) {
				t.Errorf("%s: %q are %d figures, want %d", name, cells[i+1], len(figures), len(places))
				continue
			}
			for j, p := range places {
				p.check(t, name, figures[j])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("README has no row %q", name)
	}
	prose := strings.Join(strings.Fields(section), " ")
	for _, s := range inProse {
		found := regexp.MustCompile(s.sentence).FindStringSubmatch(prose)
		if found == nil {
			t.Errorf("README does not say %s", s.sentence)
			continue
		}
		for i, p := range s.from {
			p.check(t, s.sentence, found[i+1])
		}
	}
}

func (p place) check(t *testing.T, what, figure string) {
	t.Helper()
	measured, err := p.find()
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if !rounded(figure, measured) {
		t.Errorf("%s: README has %s, the results %s", what, figure, measured)
	}
}

// find returns the text of a cell.
func (p place) find() (string, error) {
	text, err := os.ReadFile(filepath.Join(results, p.report+".md"))
	if err != nil {
		return "", err
	}
	_, table, ok := strings.Cut(string(text), "\n**"+p.title)
	if !ok {
		return "", fmt.Errorf("%s.md has no table %q", p.report, p.title)
	}
	table, _, _ = strings.Cut(table, "\n**")
	column, last := -1, []string(nil)
	for line := range strings.Lines(table) {
		cells := cellsOf(line)
		switch {
		case len(cells) == 0:
			continue
		case column < 0:
			if column = columnOf(cells, p.column); column < 0 {
				return "", fmt.Errorf("%s.md, %q: no column %q", p.report, p.title, p.column)
			}
			continue
		}
		// What is as in the row above is left out in front.
		for i := 0; i < len(cells) && cells[i] == "" && i < len(last); i++ {
			cells[i] = last[i]
		}
		last = cells
		if !slices.ContainsFunc(p.row, func(want string) bool { return !slices.Contains(cells, want) }) {
			return cells[column], nil
		}
	}
	return "", fmt.Errorf("%s.md, %q: no row with %q", p.report, p.title, p.row)
}

// columnOf returns which of the cells of a heading a column is; -1: none.
func columnOf(heading []string, column string) int {
	at := -1
	for name := range strings.SplitSeq(column, " > ") {
		i := slices.Index(heading[at+1:], name)
		if i < 0 {
			return -1
		}
		at += 1 + i
	}
	return at
}

// cellsOf returns those of a line of a table in Markdown.
func cellsOf(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

var number = regexp.MustCompile(`^([+-]?[0-9]+(?:\.[0-9]+)?)\s*(\S*)`)

// rounded reports whether a figure is what was measured, with as many decimals as the
// figure has. What was measured comes with a unit, and may be followed by its range.
func rounded(figure, measured string) bool {
	f, m := number.FindStringSubmatch(figure), number.FindStringSubmatch(measured)
	if f == nil || m == nil {
		return false
	}
	_, fraction, _ := strings.Cut(f[1], ".")
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return false
	}
	w, err := strconv.ParseFloat(f[1], 64)
	if err != nil {
		return false
	}
	unit := strings.TrimSuffix(m[2], "×")
	if strings.HasPrefix(unit, "(") {
		unit = ""
	}
	near := strconv.FormatFloat(v, 'f', len(fraction), 64) == strconv.FormatFloat(w, 'f', len(fraction), 64)
	return near && (unit == "" || unit == f[2] || w == 0)
}

func TestRounded(t *testing.T) {
	for _, c := range []struct {
		figure, measured string
		want             bool
	}{
		{"1.27 s", "1.27s (1.23s to 1.31s)", true},
		{"1.26 s", "1.27s (1.23s to 1.31s)", false},
		{"36 %", "36.0 % (26.1 % to 40.5 %)", true},
		{"-28 %", "-27.7 % (-38.0 % to -24.0 %)", true},
		{"28 %", "-27.7 % (-38.0 % to -24.0 %)", false},
		{"+0.2 %", "+0.2 % (0.0 % to +1.0 %)", true},
		{"0", "0s", true},
		{"9.8", "9.83×", true},
		{"148 MB/s", "148 MB/s (147 MB/s to 149 MB/s)", true},
		{"148 MB/s", "148ms", false},
		{"0.07 seeks/s", "0.0688 (0.0686 to 0.0688)", true},
		{"", "1s", false},
	} {
		if got := rounded(c.figure, c.measured); got != c.want {
			t.Errorf("%q of %q: %t, want %t", c.figure, c.measured, got, c.want)
		}
	}
}
