package kubernetes

import (
	"strings"
	"testing"

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
