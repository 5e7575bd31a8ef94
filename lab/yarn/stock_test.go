package yarn

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/lab/belong"
)

// YARN as it is, on two NodeManagers, with the applications that others bring.
func TestStock(t *testing.T) {
	parallel(t, 80)
	fs := startOurFS(t)
	c := startTest(t, Options{Mode: Kill, Nodes: 2, DefaultFS: fs.hdfs})
	t.Run("start", func(t *testing.T) { startsAsMeant(t, c) })
	t.Run("DistributedShell", func(t *testing.T) { stockDistributedShell(t, c) })
	t.Run("MapReduce", func(t *testing.T) { stockMapReduce(t, c) })
	t.Run("on Headrace's file system", func(t *testing.T) { fs.jobs(t, c) })
	t.Run("failing command", func(t *testing.T) { failingCommand(t, c) })
	idle(t, c)
	t.Run("preemption", func(t *testing.T) { killAndWait(t, c) })
	t.Run("leftovers", func(t *testing.T) { leftovers(t, c) }) // stops the cluster
}

// killAndWait preempts, then does not.
func killAndWait(t *testing.T, c *Cluster) {
	testkit.Long(t) // YARN preempts like this in TestOneNode, without Headrace's daemons, and does not where Headrace has been removed
	j := startJobs(t, c)
	t.Run("kill", func(t *testing.T) { stockKill(t, j) })
	c.o.Mode = Wait
	restartRM(t, c, nil)
	t.Run("wait", func(t *testing.T) { waits(t, j) })
}

// Daemons have their classes from the archive, and the ResourceManager its certificate from us.
func startsAsMeant(t *testing.T, c *Cluster) {
	if c.o.Jars.Archived(t.Context()) == nil {
		for _, p := range append(c.nodeManagers(), c.resourceManager.process) {
			maps := must(os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.cmd.Process.Pid)))(t)
			if !bytes.Contains(maps, []byte(c.o.Jars.hadoopClasses().file)) {
				t.Errorf("the %s loads its classes from jars and not from the archive", p.name)
			}
		}
	}
	// The ResourceManager has not made another: it keeps that which it uses.
	if kept, ours := must(os.ReadFile(filepath.Join(c.authority(), "caCert")))(t), must(newAuthority())(t)["caCert"]; !bytes.Equal(kept, ours) {
		t.Error("the ResourceManager has made a certificate of its own")
	}
}

// What stock preemption does is what Headrace is compared with: containers are killed, what they have done is lost, and
// they start again. Each of several jobs of one process has the containers and the events that are its own.
func stockKill(t *testing.T, j *jobs) {
	c := j.c
	if err := c.LogMarks(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	low := j.startHeld(t, ShellJob{Name: "low", Queue: "low", Containers: 4, Memory: 1024}, lowSteps, 20)
	low.standStill(t, 20) // so at least 20 in the three that are killed
	var high []*job
	for i := range 3 {
		high = append(high, j.startHeld(t, ShellJob{Name: fmt.Sprint("high", i), Queue: "high", Memory: 1024}, 2, 1))
	}
	preempted := func() (n int) {
		for _, e := range must(j.Events(low.name))(t) {
			if e.Event == "completed" && e.Exit == Preempted {
				n++
			}
		}
		return n
	}
	// Not until all three have begun: while two stand still YARN may keep the room of the third reserved on a full node.
	eventually(t, "room for three taken from the low job", func() (bool, error) { return preempted() >= 3, nil })
	for _, h := range high {
		h.goOn(t)
	}
	for _, h := range high {
		h.finished(t)
	}
	low.goOn(t)
	if e := must(j.Await(within(t, patience), low.name, "finished"))(t); !e.Good {
		t.Errorf("low: %+v", e)
	}
	low.steps.complete(t, 4)
	if lost := must(low.steps.Lost())(t); lost < 20 {
		t.Errorf("%d steps were lost; want at least 20", lost)
	}
	if marks := must(c.Marks(began))(t); len(marks) == 0 {
		t.Error("there are no marks in the log")
	}
	idle(t, c)
}

func waits(t *testing.T, j *jobs) {
	low := j.start(t, ShellJob{Name: "low-waits", Queue: "low", Containers: 4, Memory: 1024}, 50)
	low.awaitSteps(t, 20)
	high := j.start(t, ShellJob{Name: "high-waits", Queue: "high", Memory: 1024}, 5)
	high.finished(t)
	low.finished(t) // without the loss of a step
	// As the containers tell the time: events of two jobs come to their master one after the other, whatever was first.
	first, room := must(high.steps.Attempts())(t)["0"][0].Done[0], time.Time{}
	for _, all := range must(low.steps.Attempts())(t) {
		if end := all[0].Done[low.steps.Count-1]; room.IsZero() || end.Before(room) {
			room = end
		}
	}
	if first.Before(room) {
		t.Errorf("the high job's first step was done at %v, before the low one left room at %v", first, room)
	}
	idle(t, j.c)
}

func stockDistributedShell(t *testing.T, c *Cluster) {
	testkit.Long(t) // TestTwoMachines has it run
	s := must(c.NewSteps("ds", 5, 50*time.Millisecond))(t)
	run := &stepsRun{must(c.DistributedShell(ShellJob{Name: "ds", Queue: "low", Containers: 3, Memory: 256,
		Command: s.Command() + "; echo done"}))(t), c, s}
	run.succeed(t, 3)
	logs := must(c.ContainerLogs(must(run.ID(within(t, patience)))(t)))(t)
	said := 0
	for name, text := range logs {
		if strings.HasSuffix(name, "/stdout") && text == "done\n" {
			said++
		}
	}
	if said != 3 {
		t.Errorf("%d of 3 containers have said that they are done: %v", said, logs)
	}
}

func stockMapReduce(t *testing.T, c *Cluster) {
	testkit.Long(t) // so does WordCount on this cluster
	run := must(c.MapReduce(MapReduceJob{Name: "pi", Queue: "low", Args: []string{"pi", "2", "100"}}))(t)
	if err := run.Succeed(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if out := run.Output(); !strings.Contains(out, "Estimated value of Pi is 3.1") {
		t.Errorf("output: %s", out)
	}
}

func failingCommand(t *testing.T, c *Cluster) {
	run := must(c.Shell(ShellJob{Name: "bad", Queue: "high", Command: "exit 3"}))(t)
	if code := must(run.Wait(within(t, patience)))(t); code != 1 {
		t.Errorf("exit code %d of a job whose task failed", code)
	}
	if e := must(run.Await(t.Context(), "completed", 1))(t); e.Exit != 3 {
		t.Errorf("the container's exit status: %d, want 3", e.Exit)
	}
}

// An application that is killed leaves nothing, and what YARN does not end is found.
func leftovers(t *testing.T, c *Cluster) {
	run := must(c.Shell(ShellJob{Name: "runaway", Queue: "low", Command: "setsid -f sleep 600; sleep 600"}))(t)
	must(run.Await(within(t, patience), "started", 1))(t)
	err := await(within(t, patience), "wait for the processes", patience, func(context.Context) (bool, error) {
		left, err := c.leftovers()
		return strings.Count(strings.Join(left, "\n"), "(sleep 600)") == 2, err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = c.stopWithin(15 * time.Second)
	if err == nil || !strings.Contains(err.Error(), "sleep 600") {
		t.Errorf("stop: %v; want that a process was left", err)
	}
	if pids := must(belong.Processes(c.Dir))(t); len(pids) > 0 {
		t.Errorf("still running: %v", pids)
	}
}
