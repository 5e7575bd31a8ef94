package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"headrace/trace/input"
	"headrace/trace/workload"

	"headrace"
)

// parseCSV reads a workload in the form of Write, as Open does.
func parseCSV(r io.Reader) (*workload.Workload, error) {
	c := &workload.Collector{Most: workload.DefaultMaxTasks}
	a, err := read(input.NewMeter(context.Background(), nil), r, &workload.Given{Assumed: workload.Assumed{Dirty: -1}}, c)
	if err != nil {
		return nil, err
	}
	a.Name = "csv"
	return c.Workload(a)
}

func randomWorkload(r *rand.Rand) *workload.Workload {
	w := &workload.Workload{Recorded: r.IntN(2) == 0}
	for i := range 1 + r.IntN(4) {
		w.Jobs = append(w.Jobs, []string{"plain", "with, comma", `with "quotes"`, " spaces "}[i])
	}
	for i := range r.IntN(3) {
		w.Files = append(w.Files, workload.File{Name: []string{"/in/a", "b,c"}[i], Bytes: 5000 + r.Int64N(1e12)})
	}
	if r.IntN(2) == 0 {
		w.Users, w.Resources = []string{"ann", "bob, jr"}, []string{"gpu", "nvidia.com/mig-1g"}
		w.Stages = []workload.Stage{{}, {After: []int32{0}}, {After: []int32{0, 1}}, {After: []int32{2}}}
	}
	for i := range r.IntN(30) {
		t := workload.Task{Job: int32(r.IntN(len(w.Jobs))), Index: int32(r.IntN(5)), Submit: time.Duration(r.IntN(5)) * time.Duration(r.IntN(2)*r.IntN(1e9)+r.IntN(3)*1e9),
			Run: time.Duration(r.Int64N(1e15)), Priority: headrace.Priority(r.IntN(12)), Class: uint8(r.IntN(4)), CPUs: r.Float32() * 4, Grow: float32(r.IntN(3)) * r.Float32(),
			Dirty: r.Float32() * 1e9, Memory: r.Int64()}
		if len(w.Files) > 0 && i%2 == 0 {
			t.File, t.Offset, t.Input = int32(1+r.IntN(len(w.Files))), r.Int64N(2500), r.Int64N(2500)
		}
		if w.Recorded {
			t.Preempted, t.Lost = r.Int32N(20), time.Duration(r.Int64N(1e12))
		}
		if len(w.Resources) > 0 {
			w.Needs = append(w.Needs, []float32{r.Float32(), float32(r.IntN(2))})
			t.Need = int32(r.IntN(len(w.Needs) + 1))
		}
		t.User, t.Stage, t.Gang = int32(r.IntN(len(w.Users)+1)), int32(r.IntN(len(w.Stages)+1)), int32(r.IntN(len(w.Users)+1))
		w.Tasks = append(w.Tasks, t)
	}
	if err := w.Arrange(); err != nil {
		panic(err)
	}
	return w
}

func writeCSV(t *testing.T, w *workload.Workload) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, w); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCSVRoundTrip(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 12))
		w := randomWorkload(r)
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
		text := writeCSV(t, w)
		got, err := parseCSV(strings.NewReader(text))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		w.Name = "csv"
		if !reflect.DeepEqual(normal(got), normal(w)) {
			t.Fatalf("seed %d:\ngot  %+v\nwant %+v\n%s", seed, got, w, text)
		}
		// Lines in another order: the same tasks.
		lines := strings.SplitAfter(text, "\n")
		lines = lines[:len(lines)-1]
		r.Shuffle(len(lines)-1, func(i, j int) { lines[1+i], lines[1+j] = lines[1+j], lines[1+i] })
		mixed, err := parseCSV(strings.NewReader(strings.Join(lines, "")))
		if err != nil {
			t.Fatal(err)
		}
		if err := mixed.Check(); err != nil {
			t.Fatal(err)
		}
		again := strings.SplitAfter(writeCSV(t, mixed), "\n")
		slices.Sort(lines)
		slices.Sort(again)
		// Stages and gangs are numbered by the order of tasks.
		if len(w.Tasks) > 0 && len(w.Users) == 0 && !slices.Equal(lines, again[1:]) {
			t.Fatalf("seed %d: other lines:\n%q\n%q", seed, lines, again)
		}
	}
}

// normal has no difference between no list and an empty one.
func normal(w *workload.Workload) workload.Workload {
	n := *w
	// Needs that are equal are one when they are read.
	n.Needs, n.Tasks = append([][]float32{}, w.Needs...), append([]workload.Task{}, w.Tasks...)
	n.Jobs, n.Files, n.Tasks = append([]string{}, w.Jobs...), append([]workload.File{}, w.Files...), append([]workload.Task{}, w.Tasks...)
	return n
}

func TestReadCSVForms(t *testing.T) {
	full := workload.Task{Submit: 1500 * time.Millisecond, Run: time.Second, Priority: headrace.Normal, CPUs: 1, Memory: 1 << 30}
	second := full
	second.Index = 1
	for text, want := range map[string][]workload.Task{
		"job,submit_s,run_s\n":                                                 {},
		"job,submit_s,run_s\na,1.5,1\na,1.5,1":                                 {full, second},
		"\ufeffrun_s, job ,submit_s,task\r\n1,a,1.50,1\r\n\r\n1,a,1.5,\r\n":    {second, {Index: 2, Submit: full.Submit, Run: full.Run, Priority: headrace.Normal, CPUs: 1, Memory: 1 << 30}},
		"job,submit_s,run_s,priority,class,memory_bytes,cpus\na,1.5,1,,,,\n":   {full},
		"job,submit_s,run_s,file,offset,input_bytes\na,1.5,1,,,\na,1.5,1,,0,0": {full, second},
	} {
		w, err := parseCSV(strings.NewReader(text))
		if err != nil || !slices.Equal(w.Tasks, want) {
			t.Errorf("%q: %+v, %v", text, w, err)
		}
	}
}

func TestReadCSVNotes(t *testing.T) {
	w, err := parseCSV(strings.NewReader("job,submit_s,run_s,jobs,stage,after,x\na,0,1,,s,gone,\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`columns that are not known are passed over: "jobs", "x"`, "1 stages that others come after have no tasks: taken to have ended"}
	if !slices.Equal(w.Notes, want) || len(w.Stages) != 1 || len(w.Stages[0].After) != 0 {
		t.Errorf("%q, %+v", w.Notes, w.Stages)
	}
}

// What a file does not say is what the reader says.
func TestReadCSVGiven(t *testing.T) {
	c := &workload.Collector{Most: 10}
	g := &workload.Given{Assumed: workload.Assumed{Grow: 2 * time.Second, Dirty: 0.5}}
	text := "job,submit_s,run_s,memory_bytes,grow_s,dirty_bytes_per_s\na,0,1,8,,\na,0,1,1e3,0,7\n"
	if _, err := read(input.NewMeter(t.Context(), nil), strings.NewReader(text), g, c); err != nil {
		t.Fatal(err)
	}
	w, err := c.Workload(workload.About{})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := w.Tasks[0], w.Tasks[1]; a.Grow != 2 || a.Dirty != 4 || b.Grow != 0 || b.Dirty != 7 || b.Memory != 1000 {
		t.Errorf("%+v", w.Tasks)
	}
}

// Stages, gangs, users and needs may come in any order.
func TestReadCSVRelations(t *testing.T) {
	w, err := parseCSV(strings.NewReader("job,submit_s,run_s,user,stage,after,gang,need.gpu,need.tpu\n" +
		"a,0,1,ann,reduce,map other,g,2,0\na,0,1,,map,,g,,\nb,1,1,bob,other,map,,2,\nb,1,1,,,,,0.5,\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(w.Users, w.Resources, w.Needs, w.Stages)
	for _, k := range w.Tasks {
		got += fmt.Sprint(" ", k.User, k.Need, k.Stage, k.Gang)
	}
	if want := "[ann bob] [gpu] [[2] [0.5]] [{[]} {[0]} {[0 1]}] 1 1 3 1 0 0 1 1 2 1 2 0 0 2 0 0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := parseCSV(strings.NewReader("job,submit_s,run_s,stage,after\na,0,1,x,y\na,0,1,y,x\n")); err == nil || !strings.Contains(err.Error(), "in a circle") {
		t.Error(err)
	}
}

func TestReadCSVRefuses(t *testing.T) {
	head := "job,task,submit_s,run_s,priority,class,cpus,memory_bytes,file,offset,input_bytes,lost_s\n"
	for _, c := range []struct{ text, says string }{
		{"", "line 1: empty: want a line with the names of columns"},
		{"job,submit_s\n", "line 1: no column run_s: want at least job, submit_s and run_s"},
		{"job,submit_s,run_s,need.\n", `line 1: column "need.": want the name of a resource after the point, such as need.gpu`},
		{"job,submit_s,run_s,need.a,need.a\n", `line 1: column "need.a": there twice`},
		{"job,submit_s,run_s,need.a\na,0,0,-1\n", `line 2: need.a "-1": want a number, 0 or more`},
		{"job,submit_s,run_s,stage,after\na,0,0,x y,\n", `line 2: stage "x y": has a space: the column after has several stages`},
		{"job,submit_s,run_s,stage,after\na,0,0,,x\n", `line 2: stage "": empty, but it comes after others`},
		{"job,submit_s,run_s,job\n", `line 1: column "job": there twice`},
		{head + "a,0,0,1,2,3\n", "line 2: not as many fields as the header has, 12"},
		{head + "a,0,0,1,2,3,1,1,,,,\n\n,0,0,1,2,3,1,1,,,,\n", `line 4: job "": empty`},
		{head + "a\x00,0,0,1,2,3,1,1,,,,\n", `line 2: job "a\x00": has a control character`},
		{head + "\xff,0,0,1,2,3,1,1,,,,\n", `line 2: job "\xff": not UTF-8`},
		{head + "a,-1,0,1,2,3,1,1,,,,\n", `line 2: task "-1": want a whole number, 0 or more`},
		{head + "a,2147483648,0,1,2,3,1,1,,,,\n", `line 2: task "2147483648": more than 2147483647`},
		{head + "a,0,,1,2,3,1,1,,,,\n", `line 2: submit_s "": want seconds, such as 12.5`},
		{head + "a,0,1e99,1,2,3,1,1,,,,\n", `line 2: submit_s "1e99": more than 9223372036`},
		{head + "a,0,-1,1,2,3,1,1,,,,\n", `line 2: submit_s "-1": want seconds`},
		{head + "a,0,0,0x1p3,2,3,1,1,,,,\n", `line 2: run_s "0x1p3": want seconds`},
		{head + "a,0,0,9223372036.9,2,3,1,1,,,,\n", `line 2: run_s "9223372036.9": more than 9223372036`},
		{head + "a,0,0,99999999999999999999,2,3,1,1,,,,\n", `line 2: run_s "99999999999999999999": more than 9223372036`},
		{head + "a,0.5,0,1,2,3,1,1,,,,\n", `line 2: task "0.5": want a whole number, 0 or more`},
		{head + "a,0,0,1,2,3,1,1e19,,,,\n", `line 2: memory_bytes "1e19": more than 9223372036854775807`},
		{head + "a,0,0,1,12,3,1,1,,,,\n", `line 2: priority "12": more than 11`},
		{head + "a,0,0,1,2,4,1,1,,,,\n", `line 2: class "4": more than 3`},
		{head + "a,0,0,1,2,3,NaN,1,,,,\n", `line 2: cpus "NaN": want a number, 0 or more`},
		{head + "a,0,0,1,2,3,1e99,1,,,,\n", `line 2: cpus "1e99": want a number, 0 or more`},
		{head + "a,0,0,1,2,3,1,1,,5,,\n", `line 2: file "": empty, but something is read`},
		{head + "a,0,0,1,2,3,1,1,f,9223372036854775807,1,\n", `line 2: input_bytes "1": too many after offset`},
		{head + "\"a,0,0,1,2,3,1,1,,,,\n", `line 2: `},
		{head + "\"" + strings.Repeat("x", 3*input.MaxLine) + "\",0,0,1,2,3,1,1,,,,\n", "line 2: longer than 65536 bytes: this is no trace"},
		{strings.Repeat("x", 3*input.MaxLine), "line 1: longer than 65536 bytes: this is no trace"},
	} {
		_, err := parseCSV(strings.NewReader(c.text))
		var se *input.SyntaxError
		if !errors.As(err, &se) || !strings.HasPrefix(err.Error(), "trace: "+c.says) {
			t.Errorf("%.80q: %v; want %s", c.text, err, c.says)
		}
	}
	fire := errors.New("the disk is on fire")
	if _, err := parseCSV(io.MultiReader(strings.NewReader(head), iotest.ErrReader(fire))); !errors.Is(err, fire) {
		t.Error(err)
	}
}

func TestWriteCSVRefuses(t *testing.T) {
	for _, c := range []struct {
		w    workload.Workload
		says string
	}{
		{workload.Workload{Jobs: []string{"a", "a"}}, `two jobs are called "a"`},
		{workload.Workload{Jobs: []string{""}}, "one of the jobs has no name"},
		{workload.Workload{Files: []workload.File{{Name: "a"}, {Name: "a"}}}, `two files are called "a"`},
		{workload.Workload{Users: []string{"a", "a"}}, `two users are called "a"`},
		{workload.Workload{Resources: []string{""}}, "one of the resources has no name"},
		{workload.Workload{Jobs: []string{"a\nb"}}, "has what is no text in it"},
	} {
		if err := Write(io.Discard, &c.w); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.w, err)
		}
	}
	full := errors.New("no space")
	w := workload.Workload{Jobs: []string{"a"}, Tasks: make([]workload.Task, 1000)}
	if err := Write(failingWriter{full}, &w); !errors.Is(err, full) {
		t.Error(err)
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", 1: "0.000000001", time.Second: "1", 1500 * time.Millisecond: "1.5", math.MaxInt64: "9223372036.854775807"} {
		if got := csvSeconds(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
		if back, err := parseSeconds(want); back != d || err != nil {
			t.Errorf("%s: %d, %v", want, back, err)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{"1e3": 1000 * time.Second, "1.5E-3": 1500 * time.Microsecond, "0.30000000000000004": 300 * time.Millisecond,
		"1.0000000005": time.Second + 1, "0.9999999999": time.Second, "007.50": 7500 * time.Millisecond} {
		if got, err := parseSeconds(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ".", ".5", "5.", "-1", "+1", "1e", "1_0", "inf", "nan", "1e400", "9223372036.8547758079", "1 "} {
		if got, err := parseSeconds(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// The example of the documentation is right.
func TestCSVExample(t *testing.T) {
	b, err := os.ReadFile("../../docs/traces.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "```csv\n")
	text, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("docs/traces.md has no example of CSV")
	}
	w, err := parseCSV(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(len(w.Tasks), w.Jobs, w.Files, w.Recorded, w.Tasks[2].Submit, w.Tasks[2].Preempted, w.Tasks[2].Lost); got != "5 [etl report] [{/data/clicks 402653184}] true 0s 2 1m35.5s" {
		t.Error(got)
	}
	for _, column := range csvColumns {
		if !strings.Contains(string(b), "| `"+column+"` |") {
			t.Errorf("docs/traces.md does not say what %s is", column)
		}
	}
}

func FuzzReadCSV(f *testing.F) {
	w := randomWorkload(rand.New(rand.NewPCG(3, 12)))
	var b bytes.Buffer
	if err := Write(&b, w); err != nil {
		f.Fatal(err)
	}
	f.Add(b.String())
	f.Add("job,submit_s,run_s,file,file_bytes\na,0.5,1,f,100\n\"b\nc\",1,1,,\n")
	f.Add("job,task,submit_s,run_s,cpus,grow_s,dirty_bytes_per_s\na,2147483647,0,0,0x1p-3,1_0,.5\na,,0,0,,,\n")
	f.Add("job,submit_s,run_s,user,stage,after,gang,need.gpu,x\na,1e0,1.00000000001,u,b,a,1,1,x\na,0,0,,a,,1,,\n")
	f.Add("job,submit_s,run_s,stage,after\na,0,0,a,b\na,0,0,b,a\n")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := parseCSV(strings.NewReader(text))
		var se *input.SyntaxError
		if err != nil {
			if strings.Contains(err.Error(), "in a circle") {
				return
			}
			if !errors.As(err, &se) || se.Line < 1 || se.Line > strings.Count(text, "\n")+strings.Count(text, "\r")+1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
		w.Notes = nil
		var b bytes.Buffer
		if err := Write(&b, w); err != nil {
			t.Fatal(err)
		}
		again, err := parseCSV(&b)
		if err != nil || !reflect.DeepEqual(normal(again), normal(w)) {
			t.Fatalf("%q: written and read again: %+v, %v; want %+v", text, again, err, w)
		}
	})
}
