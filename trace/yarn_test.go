package trace

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

	"headrace"
)

func open(t *testing.T, source string, o OpenOptions) *Workload {
	t.Helper()
	w, err := Open(t.Context(), source, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestYarnREST(t *testing.T) {
	w := open(t, "yarn:testdata/yarn/rest", OpenOptions{Yarn: YarnOptions{Queues: map[string]headrace.Priority{"batch": headrace.Low}, Assumed: Assumed{Dirty: -1}}})
	jobs := []string{"application_1700000000000_0007:nightly, report", "application_1700000000000_0008:Spark shell"}
	if !slices.Equal(w.Jobs, jobs) || !w.Recorded || len(w.Files) > 0 {
		t.Errorf("jobs %q, recorded %v, files %v", w.Jobs, w.Recorded, w.Files)
	}
	const gib = 1 << 30
	s := time.Second
	want := []Task{
		{Job: 0, Index: 0, Submit: 0, Run: 298 * s, Priority: 2, CPUs: 1, Memory: 2 * gib},
		// Preempted after 40 s; its successor began 30 s later.
		{Job: 0, Index: 3, Submit: 10 * s, Run: 80 * s, Priority: 2, CPUs: 1, Memory: 2 * gib, Preempted: 1, Lost: 40 * s},
		{Job: 0, Index: 1, Submit: 10200 * time.Millisecond, Run: 90 * s, Priority: 2, CPUs: 1, Memory: 2 * gib},
		{Job: 0, Index: 2, Submit: 60 * s, Run: 60 * s, Priority: 2, CPUs: 2, Memory: 4 * gib},
		{Job: 0, Index: 4, Submit: 130 * s, Run: 20 * s, Priority: 2, CPUs: 2, Memory: 4 * gib, Preempted: 1, Lost: 20 * s},
	}
	for i := range int32(4) {
		e := Task{Job: 1, Index: i, Submit: 60 * s, Run: 100 * s, Priority: 9, CPUs: 1, Memory: 2 * gib}
		if i < 3 {
			e.Preempted, e.Lost = 1, 10*s
		}
		want = slices.Insert(want, 4+int(i), e)
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
	w := open(t, "yarn:testdata/yarn/log", OpenOptions{})
	dirty := func(memory int64) float32 { return float32(defaultDirty * float64(memory)) }
	ms := time.Millisecond
	want := []Task{
		{Submit: 0, Run: 70 * time.Second, Priority: headrace.Normal, CPUs: 1, Memory: 2 << 30, Dirty: dirty(2 << 30)},
		{Index: 1, Submit: 9990 * ms, Run: 30250 * ms, Priority: headrace.Normal, CPUs: 1, Memory: 1 << 30, Dirty: dirty(1 << 30), Preempted: 1, Lost: 20 * time.Second},
	}
	if !slices.Equal(w.Tasks, want) || !slices.Equal(w.Jobs, []string{"application_1700000000000_0011:select a, b from t"}) {
		t.Errorf("%q\ngot  %+v\nwant %+v", w.Jobs, w.Tasks, want)
	}
	// Together with the answers of the REST API the eight hours of the log's clock
	// have to be right.
	both := open(t, "yarn:testdata/yarn", OpenOptions{})
	if len(both.Tasks) != 11 || both.Tasks[10].Submit != 310*time.Second {
		t.Errorf("%d tasks, the last one submitted at %v", len(both.Tasks), both.Tasks[len(both.Tasks)-1].Submit)
	}
	zoned := open(t, "yarn:testdata/yarn", OpenOptions{Yarn: YarnOptions{Zone: time.FixedZone("", 8*3600)}})
	if !slices.Equal(both.Tasks, zoned.Tasks) {
		t.Error("the zone found out is another one than the zone given")
	}
}

func readYarnText(kind, text string) error {
	y := newYarnRecords()
	m := newMeter(context.Background(), nil)
	if err := y.file(m, "x."+kind, strings.NewReader(text)); err != nil {
		return err
	}
	var a about
	return y.tasks(&YarnOptions{}, 1000, &collector{most: 1000}, &a)
}

func TestYarnRefuses(t *testing.T) {
	for _, c := range []struct{ kind, text, says string }{
		{"json", "{\"apps\":\n{\"app\":[{\"id\":\"x\"}]}}", `line 2: id "x": want application_TIME_NUMBER`},
		{"json", "{\"app\":[\n\n{\"name\":\"x\"}]}", `line 3: an application without id`},
		{"json", `{"app":{"id":7}}`, `line 1: id "7": want a text`},
		{"json", "{\"app\":{\n\"priority\":\n1.5}}", `line 3: priority "1.5": want a whole number`},
		{"json", `{"app":{"startedTime":99999999999999}}`, `line 1: startedTime "99999999999999": not a time in milliseconds`},
		{"json", `{"container":[{"containerId":"container_1_2_3"}]}`, `line 1: containerId "container_1_2_3": want container_TIME_NUMBER_ATTEMPT_CONTAINER`},
		{"json", `{"container":[{}]}`, `line 1: a container without containerId`},
		{"json", `{"container":[{"containerId":"container_1_2_3_4","allocatedMB":1099511627776}]}`, `line 1: a container of 1099511627776 MB and 0 cores`},
		{"json", "{\"apps\":\n\n{", `line 3: the file ends in the middle: is it complete?`},
		{"json", "{\"apps\":\n}", `line 2: no JSON: `},
		{"json", strings.Repeat("[", 100), `line 1: more than 50 objects inside each other`},
		{"json", `{"app":{"diagnostics":"` + strings.Repeat("x", 2*maxYarnRecord) + `"}}`, `line 1: a value or record of more than 4194304 bytes`},
		{"json", `{"app":{"id":"application_1_2","startedTime":1,"finishedTime":2,"vcoreSeconds":10000000}}`, `application_1_0002: 10000000 vcore-seconds in 1 ms are 10000000000 cores at once: more than 1000000`},
		{"json", `{"app":{"id":"application_1_2","startedTime":1000,"finishedTime":2000,"vcoreSeconds":1001}}`, `there are more than 1000 tasks`},
		{"log", "x\n2021-11-23 10:06:29,404 INFO C: container_1_2_3 Container Transitioned from NEW to ALLOCATED", `line 2: container "container_1_2_3": want container_TIME_NUMBER_ATTEMPT_CONTAINER`},
		{"log", "10:06:29,404 INFO C: container_1_2_3_4 Container Transitioned from NEW to ALLOCATED", `line 1: time "10:06:29,404 INFO C": want a line that begins like 2006-01-02 15:04:05,000`},
		{"log", "2021-11-23 10:06:29,404 INFO C: container_1_2_3_4 Container Transitioned from NEW to FUN", `line 1: state "FUN": not one of a container's`},
		{"log", "OPERATION=AM Allocated Container\tRESULT=SUCCESS\tCONTAINERID=container_1_2_3_4\tRESOURCE=<memory:x>", `line 1: memory "x": want a number of 0 to 1073741824`},
		{"log", "2021-11-23 10:06:29,404 ApplicationSummary: appId=application_1_2,finishTime=x", `line 1: finishTime "x": want a whole number, times in milliseconds`},
	} {
		if err := readYarnText(c.kind, c.text); err == nil || !strings.HasPrefix(err.Error(), "trace: "+c.says) {
			t.Errorf("%.60q: %v; want %s", c.text, err, c.says)
		}
	}
	// Lines that are too long, or say nothing, are skipped.
	if err := readYarnText("log", strings.Repeat("x", 3*MaxLine)+"\nOPERATION=AM Allocated Container\tRESULT=FAILURE\n"); err != nil {
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
		if _, err := Open(t.Context(), "yarn:"+name, OpenOptions{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %s", c.path, err, c.says)
		}
	}
	if _, err := Open(t.Context(), "yarn:"+dir+"/missing", OpenOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func FuzzYarnJSON(f *testing.F) {
	for _, name := range []string{"apps.json", "containers-0007.json"} {
		b, err := os.ReadFile("testdata/yarn/rest/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add(`{"app":{"id":"application_1_2","priority":"3"},"x":[{"container":{"containerId":"container_e1_2_3_4_5","startedTime":5}}]}`)
	f.Fuzz(func(t *testing.T, text string) { fuzzYarn(t, "json", text) })
}

func FuzzYarnLog(f *testing.F) {
	file, err := os.Open("testdata/yarn/log/hadoop-yarn-resourcemanager-rm.log")
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
	f.Fuzz(func(t *testing.T, text string) { fuzzYarn(t, "log", text) })
}

func fuzzYarn(t *testing.T, kind, text string) {
	y := newYarnRecords()
	m := newMeter(context.Background(), nil)
	c := &collector{most: 1000}
	a := about{}
	err := y.file(m, "x."+kind, strings.NewReader(text))
	if err == nil {
		err = y.tasks(&YarnOptions{}, c.most, c, &a)
		if err == nil {
			checkWorkload(t, c.workload(a))
		}
		return
	}
	var se *SyntaxError
	if !errors.As(err, &se) || se.Line < 1 || se.Line > strings.Count(text, "\n")+1 {
		t.Fatalf("%q: %v", text, err)
	}
}

// checkWorkload checks what every workload promises.
func checkWorkload(t *testing.T, w *Workload) {
	t.Helper()
	if !w.ordered() {
		t.Fatal("the tasks are not in order")
	}
	jobs, files := int32(0), int32(0)
	for i := range w.Tasks {
		k := &w.Tasks[i]
		if k.Job > jobs || k.File > files+1 {
			t.Fatalf("task %d: jobs and files are not numbered by their first tasks: %+v", i, *k)
		}
		jobs, files = max(jobs, k.Job+1), max(files, k.File)
		if k.Submit < 0 || k.Run < 0 || k.Index < 0 || k.Priority > headrace.MaxPriority || k.Class >= classes || !(k.CPUs >= 0) || k.Memory < 0 ||
			!(k.Dirty >= 0) || !(k.Grow >= 0) || k.Preempted < 0 || k.Lost < 0 || k.Offset < 0 || k.Input < 0 {
			t.Fatalf("task %d: %+v", i, *k)
		}
		if k.File > 0 && k.Offset+k.Input > w.Files[k.File-1].Bytes {
			t.Fatalf("task %d reads beyond the end of its file: %+v", i, *k)
		}
	}
	if int(jobs) != len(w.Jobs) || int(files) != len(w.Files) {
		t.Fatalf("%d of %d jobs and %d of %d files have tasks", jobs, len(w.Jobs), files, len(w.Files))
	}
}
