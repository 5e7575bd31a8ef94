package yarn

import (
	"testing"
	"time"
)

func TestParseMarks(t *testing.T) {
	log := `23:59:59,500 DEBUG a.b: Send to scheduler: in app=appattempt_1_0001_000001 #containers-to-be-preemptionCandidates=1
23:59:59,800 INFO a.b: something else
00:00:00,250 DEBUG a.b: Send to scheduler: in app=appattempt_1_0002_000001 #containers-to-be-preemptionCandidates=2
`
	from := time.Date(2026, 11, 20, 23, 59, 59, 600e6, time.Local)
	marks := must(parseMarks(log, from))(t)
	want := time.Date(2026, 11, 21, 0, 0, 0, 250e6, time.Local)
	if len(marks) != 1 || !marks[0].At.Equal(want) || marks[0].Attempt != "appattempt_1_0002_000001" {
		t.Errorf("marks: %+v; want one at %v", marks, want)
	}
}

func TestParseDecisions(t *testing.T) {
	log := `time=2026-11-21T11:00:00.123Z level=INFO msg="a node has joined" node=127.1.2.2 version=x
time=2026-11-21T11:00:01.456Z level=INFO msg=preempt container=container_1_0001_01_000002 node=127.1.2.2 mechanism=suspend store="" delay=10ms waste=0s reason="it is free"
`
	all := must(parseDecisions(log))(t)
	want := Decision{At: time.Date(2026, 11, 21, 11, 0, 1, 456e6, time.UTC), Container: "container_1_0001_01_000002", Mechanism: "suspend"}
	if len(all) != 1 || !all[0].At.Equal(want.At) || all[0].Container != want.Container || all[0].Mechanism != want.Mechanism {
		t.Errorf("decisions: %+v; want %+v", all, want)
	}
}
