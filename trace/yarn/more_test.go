package yarn

import (
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/trace/input"
	"headrace/trace/workload"

	"headrace"
)

func yarnWorkload(t *testing.T, o Options, files map[string]string) *workload.Workload {
	t.Helper()
	y := newRecords()
	m := input.NewMeter(t.Context(), nil)
	for name, text := range files {
		if err := y.file(m, name, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	c := &workload.Collector{Most: 1000}
	a := workload.About{}
	if err := y.tasks(&o, c.Most, c, &a); err != nil {
		t.Fatal(err)
	}
	w, err := c.Workload(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	return w
}

// Version 2 has other lines: no resource in those of the audit, times without
// milliseconds, shorter names of classes.
func TestYarnOlderLog(t *testing.T) {
	w := yarnWorkload(t, Options{Assumed: workload.Assumed{Dirty: -1, Grow: 2 * time.Second}}, map[string]string{"rm.log": `2018-12-16 14:36:50 INFO  RMAuditLogger:141 - USER=a	OPERATION=Submit Application Request	TARGET=ClientRMService	RESULT=SUCCESS	APPID=application_1544960128505_0001
2018-12-16 14:36:56 INFO  RMContainerImpl:422 - container_1544960128505_0001_01_000001 Container Transitioned from NEW to ALLOCATED
2018-12-16 14:36:56 INFO  RMAuditLogger:141 - USER=a	OPERATION=AM Allocated Container	TARGET=SchedulerApp	RESULT=SUCCESS	APPID=application_1544960128505_0001	CONTAINERID=container_1544960128505_0001_01_000001
2018-12-16 14:36:56 INFO  SchedulerNode:152 - Assigned container container_1544960128505_0001_01_000001 of capacity <memory:2048, vCores:3, yarn.io/gpu: 1> on host h:55741, which has 1 containers, <memory:2048, vCores:1> used and <memory:2048, vCores:7> available after allocation
2018-12-16 14:36:57 INFO  ContainerImpl:1163 - Container container_1544960128505_0001_01_000001 transitioned from LOCALIZED to RUNNING
2018-12-16T14:37:01.250 INFO  RMContainerImpl:422 - container_1544960128505_0001_01_000001 Container Transitioned from ACQUIRED to RUNNING
2018-12-16 14:37:02 INFO  RMContainerImpl:422 - container_1544960128505_0001_01_000002 Container Transitioned from NEW to ALLOCATED
2018-12-16 14:37:02 INFO  RMContainerImpl:422 - container_1544960128505_0001_01_000002 Container Transitioned from ACQUIRED to RUNNING
2018-12-16 14:37:04 INFO  RMContainerImpl:422 - container_1544960128505_0001_01_000002 Container Transitioned from RUNNING to COMPLETED`})
	want := []workload.Task{
		// It had not ended: until the last record.
		{Run: 2750 * time.Millisecond, Priority: headrace.Normal, CPUs: 3, Memory: 2 << 30, Grow: 2},
		{Index: 1, Submit: 12 * time.Second, Run: 2 * time.Second, Priority: headrace.Normal, CPUs: 1, Memory: 1 << 30, Grow: 2},
	}
	if !slices.Equal(w.Tasks, want) || !slices.Equal(w.Jobs, []string{"application_1544960128505_0001"}) {
		t.Errorf("%q\ngot  %+v\nwant %+v", w.Jobs, w.Tasks, want)
	}
	notes := strings.Join(w.Notes, "\n")
	if !strings.Contains(notes, "1 containers that had not ended") || !strings.Contains(notes, "1 containers of unknown size") {
		t.Error(notes)
	}
}

// What a container was twice preempted from is one task, and sizes are not mixed up.
func TestYarnPreemptedAgain(t *testing.T) {
	w := yarnWorkload(t, Options{}, map[string]string{"c.json": `{"containers": {"container": [
		{"containerId": "container_1_2_1_000005", "allocatedMB": "1024", "allocatedVCores": "1", "priority": "3", "startedTime": "1000", "finishedTime": "5000", "containerExitStatus": "-102"},
		{"containerId": "container_1_2_1_000006", "allocatedMB": "2048", "allocatedVCores": "1", "priority": "3", "startedTime": "5000", "finishedTime": "6000", "containerExitStatus": "0"},
		{"containerId": "container_1_2_1_000007", "allocatedMB": "1024", "allocatedVCores": "1", "priority": "3", "startedTime": "7000", "finishedTime": "9000", "containerExitStatus": "-102"},
		{"containerId": "container_1_2_1_000008", "allocatedMB": "1024", "allocatedVCores": "1", "priority": "3", "startedTime": "8000", "finishedTime": "9500", "containerExitStatus": "1"},
		{"containerId": "container_1_2_1_000009", "allocatedMB": "1024", "allocatedVCores": "1", "priority": "3", "startedTime": "9000", "finishedTime": "19000", "containerExitStatus": "0"}]}}`})
	var got [][4]int64
	for _, k := range w.Tasks {
		got = append(got, [4]int64{k.Submit.Milliseconds(), k.Run.Milliseconds(), int64(k.Preempted), k.Lost.Milliseconds()})
	}
	if want := [][4]int64{{0, 10000, 2, 6000}, {4000, 1000, 0, 0}, {7000, 1500, 0, 0}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestYarnPriority(t *testing.T) {
	low, free := headrace.Low, headrace.Free
	queues := map[string]headrace.Priority{"root.a.x": headrace.High, "x": headrace.Production}
	for _, c := range []struct {
		o    Options
		app  application
		want headrace.Priority
	}{
		{Options{}, application{}, headrace.Normal},
		{Options{Priority: &low}, application{}, headrace.Low},
		{Options{Priority: &free}, application{}, headrace.Free},
		{Options{Priority: &low}, application{priority: 7}, 7},
		{Options{}, application{priority: 1000}, headrace.MaxPriority},
		{Options{Queues: queues}, application{priority: 3, queue: "root.a.x"}, headrace.High},
		{Options{Queues: queues}, application{priority: 3, queue: "root.b.x"}, headrace.Production},
		{Options{Queues: queues}, application{priority: 3, queue: "x"}, headrace.Production},
		{Options{Queues: queues}, application{priority: 3, queue: "root.a"}, 3},
	} {
		if got := c.o.priority(&c.app); got != c.want {
			t.Errorf("%+v, %+v: %v, want %v", c.o, c.app, got, c.want)
		}
	}
	high := headrace.MaxPriority + 1
	for _, o := range []Options{{Priority: &high}, {Queues: map[string]headrace.Priority{"q": high}}, {Assumed: workload.Assumed{Grow: -1}}} {
		if _, err := gather(t, "testdata", o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestYarnNames(t *testing.T) {
	for s, want := range map[string]containerID{
		"container_1_2_3_4":                        {appID{1, 2}, 0, 3, 4},
		"container_e17_1700000000000_0007_01_0012": {appID{1700000000000, 7}, 17, 1, 12},
	} {
		if got, ok := parseContainer(s); !ok || got != want {
			t.Errorf("%s: %+v, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", "container_", "container_1_2_3", "container_1_2_3_4_5", "container_e_1_2_3_4", "container_1_2_3_-4", "container_1_2_3_1234567890123456789", "application_1_2"} {
		if got, ok := parseContainer(s); ok {
			t.Errorf("%s: %+v", s, got)
		}
	}
	if got := input.Shown("a\tb\xff" + strings.Repeat("é", 80)); len(got) > 110 || !strings.HasPrefix(got, "a b?é") || strings.Contains(got, "\ufffd") {
		t.Errorf("%q", got)
	}
}

// The clock of a log may be ahead of UTC, or behind, and the summary comes a little
// after the end; where it comes days later it tells nothing.
func TestYarnZone(t *testing.T) {
	for _, c := range []struct {
		at   string
		zone time.Duration
	}{
		{"2023-11-14 22:13:20,500", 0}, {"2023-11-15 06:13:21,000", 8 * time.Hour}, {"2023-11-14 18:43:22", -210 * time.Minute}, {"2023-11-15 03:58:20,000", 345 * time.Minute},
	} {
		y := newRecords()
		l := &logReader{y: y, text: c.at + " INFO A$ApplicationSummary: appId=application_1_2,finishTime=1700000000000"}
		if err := l.read(); err != nil || y.zone != c.zone.Milliseconds() || !y.zoneKnown {
			t.Errorf("%s: %v ms, %v", c.at, y.zone, err)
		}
	}
	y := newRecords()
	l := &logReader{y: y, text: "2023-11-20 06:13:21,000 INFO A$ApplicationSummary: appId=application_1_2,finishTime=1700000000000"}
	if err := l.read(); err != nil || y.zone != 0 || y.zoneKnown {
		t.Errorf("days later: %v ms, %v", y.zone, err)
	}
}
