package yarn

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// Several jobs of one process, on two NodeManagers at once: each has the containers
// and the events that are its own.
func masters(t *testing.T, c *Cluster) {
	if err := c.LogMarks(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := must(c.Masters(within(t, patience)))(t)
	began := time.Now()
	low := must(c.NewSteps("low", lowSteps, 100*time.Millisecond))(t)
	if err := m.Submit(ShellJob{Name: "low", Queue: "low", Containers: 4, Memory: 1024, Command: low.Command()}); err != nil {
		t.Fatal(err)
	}
	holdAfter(t, low, 40)
	var jobs sync.WaitGroup
	for i := range 3 {
		name := fmt.Sprint("high", i)
		jobs.Go(func() {
			if err := m.Submit(ShellJob{Name: name, Queue: "high", Memory: 1024, Command: "sleep 1"}); err != nil {
				t.Error(err)
			}
			e, err := m.Await(t.Context(), name, "finished")
			if err != nil || !e.Good {
				t.Errorf("%s: %+v, %v", name, e, err)
			}
		})
	}
	jobs.Wait()
	goOn(t, low)
	if e := must(m.Await(t.Context(), "low", "finished"))(t); !e.Good {
		t.Errorf("low: %+v", e)
	}
	preempted := 0
	for _, e := range must(m.Events("low"))(t) {
		if e.Event == "completed" && e.Exit == Preempted {
			preempted++
		}
	}
	marks := must(c.Marks(began))(t)
	if preempted == 0 || len(marks) == 0 {
		t.Errorf("%d containers were preempted, with %d marks in the log; want some of both", preempted, len(marks))
	}
	idle(t, c)
}

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
