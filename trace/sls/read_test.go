package sls

import (
	"strings"
	"testing"

	"headrace"
	"headrace/trace/tracetest"
	"headrace/trace/workload"
)

const sample = `{
  "am.type" : "mapreduce", "job.start.ms" : 1000, "job.end.ms" : 95375, "job.queue.name" : "root.prod", "job.id" : "job_1", "job.user" : "ann",
  "job.tasks" : [
    {"container.host" : "/rack/node1", "container.start.ms" : 6664, "container.end.ms" : 23664, "container.priority" : 20, "container.type" : "map"},
    {"container.host" : "/rack/node1", "container.start.ms" : 6664, "container.end.ms" : 9664, "container.priority" : 10, "container.type" : "reduce",
     "container.memory" : 2048, "container.vcores" : 2}
  ]
}
{ "yarn.sls.am.type" : "dag", "job.start.ms" : "0", "job.id" : 7, "job.priority" : 20, "job.count" : 2,
  "job.tasks" : [ {"duration.ms" : 500, "count" : 2, "container.request.delay" : 250, "container.memory-mb" : "512", "container.yarn.io/gpu" : 1} ] }
{ "job.id" : "empty" }
[{ "job.id" : 7, "job.start.ms" : 250, "job.tasks" : [ {"duration.ms" : 1} ] }, { "job.id" : 7, "job.start.ms" : 250, "job.tasks" : [ {"duration.ms" : 2} ] }]
`

func TestRead(t *testing.T) {
	w, err := tracetest.Text(t, Read, sample, workload.Given{Priorities: map[string]headrace.Priority{"prod": 9}})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, `
7-0/0 at 0s for 500ms priority 11, 1 cpus, 512 MiB, 1 gpu
7-0/1 at 0s for 500ms priority 11, 1 cpus, 512 MiB, 1 gpu
7-1/0 at 0s for 500ms priority 11, 1 cpus, 512 MiB, 1 gpu
7-1/1 at 0s for 500ms priority 11, 1 cpus, 512 MiB, 1 gpu
7/0 at 0s for 1ms priority 4, 1 cpus, 1024 MiB
7#2/0 at 0s for 2ms priority 4, 1 cpus, 1024 MiB
job_1/0 at 750ms for 17s priority 9, 1 cpus, 1024 MiB, ann, stage 0
job_1/1 at 750ms for 3s priority 9, 2 cpus, 2048 MiB, ann, stage 1 after [0]
`, "1 jobs have no tasks")
}

func TestReadRefuses(t *testing.T) {
	tracetest.Refused(t, Read, map[string]string{
		"{\n\"job.start.ms\": 1.5}":                             `line 2: job.start.ms "1.5": want a whole number, at most 4611686018427`,
		"{\"job.tasks\": [{\n\"duration.ms\": 9500000000000}]}": `line 2: duration.ms "9500000000000": want a whole number, at most 4611686018427`,
		`[{"job.start.ms": 4611686018427, "job.tasks": [{"duration.ms": 4611686018427, "container.request.delay": 4611686018427}]},
		  {"job.tasks": [{"duration.ms": 1}]}]`: "task 0 of a job would be submitted at 2562047h47m16.854s, run for 1281023h53m38.427s",
		"{\"job.start.ms\": {}}": "line 1: an object or list where a number or a text is meant to be",
		"{\"job.tasks\": [{}]}":  `line 1: job.tasks "": a task without duration.ms, and without container.start.ms`,
		"{\"job.tasks\": [{\"duration.ms\": 1, \"container.vcores\": 1e12}]}":       `line 1: container.vcores "1e12": want a whole number, at most 1048576`,
		"{\"job.tasks\": [{\"duration.ms\": 1, \"container.yarn.io/gpu\": \"x\"}]}": `line 1: container.yarn.io/gpu "x": want a whole number`,
		"{\"job.tasks\": [{\"duration.ms\": 1, \"count\": 10001}]}":                 "there are more than 10000 tasks",
		"{\"job.tasks\": 3}": "line 1: job.tasks",
		"{\n\n":              "line 1: the file ends in the middle: is it complete?",
		"[{}, {]":            "line 1: no JSON: ",
		"7":                  "line 1: want an object or a list of objects",
		"[]":                 "no tasks",
		`{"job.id":"` + strings.Repeat("x", maxObject+1<<20) + `"}`: "line 1: an object of more than 67108864 bytes",
	})
}

func FuzzRead(f *testing.F) { tracetest.Fuzz(f, Read, sample, `[{"job.tasks":[{"duration.ms":1}]}]`) }
