package rumen

import (
	"testing"

	"headrace"
	"headrace/trace/tracetest"
	"headrace/trace/workload"
)

const sample = `{
  "priority" : "VERY_HIGH", "jobID" : "job_1_0001", "user" : "ann", "jobName" : "sort", "submitTime" : 1371222054000, "queue" : "root.q",
  "jobMapMB" : 512, "jobReduceMB" : -1,
  "mapTasks" : [
    { "taskID" : "m0", "attempts" : [ { "startTime" : 1371222061000, "result" : "FAILED", "finishTime" : 1371222099000 },
                                      { "startTime" : 1371222061000, "result" : "SUCCESS", "finishTime" : 1371222071000, "clockSplits" : [ 1 ] } ] },
    { "taskID" : "m1", "attempts" : [ { "startTime" : 1371222061000, "result" : "KILLED", "finishTime" : 1371222063000 } ] },
    { "taskID" : "m2", "attempts" : [ ] } ],
  "reduceTasks" : [ { "taskID" : "r0", "attempts" : [ { "startTime" : 1371222062000, "result" : "SUCCESS", "finishTime" : 1371222076000 } ] } ],
  "otherTasks" : [ { "taskID" : "s0" } ]
}
{ "jobID" : "job_1_0002", "submitTime" : -1, "launchTime" : 1371222050000, "priority" : "LOW",
  "mapTasks" : [ { "attempts" : [ { "startTime" : 1371222051000, "result" : "SUCCESS", "finishTime" : 1371222051500 } ] } ] }
{ "jobID" : "job_1_0003" }
`

func TestRead(t *testing.T) {
	w, err := tracetest.Text(t, Read, sample, workload.Given{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, `
job_1_0002/0 at 0s for 500ms priority 2, 1 cpus, 1024 MiB
job_1_0001:sort/0 at 4s for 10s priority 10, 1 cpus, 512 MiB, ann, stage 0
job_1_0001:sort/1 at 4s for 2s priority 10, 1 cpus, 512 MiB, ann, stage 0
job_1_0001:sort/3 at 4s for 5s priority 10, 1 cpus, 1024 MiB, ann, stage 1 after [0]
`, "1 jobs do not say when", "1 tasks never ran", "1 tasks never succeeded", "1 tasks that set jobs up", "2 jobs do not say what memory")
	w, err = tracetest.Text(t, Read, sample, workload.Given{Priorities: map[string]headrace.Priority{"root.q": 1}})
	if err != nil || w.Tasks[1].Priority != 1 {
		t.Errorf("%v, %v", w, err)
	}
}

func TestReadRefuses(t *testing.T) {
	tracetest.Refused(t, Read, map[string]string{
		"{\n\"submitTime\" : 99999999999999 }": `line 2: submitTime "99999999999999": a job that is too late`,
		"{\n\"submitTime\" : 9500000000000 }":  `line 2: submitTime "9500000000000": a job that is too late`,
		`{ "submitTime" : 1, "mapTasks" : [ { "attempts" : [ { "startTime" : 1, "finishTime" : 9500000000000 } ] } ] }`: "no tasks",
		`{ "submitTime" : "x" }`: `line 1: submitTime "string": not of the type that is meant to be there`,
		`{ "mapTasks" : [ {`:     "line 1: the file ends in the middle",
		`{ "jobID" : "a" }`:      "no tasks",
	})
}

func FuzzRead(f *testing.F) { tracetest.Fuzz(f, Read, sample) }
