package swim

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode"
	"unicode/utf8"

	"headrace/trace/input"
)

const (
	samplePlain = "testdata/FB-2009_samples_24_times_1hr_0_first50jobs.tsv"
	samplePaths = "testdata/FB-2010_samples_24_times_1hr_withInputPaths_0_first60jobs.tsv"
)

func readFile(t *testing.T, name string) []Job {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	jobs, err := Collect(Read(f))
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func TestReadSamples(t *testing.T) {
	plain := readFile(t, samplePlain)
	want := Job{ID: "job17", Submit: 1128 * time.Second, Input: 10274791099, Shuffle: 13024975762, Output: 3600817163}
	if len(plain) != 50 || plain[17] != want {
		t.Errorf("%d jobs, job 17 is %+v, want 50 and %+v", len(plain), plain[17], want)
	}
	paths := readFile(t, samplePaths)
	want = Job{ID: "job1", Submit: 2 * time.Second, Input: 20791551476, Shuffle: 12295202125, Output: 1491950225, InputPath: "inputPath2"}
	if len(paths) != 60 || paths[1] != want || paths[5].InputPath != want.InputPath {
		t.Errorf("%d jobs, job 1 is %+v, want 60 and %+v; job 5 reads %q too", len(paths), paths[1], want, paths[5].InputPath)
	}
}

// TestFacebookDay compares with sums that were made with awk.
func TestFacebookDay(t *testing.T) {
	for range 2 {
		jobs, err := Collect(FacebookDay())
		if err != nil {
			t.Fatal(err)
		}
		var input int64
		for _, j := range jobs {
			input += j.Input
		}
		if len(jobs) != 5894 || input != 26886497357605 || jobs[5893].Submit != 86404*time.Second {
			t.Fatalf("%d jobs read %d bytes, the last one submitted at %v", len(jobs), input, jobs[5893].Submit)
		}
		if first := readFile(t, samplePlain); !reflect.DeepEqual(jobs[:50], first) {
			t.Fatal("the first 50 jobs are not those of the sample")
		}
	}
	if !strings.Contains(License, "Regents of the University of California") {
		t.Error("the licence is not the one that goes with the trace")
	}
}

func TestReadForms(t *testing.T) {
	job := Job{ID: "a b", Submit: 3 * time.Second, Input: 4, Shuffle: 5, Output: 6}
	in, both := job, job
	in.InputPath = "i"
	both.InputPath, both.OutputPath = "i", "ö"
	for text, want := range map[string][]Job{
		"":                           nil,
		"\n\r\n\n":                   nil,
		"a b\t3\t1\t4\t5\t6":         {job},
		"a b\t3\t1\t4\t5\t6\n":       {job},
		"a b\t3\t1\t4\t5\t6\r\n":     {job},
		"a b\t3\t1\t4\t5\t6\t\n":     {job},
		"a b\t3\t1\t4\t5\t6\t\t\t\n": {job},
		"a b\t3\t1\t4\t5\t6\ti\n":    {in},
		"a b\t3\t1\t4\t5\t6\ti\tö\t": {both},
		"a b\t3\t1\t4\t5\t6\n\na b\t3\t0\t4\t5\t6": {job, job},
		"a b\t03\t1\t4\t005\t6":                    {job},
	} {
		got, err := Collect(Read(strings.NewReader(text)))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	good := "j\t3\t1\t4\t5\t6\n"
	long := strings.Repeat("x", 100)
	for _, c := range []struct{ text, says string }{
		{"j\t3\t1\t4\t5", "line 1: 5 fields, want 6 to 9, separated by tabs"},
		{"j 3 1 4 5 6", "line 1: 1 fields, want 6 to 9, separated by tabs"},
		{good + "j\t3\t1\t4\t5\t6\t\t\t\t\t", "line 2: 11 fields, want 6 to 9"},
		{good + "\n\t3\t1\t4\t5\t6\n", `line 3: name "": empty`},
		{"j\xff\t3\t1\t4\t5\t6", `line 1: name "j\xff": not UTF-8`},
		{"j\x00\t3\t1\t4\t5\t6", `line 1: name "j\x00": has a control character`},
		{"j\t\t1\t4\t5\t6", `line 1: submitted "": want a whole number, 0 or more`},
		{"j\t3.5\t1\t4\t5\t6", `line 1: submitted "3.5": want a whole number, 0 or more`},
		{"j\t9223372037\t1\t4\t5\t6", `line 1: submitted "9223372037": more than 9223372036`},
		{good + "k\t2\t1\t4\t5\t6", `line 2: submitted "2": before the job of the line before, which was submitted at 3`},
		{"j\t3\tx\t4\t5\t6", `line 1: gap "x": want a whole number, 0 or more`},
		{"j\t3\t1\t-4\t5\t6", `line 1: input "-4": want a whole number, 0 or more`},
		{"j\t3\t1\t+4\t5\t6", `line 1: input "+4": want a whole number, 0 or more`},
		{"j\t3\t1\t4\t9223372036854775808\t6", `line 1: shuffle "9223372036854775808": more than 9223372036854775807`},
		{"j\t3\t1\t4\t" + strings.Repeat("9", 100) + "\t6", "line 1: shuffle \"" + strings.Repeat("9", 60) + "...\": more than 9223372036854775807"},
		{"j\t3\t1\t4\t5\t 6", `line 1: output " 6": want a whole number, 0 or more`},
		{"j\t3\t1\t4\t5\t6\ti\x7f", `line 1: input path "i\x7f": has a control character`},
		{"j\t3\t1\t4\t5\t6\ti\t\xc3", `line 1: output path "\xc3": not UTF-8`},
		{"j\t3\t1\t4\t5\t6\ti\to\t" + long, "line 1: last field \"" + long[:60] + "...\": want nothing after the output path"},
		{good + strings.Repeat("x", input.MaxLine+1), "line 2: longer than 65536 bytes: this is no trace"},
	} {
		before, err := Collect(Read(strings.NewReader(c.text)))
		var syntax *input.SyntaxError
		if !errors.As(err, &syntax) || err.Error() != "trace: "+c.says {
			t.Errorf("%.40q: got %v\nwant trace: %s", c.text, err, c.says)
		}
		if n := strings.Count(c.text[:strings.LastIndex(c.text, "\n")+1], good); len(before) != n {
			t.Errorf("%.40q: %d jobs before the error, want %d", c.text, len(before), n)
		}
	}
}

func TestReadErrorsOfTheReader(t *testing.T) {
	broken := errors.New("the disk is on fire")
	r := io.MultiReader(strings.NewReader("j\t3\t1\t4\t5\t6\nk\t4"), iotest.ErrReader(broken))
	jobs, err := Collect(Read(r))
	if len(jobs) != 1 || !errors.Is(err, broken) || err.Error() != "trace: line 2: the disk is on fire" {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
	if _, err := Collect(Read(iotest.OneByteReader(strings.NewReader("j\t3\t1\t4\t5\t6\nk\t4\t1\t1\t1\t1")))); err != nil {
		t.Errorf("byte by byte: %v", err)
	}
}

// endless makes lines without end, n of them, or one without end when n is 0.
type endless struct {
	n    int
	rest string
}

func (e *endless) Read(b []byte) (int, error) {
	if e.rest == "" {
		if e.n--; e.n == 0 {
			return 0, io.EOF
		}
		e.rest = "xxxxxxxxxxxxxxxxxxxxxxxx"
		if e.n > 0 {
			e.rest = "j\t3\t1\t4\t5\t6\n"
		}
	}
	n := copy(b, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// TestReadNeedsLittleMemory reads a trace of a million jobs, and a line without
// end.
func TestReadNeedsLittleMemory(t *testing.T) {
	n, most := 0, uint64(0)
	var m runtime.MemStats
	for _, err := range Read(&endless{n: 1e6}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%100000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	if n != 1e6-1 || most > 8<<20 {
		t.Errorf("%d jobs, up to %d bytes on the heap", n, most)
	}
	if _, err := Collect(Read(&endless{})); err == nil {
		t.Error("a line without end was accepted")
	}
}

func TestReadStopsWhenAsked(t *testing.T) {
	for range Read(&endless{n: 1 << 40}) {
		break
	}
	if jobs, err := Collect(First(Read(&endless{n: 1 << 40}), 7)); len(jobs) != 7 || err != nil {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}

// oracle reads a whole text in the simplest way; ok is false when there is
// anything wrong with it.
func oracle(text string) (jobs []Job, ok bool) {
	last := int64(0)
	for _, line := range strings.Split(text, "\n") {
		if len(line) >= input.MaxLine {
			return nil, false
		}
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) < 6 || len(f) > 9 || f[0] == "" || len(f) == 9 && f[8] != "" {
			return nil, false
		}
		for i, s := range f {
			if !utf8.ValidString(s) || strings.IndexFunc(s, unicode.IsControl) >= 0 || i > 0 && i < 6 && strings.ContainsAny(s, "+-_") {
				return nil, false
			}
		}
		var v [5]int64
		for i := range v {
			n, err := strconv.ParseInt(f[1+i], 10, 64)
			if err != nil {
				return nil, false
			}
			v[i] = n
		}
		if v[0] < last || v[0] > math.MaxInt64/1000000000 {
			return nil, false
		}
		last = v[0]
		f = append(f, "", "")
		jobs = append(jobs, Job{f[0], time.Duration(v[0]) * time.Second, v[2], v[3], v[4], f[6], f[7]})
	}
	return jobs, true
}

func FuzzRead(f *testing.F) {
	f.Add("job0\t49\t49\t740773\t2339561\t627471\njob1\t101\t52\t736346\t1700537\t432269\n")
	f.Add("job0\t1\t1\t2267942\t0\t1937944\tinputPath1\t\t\n\r\n")
	f.Add("j\t9223372036\t0\t9223372036854775807\t0\t0\nj\t1\t0\t0\t0\t0")
	f.Add("j\xff\t3\t1\t4\t5\t6")
	f.Fuzz(func(t *testing.T, text string) {
		want, ok := oracle(text)
		got, err := Collect(Read(strings.NewReader(text)))
		if ok != (err == nil) || ok && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %+v, %v; want %+v, good: %v", text, got, err, want, ok)
		}
		var syntax *input.SyntaxError
		if err != nil && (!errors.As(err, &syntax) || syntax.Line < 1 || syntax.Line > strings.Count(text, "\n")+1) {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil {
			return
		}
		again, err := Collect(Read(strings.NewReader(format(got))))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%q: written and read again: %+v, %v", text, again, err)
		}
	})
}

func format(jobs []Job) string {
	var b strings.Builder
	for _, j := range jobs {
		fmt.Fprintf(&b, "%s\t%d\t0\t%d\t%d\t%d\t%s\t%s\n", j.ID, int64(j.Submit/time.Second), j.Input, j.Shuffle, j.Output, j.InputPath, j.OutputPath)
	}
	return b.String()
}

func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		for _, err := range FacebookDay() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
