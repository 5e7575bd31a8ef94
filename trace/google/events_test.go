package google

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"headrace/trace/input"

	"headrace"
)

// googleLines are in the published format, with made-up values.
const googleLines = `0,2,3418309,0,4155527081,0,Gh3/x+y0=,3,9,0.125,0.07446,0.0004244,0
600000000,,3418309,0,4155527081,1,Gh3/x+y0=,3,9,0.125,0.07446,0.0004244,0
612000001,,3418314,11,,0,user,0,0,,,,
612500000,,3418314,11,329150663,2,user,0,0,0.5,1,,1
9223372036854775807,,3418314,11,,4,user,0,11,0.25,0,,1
`

func events(t *testing.T, all iter.Seq2[Event, error]) (list []Event) {
	t.Helper()
	for e, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func TestReadGoogle(t *testing.T) {
	want := []Event{
		{At: 0, Job: 3418309, Machine: 4155527081, Kind: Submit, Class: 3, Priority: 9, CPUs: 0.125, Memory: 0.07446, Inferred: true},
		{At: 0, Job: 3418309, Machine: 4155527081, Kind: Schedule, Class: 3, Priority: 9, CPUs: 0.125, Memory: 0.07446},
		{At: 12*time.Second + time.Microsecond, Job: 3418314, Task: 11, Kind: Submit},
		{At: 12500 * time.Millisecond, Job: 3418314, Task: 11, Machine: 329150663, Kind: Evict, CPUs: 0.5, Memory: 1},
		{At: After, Job: 3418314, Task: 11, Kind: Finish, Priority: headrace.MaxPriority, CPUs: 0.25},
	}
	got := events(t, ReadEvents(strings.NewReader(strings.ReplaceAll(googleLines, "\n", "\r\n\n"))))
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestReadGoogleRefuses(t *testing.T) {
	good := strings.Split(strings.Split(googleLines, "\n")[1], ",")
	for _, c := range []struct {
		field int
		value string
		want  string
	}{
		{0, "-1", `line 2: time "-1": want a whole number, 0 or more`},
		{0, "9223372036854775808", `line 2: time "9223372036854775808": more than 9223372036854775807`},
		{2, "", `line 2: job ID "": want a whole number, 0 or more`},
		{3, "2147483648", `line 2: task index "2147483648": more than 2147483647`},
		{4, "x", `line 2: machine ID "x": want a whole number, 0 or more`},
		{5, "9", `line 2: event type "9": more than 8`},
		{7, "4", `line 2: scheduling class "4": more than 3`},
		{8, "12", `line 2: priority "12": more than 11`},
		{9, "1.5", `line 2: CPU request "1.5": want a number from 0 to 1`},
		{10, "NaN", `line 2: memory request "NaN": want a number from 0 to 1`},
		{12, "0,1", `line 2: 14 fields, want 13, separated by commas`},
	} {
		f := slices.Clone(good)
		f[c.field] = c.value
		var err error
		n := 0
		for _, e := range ReadEvents(strings.NewReader(strings.Join(good, ",") + "\n" + strings.Join(f, ",") + "\nnever read")) {
			err = e
			n++
		}
		var se *input.SyntaxError
		if !errors.As(err, &se) || err.Error() != "trace: "+c.want || n != 2 {
			t.Errorf("%d = %q: %v after %d events", c.field, c.value, err, n)
		}
	}
}

func compressed(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.Bytes()
}

func TestGoogleDir(t *testing.T) {
	lines := strings.SplitAfter(googleLines, "\n")
	dir := fstest.MapFS{
		"task_events/part-00000-of-00500.csv.gz": {Data: compressed(lines[0] + lines[1])},
		"task_events/part-00001-of-00500.csv.gz": {Data: compressed("")},
		"task_events/part-00010-of-00500.csv":    {Data: []byte(lines[2] + lines[3] + lines[4])},
		"job_events/part-00000-of-00500.csv.gz":  {Data: []byte("not looked at")},
	}
	if got, want := events(t, Dir(dir)), events(t, ReadEvents(strings.NewReader(googleLines))); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	for range Dir(dir) {
		break // in the middle of a file
	}
	dir["task_events/part-00001-of-00500.csv.gz"].Data = compressed(lines[0] + "x\n")
	dir["task_events/part-00000-of-00500.csv.gz"].Data = compressed("")[:15]
	failure := func() (err error) {
		for _, err = range Dir(dir) {
		}
		return err
	}
	if err := failure(); err == nil || !strings.HasPrefix(err.Error(), "task_events/part-00000-of-00500.csv.gz: ") {
		t.Error(err)
	}
	delete(dir, "task_events/part-00000-of-00500.csv.gz")
	if err := failure(); err == nil || err.Error() != "task_events/part-00001-of-00500.csv.gz: trace: line 2: 1 fields, want 13, separated by commas" {
		t.Error(err)
	}
	clear(dir)
	if err := failure(); err == nil || !strings.Contains(err.Error(), "no trace of Google's") {
		t.Error(err)
	}
}

// What is written in the published format is read again.
func TestGoogleRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	var want []Event
	for range 5000 {
		e := Event{
			At: time.Duration(r.Int64N(3e12)) * time.Microsecond, Job: r.Int64(), Task: r.Int32(), Machine: r.Int64N(3) * r.Int64N(1<<40),
			Kind: Kind(r.IntN(int(kinds))), Class: uint8(r.IntN(4)), Priority: headrace.Priority(r.IntN(12)),
			CPUs: r.Float64(), Memory: r.Float64(), Inferred: r.IntN(5) == 0,
		}
		missing, machine := "", ""
		if e.Inferred {
			missing = fmt.Sprint(r.IntN(3))
		}
		if e.Machine > 0 {
			machine = fmt.Sprint(e.Machine)
		}
		fmt.Fprintf(&text, "%d,%s,%d,%d,%s,%d,u,%d,%d,%v,%v,0.5,0\n", (e.At+lead)/time.Microsecond, missing, e.Job, e.Task, machine, e.Kind, e.Class, e.Priority, e.CPUs, e.Memory)
		want = append(want, e)
	}
	if got := events(t, ReadEvents(strings.NewReader(text.String()))); !slices.Equal(got, want) {
		t.Error("what was read is not what was written")
	}
}

func FuzzReadGoogle(f *testing.F) {
	f.Add([]byte(googleLines))
	f.Add([]byte("1,,,\n,,,,,,,,,,,,"))
	f.Fuzz(func(t *testing.T, text []byte) {
		failed := false
		for e, err := range ReadEvents(bytes.NewReader(text)) {
			var se *input.SyntaxError
			switch {
			case failed:
				t.Fatal("it went on after an error")
			case err != nil && !errors.As(err, &se):
				t.Fatal(err)
			case err == nil && (e.At < 0 || e.Kind >= kinds || e.Priority > headrace.MaxPriority || !(e.CPUs >= 0 && e.CPUs <= 1)):
				t.Fatalf("%+v", e)
			}
			failed = err != nil
		}
	})
}
