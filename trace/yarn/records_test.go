package yarn

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/trace/input"
	"headrace/trace/workload"

	"headrace"
)

func gather(t *testing.T, name string, o Options) (*workload.Workload, error) {
	t.Helper()
	part := workload.Part{Tasks: 1000, Names: true}
	return workload.Gather(part, func(to workload.Sink) (workload.About, error) {
		return Read(input.NewMeter(t.Context(), nil), name, o, part, to)
	})
}

func open(t *testing.T, name string, o Options) *workload.Workload {
	t.Helper()
	w, err := gather(t, name, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestYarnREST(t *testing.T) {
	w := open(t, "testdata/rest", Options{Queues: map[string]headrace.Priority{"batch": headrace.Low}, Assumed: workload.Assumed{Dirty: -1}})
	jobs := []string{"application_1700000000000_0007:nightly, report", "application_1700000000000_0008:Spark shell"}
	if !slices.Equal(w.Jobs, jobs) || !w.Recorded || len(w.Files) > 0 {
		t.Errorf("jobs %q, recorded %v, files %v", w.Jobs, w.Recorded, w.Files)
	}
	const gib = 1 << 30
	s := time.Second
	want := []workload.Task{
		{Job: 0, Index: 0, Submit: 0, Run: 298 * s, Priority: 2, CPUs: 1, Memory: 2 * gib},
		// Preempted after 40 s; its successor began 30 s later.
		{Job: 0, Index: 3, Submit: 10 * s, Run: 80 * s, Priority: 2, CPUs: 1, Memory: 2 * gib, Preempted: 1, Lost: 40 * s},
		{Job: 0, Index: 1, Submit: 10200 * time.Millisecond, Run: 90 * s, Priority: 2, CPUs: 1, Memory: 2 * gib},
		{Job: 0, Index: 2, Submit: 60 * s, Run: 60 * s, Priority: 2, CPUs: 2, Memory: 4 * gib},
		{Job: 0, Index: 4, Submit: 130 * s, Run: 20 * s, Priority: 2, CPUs: 2, Memory: 4 * gib, Preempted: 1, Lost: 20 * s},
	}
	for i := range int32(4) {
		e := workload.Task{Job: 1, Index: i, Submit: 60 * s, Run: 100 * s, Priority: 9, CPUs: 1, Memory: 2 * gib}
		if i < 3 {
			e.Preempted, e.Lost = 1, 10*s
		}
		want = slices.Insert(want, 4+int(i), e)
	}
	for i := range want {
		want[i].User = want[i].Job + 1
	}
	if !slices.Equal(w.Users, []string{"ana", "bo"}) {
		t.Errorf("users %q", w.Users)
	}
	if !slices.Equal(w.Tasks, want) {
		t.Errorf("got  %+v\nwant %+v", w.Tasks, want)
	}
	notes := strings.Join(w.Notes, "\n")
	for _, says := range []string{"1 applications without records of containers", "1 containers or applications that never ran", "1 preempted containers without a successor"} {
		if !strings.Contains(notes, says) {
			t.Errorf("notes %q do not say %q", notes, says)
		}
	}
}

func TestYarnLog(t *testing.T) {
	w := open(t, "testdata/log", Options{})
	dirty := func(memory int64) float32 { return float32(workload.DefaultDirty * float64(memory)) }
	ms := time.Millisecond
	want := []workload.Task{
		{Submit: 0, Run: 70 * time.Second, Priority: headrace.Normal, CPUs: 1, Memory: 2 << 30, Dirty: dirty(2 << 30)},
		{Index: 1, Submit: 9990 * ms, Run: 30250 * ms, Priority: headrace.Normal, CPUs: 1, Memory: 1 << 30, Dirty: dirty(1 << 30), Preempted: 1, Lost: 20 * time.Second},
	}
	want[0].User, want[1].User = 1, 1
	if !slices.Equal(w.Tasks, want) || !slices.Equal(w.Jobs, []string{"application_1700000000000_0011:select a, b from t"}) {
		t.Errorf("%q\ngot  %+v\nwant %+v", w.Jobs, w.Tasks, want)
	}
	// Together with the answers of the REST API the eight hours of the log's clock
	// have to be right.
	both := open(t, "testdata", Options{})
	if len(both.Tasks) != 11 || both.Tasks[10].Submit != 310*time.Second {
		t.Errorf("%d tasks, the last one submitted at %v", len(both.Tasks), both.Tasks[len(both.Tasks)-1].Submit)
	}
	zoned := open(t, "testdata", Options{Zone: time.FixedZone("", 8*3600)})
	if !slices.Equal(both.Tasks, zoned.Tasks) {
		t.Error("the zone found out is another one than the zone given")
	}
}

func readText(kind, text string) error {
	y := newRecords()
	m := input.NewMeter(context.Background(), nil)
	if err := y.file(m, "x."+kind, strings.NewReader(text)); err != nil {
		return err
	}
	var a workload.About
	return y.tasks(&Options{}, 1000, &workload.Collector{Most: 1000}, &a)
}

func TestYarnRefuses(t *testing.T) {
	for _, c := range []struct{ kind, text, says string }{
		{"json", "{\"apps\":\n{\"app\":[{\"id\":\"x\"}]}}", `line 2: id "x": want application_TIME_NUMBER`},
		{"json", "{\"app\":[\n\n{\"name\":\"x\"}]}", `line 3: an application without id`},
		{"json", `{"app":{"id":7}}`, `line 1: id "7": want a text`},
		{"json", "{\"app\":{\n\"priority\":\n1.5}}", `line 3: priority "1.5": want a whole number`},
		{"json", `{"app":{"startedTime":99999999999999}}`, `line 1: startedTime "99999999999999": not a time in milliseconds`},
		{"json", `{"app":{"finishedTime":9999999999999}}`, `line 1: finishedTime "9999999999999": not a time in milliseconds`},
		{"json", `{"container":[{"containerId":"container_1_2_3"}]}`, `line 1: containerId "container_1_2_3": want container_TIME_NUMBER_ATTEMPT_CONTAINER`},
		{"json", `{"container":[{}]}`, `line 1: a container without containerId`},
		{"json", `{"container":[{"containerId":"container_1_2_3_4","allocatedMB":1099511627776}]}`, `line 1: a container of 1099511627776 MB and 0 cores`},
		{"json", "{\"apps\":\n\n{", `line 3: the file ends in the middle: is it complete?`},
		{"json", "{\"apps\":\n}", `line 2: no JSON: `},
		{"json", strings.Repeat("[", 100), `line 1: more than 50 objects inside each other`},
		{"json", `{"app":{"diagnostics":"` + strings.Repeat("x", 2*maxRecord) + `"}}`, `line 1: a value or record of more than 4194304 bytes`},
		{"json", `{"app":{"id":"application_1_2","startedTime":1,"finishedTime":2,"vcoreSeconds":10000000}}`, `application_1_0002: 10000000 vcore-seconds in 1 ms are 10000000000 cores at once: more than 1000000`},
		{"json", `{"app":{"id":"application_1_2","startedTime":1000,"finishedTime":2000,"vcoreSeconds":1001}}`, `there are more than 1000 tasks`},
		{"log", "x\n2021-11-23 10:06:29,404 INFO C: container_1_2_3 Container Transitioned from NEW to ALLOCATED", `line 2: container "container_1_2_3": want container_TIME_NUMBER_ATTEMPT_CONTAINER`},
		{"log", "10:06:29,404 INFO C: container_1_2_3_4 Container Transitioned from NEW to ALLOCATED", `line 1: time "10:06:29,404 INFO C": want a line that begins like 2006-01-02 15:04:05,000`},
		{"log", "2021-11-23 10:06:29,404 INFO C: container_1_2_3_4 Container Transitioned from NEW to FUN", `line 1: state "FUN": not one of a container's`},
		{"log", "OPERATION=AM Allocated Container\tRESULT=SUCCESS\tCONTAINERID=container_1_2_3_4\tRESOURCE=<memory:x>", `line 1: memory "x": want a number of 0 to 1073741824`},
		{"log", "2021-11-23 10:06:29,404 ApplicationSummary: appId=application_1_2,finishTime=x", `line 1: finishTime "x": want a whole number, times in milliseconds`},
	} {
		if err := readText(c.kind, c.text); err == nil || !strings.HasPrefix(err.Error(), "trace: "+c.says) {
			t.Errorf("%.60q: %v; want %s", c.text, err, c.says)
		}
	}
	// Lines that are too long, or say nothing, are skipped.
	if err := readText("log", strings.Repeat("x", 3*input.MaxLine)+"\nOPERATION=AM Allocated Container\tRESULT=FAILURE\n"); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	for _, c := range []struct{ path, text, says string }{
		{"", "", "there are no files *.json or *.log"},
		{"a.txt", "", "want a file that ends in .json or .log"},
		{"empty.json", `{"apps":null}`, "no applications and no containers"},
		{"bad.json", `{"apps"`, "bad.json: trace: line 1: the file ends in the middle"},
		{"none.json.gz", `{"apps":null}, not compressed`, "gzip: invalid header"},
	} {
		name := filepath.Join(dir, c.path)
		if c.path != "" {
			if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := gather(t, name, Options{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %s", c.path, err, c.says)
		}
	}
	if _, err := gather(t, dir+"/missing", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func FuzzYarnJSON(f *testing.F) {
	for _, name := range []string{"apps.json", "containers-0007.json"} {
		b, err := os.ReadFile("testdata/rest/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add(`{"app":{"id":"application_1_2","priority":"3"},"x":[{"container":{"containerId":"container_e1_2_3_4_5","startedTime":5}}]}`)
	f.Fuzz(func(t *testing.T, text string) { fuzz(t, "json", text) })
}

func FuzzYarnLog(f *testing.F) {
	file, err := os.Open("testdata/log/hadoop-yarn-resourcemanager-rm.log")
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	b, err := io.ReadAll(file)
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f.Add(line)
	}
	f.Add(string(b))
	f.Fuzz(func(t *testing.T, text string) { fuzz(t, "log", text) })
}

func fuzz(t *testing.T, kind, text string) {
	y := newRecords()
	m := input.NewMeter(context.Background(), nil)
	c := &workload.Collector{Most: 1000}
	a := workload.About{}
	err := y.file(m, "x."+kind, strings.NewReader(text))
	if err == nil {
		err = y.tasks(&Options{}, c.Most, c, &a)
		if err == nil {
			w, err := c.Workload(a)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Check(); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	var se *input.SyntaxError
	if !errors.As(err, &se) || se.Line < 1 || se.Line > strings.Count(text, "\n")+1 {
		t.Fatalf("%q: %v", text, err)
	}
}
