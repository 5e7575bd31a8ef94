package kubernetes

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/trace/tracetest"
	"headrace/trace/workload"
)

const sample = `{"apiVersion": "v1", "items": [
  {"kind": "Pod", "metadata": {"name": "train-0", "namespace": "lab", "uid": "a", "creationTimestamp": "2026-01-02T03:00:00Z",
     "ownerReferences": [{"kind": "Job", "name": "train", "controller": true}]},
   "spec": {"nodeName": "n1", "priority": 100000, "priorityClassName": "batch", "containers": [
      {"resources": {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"cpu": "1", "nvidia.com/gpu": "2"}}}, {"resources": {"requests": {"cpu": 1}}}],
      "initContainers": [{"resources": {"requests": {"cpu": "500m", "memory": "2Gi"}}}]},
   "status": {"phase": "Succeeded", "containerStatuses": [
      {"state": {"terminated": {"startedAt": "2026-01-02T03:00:10Z", "finishedAt": "2026-01-02T03:01:10Z"}}},
      {"state": {"terminated": {"startedAt": "2026-01-02T03:00:05Z", "finishedAt": "2026-01-02T03:01:00Z"}}}]}},
  {"metadata": {"name": "web", "namespace": "shop", "uid": "b", "creationTimestamp": "2026-01-02T03:00:30Z"},
   "spec": {"containers": [{"resources": {"requests": {"cpu": "2", "memory": "500M", "example.com/fpga": "1"}}}]},
   "status": {"phase": "Running", "containerStatuses": [{"state": {"running": {"startedAt": "2026-01-02T03:00:40Z"}}}]}},
  {"metadata": {"name": "waits", "namespace": "shop", "creationTimestamp": "2026-01-02T03:02:00Z"}, "spec": {"containers": [{}]}, "status": {"phase": "Pending"}}
], "kind": "List"}
`

const line = `{"metadata":{"name":"web","namespace":"shop","uid":"b","creationTimestamp":"2026-01-02T03:00:30Z"},"spec":{"priority":-5,"containers":[{}]},"status":{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"startedAt":"2026-01-02T03:00:40Z","finishedAt":"2026-01-02T03:00:50Z"}}}]}}
`

func TestRead(t *testing.T) {
	w, err := tracetest.Text(t, Read, sample, workload.Given{})
	if err != nil {
		t.Fatal(err)
	}
	const train = "lab/Job/train/0 at 0s for 1m5s priority 8, 1.25 cpus, 2048 MiB, lab, 2 gpu\n"
	tracetest.Same(t, w, train+"shop/web/0 at 30s for 1m20s priority 4, 2 cpus, 476.837158203125 MiB, shop, 1 example.com/fpga\n",
		"1 pods never ran", "1 pods were still running")
	w, err = tracetest.Open(t, Read, tracetest.Write(t, map[string]string{"1.json": sample, "2.jsonl": line, "README": "x"}),
		workload.Given{Priorities: map[string]headrace.Priority{"batch": 8}}, workload.Part{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, train+"shop/web/0 at 30s for 10s priority 1, 0 cpus, 0 MiB, shop\n", "1 pods failed", "1 pods do not ask for")
}

// TestRestarted: of a container that was started again more than once a status does not say when it began, but of
// its pod.
func TestRestarted(t *testing.T) {
	text := func(restarts int) string {
		return strings.Replace(`{"metadata":{"name":"a","namespace":"n","creationTimestamp":"2026-01-01T03:00:00Z"},"spec":{"containers":[{}]},"status":{"phase":"Running",
 "startTime":"2026-01-01T03:00:02Z","containerStatuses":[{"restartCount":RESTARTS,"state":{"running":{"startedAt":"2026-01-02T02:40:00Z"}},
 "lastState":{"terminated":{"startedAt":"2026-01-02T02:00:00Z","finishedAt":"2026-01-02T03:00:02Z"}}}]}}
`, "RESTARTS", strconv.Itoa(restarts), 1)
	}
	w, err := tracetest.Text(t, Read, text(3), workload.Given{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, "n/a/0 at 0s for 24h0m0s priority 4, 0 cpus, 0 MiB, n\n", "1 pods had a container that was started again so often")
	if w, err = tracetest.Text(t, Read, text(1), workload.Given{}); err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, "n/a/0 at 0s for 1h0m2s priority 4, 0 cpus, 0 MiB, n\n")
}

// TestSidecars: init containers that stay count beside the pod's own, and with those that come after them.
func TestSidecars(t *testing.T) {
	for spec, want := range map[string]string{
		`"containers":[{"resources":{"requests":{"cpu":"500m","memory":"512Mi"}}}],"initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"500m","memory":"1Gi"}}}]`:                                                            "1 cpus, 1536 MiB",
		`"containers":[{"resources":{"requests":{"cpu":"1"}}}],"initContainers":[{"resources":{"requests":{"cpu":"3","memory":"1Gi"}}},{"restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}},{"resources":{"requests":{"cpu":"2500m"}}}]`: "3.5 cpus, 1024 MiB",
		`"overhead":{"cpu":"250m","memory":"64Mi"},"containers":[{"resources":{"requests":{"cpu":"1","memory":"64Mi"}}}]`:                                                                                                                           "1.25 cpus, 128 MiB",
	} {
		w, err := tracetest.Text(t, Read, strings.Replace(line, `"containers":[{}]`, spec, 1), workload.Given{})
		if err != nil {
			t.Fatal(err)
		}
		tracetest.Same(t, w, "shop/web/0 at 0s for 10s priority 1, "+want+", shop\n")
	}
}

// TestWhole: what a pod asks for as a whole goes before what its containers do.
func TestWhole(t *testing.T) {
	const one = `{"resources":{"requests":{"cpu":"1","memory":"64Mi"}}}`
	for spec, want := range map[string]string{
		`"resources":{"requests":{"cpu":"8","memory":"64Gi"}},"containers":[{"name":"a"},{"name":"b","resources":{"requests":{"cpu":"1"}}}]`:                         "8 cpus, 65536 MiB, shop",
		`"resources":{"requests":{"cpu":"8"}},"overhead":{"cpu":"250m"},"containers":[` + one + `,` + one + `]`:                                                      "8.25 cpus, 128 MiB, shop",
		`"resources":{"limits":{"cpu":"8","memory":"1Gi"}},"containers":[{"resources":{"requests":{"cpu":"1"}}}]`:                                                    "1 cpus, 1024 MiB, shop",
		`"containers":[{"resources":{"requests":{"cpu":"1","memory":"64Mi"},"limits":{"memory":"64Mi","hugepages-2Mi":"100Mi","hugepages-1Gi":"2Gi"}}},` + one + `]`: "2 cpus, 2276 MiB, shop",
		`"resources":{"requests":{"memory":"1Gi","hugepages-2Mi":"100Mi"}},"containers":[` + one + `]`:                                                               "1 cpus, 1124 MiB, shop",
		`"resources":null,"resourceClaims":null,"containers":[` + one + `]`:                                                                                          "1 cpus, 64 MiB, shop",
	} {
		w, err := tracetest.Text(t, Read, strings.Replace(line, `"containers":[{}]`, spec, 1), workload.Given{})
		if err != nil {
			t.Fatal(err)
		}
		tracetest.Same(t, w, "shop/web/0 at 0s for 10s priority 1, "+want+"\n")
	}
}

// TestClaims: that pods ask for devices of which the list does not say what they are is said, once for each.
func TestClaims(t *testing.T) {
	text := strings.Replace(line, `"containers":[{}]`, `"containers":[{"resources":{"requests":{"cpu":"1","memory":"64Mi"},"claims":[{"name":"gpus"}]}}],"resourceClaims":[{"name":"gpus","resourceClaimTemplateName":"four"}]`, 1)
	w, err := tracetest.Text(t, Read, text+text, workload.Given{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, "shop/web/0 at 0s for 10s priority 1, 1 cpus, 64 MiB, shop\n", "1 pods ask for devices by resourceClaims")
}

// TestOldPods: pods that are there still of months ago do not stretch the time of those of a day.
func TestOldPods(t *testing.T) {
	var b strings.Builder
	pod := func(name string, created, ended time.Time) {
		fmt.Fprintf(&b, `{"metadata":{"name":%q,"namespace":"n","creationTimestamp":%q},"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]},"status":{"containerStatuses":[{"state":{`, name, created.Format(time.RFC3339))
		if ended.IsZero() {
			fmt.Fprintf(&b, `"running":{"startedAt":%q`, created.Format(time.RFC3339))
		} else {
			fmt.Fprintf(&b, `"terminated":{"startedAt":%q,"finishedAt":%q`, created.Format(time.RFC3339), ended.Format(time.RFC3339))
		}
		b.WriteString("}}}]}}\n")
	}
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	pod("old", day.AddDate(0, 0, -60), time.Time{})
	for i := range 97 {
		at := day.Add(time.Duration(i) * 15 * time.Minute)
		pod(fmt.Sprint("new", i), at, at.Add(10*time.Minute))
	}
	w, err := tracetest.Text(t, Read, b.String(), workload.Given{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, &workload.Workload{Notes: w.Notes}, "", "time begins when the first task of the list ended", "the 2 tasks of then")
	if first, last := w.Tasks[0], w.Tasks[len(w.Tasks)-1]; first.Submit != 0 || first.Run > 25*time.Hour || last.Submit != 23*time.Hour+50*time.Minute {
		t.Errorf("from %+v to %+v", first, last)
	}
}

func TestPriority(t *testing.T) {
	last := headrace.Priority(0)
	for _, p := range []int64{-1 << 31, -1, 0, 1, 999, 1000, 1e6, 1e9, 2e9, 2000001000} {
		got := priority(&p)
		if got < last {
			t.Errorf("%d: %v", p, got)
		}
		last = got
	}
	if priority(nil) != headrace.Normal || last != headrace.MaxPriority {
		t.Error(last)
	}
}

func TestQuantity(t *testing.T) {
	for text, want := range map[string]float64{"250m": 0.25, "2": 2, "1Gi": 1 << 30, "129e6": 129e6, "1.5k": 1500, "128974848000m": 128974848, "1E": 1e18, "0": 0} {
		if got, ok := quantity(text); !ok || got != want {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "-1", "x", "1g", "Gi", "inf", "0x1", "1e40"} {
		if got, ok := quantity(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	tracetest.Refused(t, Read, map[string]string{
		"{\"items\":\n3}":         "line 2: want a list in the field items",
		"{\"items\":[\n{]":        "line 2: no JSON: ",
		"{\"items\":[\n":          "line 1: the file ends in the middle",
		`{"metadata":{"name":3}}`: `line 1: Metadata.Name "number": not of the type`,
		`{"metadata":{"creationTimestamp":"0001-01-02T03:00:00Z"}}`:                  `line 1: time "0001-01-02 03:00:00 +0000 UTC": want one from 1970 to 2200`,
		strings.Replace(line, "[{}]", `[{"resources":{"requests":{"cpu":"x"}}}]`, 1): `line 1: cpu "x": want a quantity such as 250m, 2 or 1Gi`,
		"{}": "no tasks",
	})
	if _, err := tracetest.Open(t, Read, t.TempDir(), workload.Given{}, workload.Part{}); err == nil || !strings.Contains(err.Error(), "there are no files *.json") {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) { tracetest.Fuzz(f, Read, sample, line) }
