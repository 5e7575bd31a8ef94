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

// YARN as it is, on one NodeManager, with preemption and without.
func TestStock(t *testing.T) {
	parallel(t, 65)
	c := startTest(t, Options{Mode: Kill})
	t.Run("start", func(t *testing.T) { startsAsMeant(t, c) })
	t.Run("kill", func(t *testing.T) { stockKill(t, c) })
	c.o.Mode = Wait
	restartRM(t, c, nil)
	t.Run("wait", func(t *testing.T) { waits(t, c) })
	t.Run("leftovers", func(t *testing.T) { leftovers(t, c) }) // stops the cluster
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

// What stock preemption does is what Headrace is compared with: a container is
// killed, what it has done is lost, and it starts again.
func stockKill(t *testing.T, c *Cluster) {
	low := shell(t, c, ShellJob{Name: "low", Queue: "low", Containers: 2, Memory: 1024}, 60, 100*time.Millisecond)
	holdAfter(t, low.steps, 80) // so at least 20 in each
	high := shell(t, c, ShellJob{Name: "high", Queue: "high", Memory: 1024}, 10, 100*time.Millisecond)
	high.succeed(t, 1)
	if low.Ended() {
		t.Fatal("the low job has not been in the way of the other")
	}
	goOn(t, low.steps)
	low.succeed(t, 2)
	preempted := 0
	for _, e := range low.Events() {
		if e.Event == "completed" && e.Exit == Preempted {
			preempted++
		}
	}
	if lost := must(low.steps.Lost())(t); preempted == 0 || lost < 10 {
		t.Errorf("%d containers were preempted and %d steps lost; want at least 1 and 10", preempted, lost)
	}
	idle(t, c)
}

func waits(t *testing.T, c *Cluster) {
	low := shell(t, c, ShellJob{Name: "low-waits", Queue: "low", Containers: 2, Memory: 1024}, 50, 100*time.Millisecond)
	low.awaitSteps(t, 10)
	high := shell(t, c, ShellJob{Name: "high-waits", Queue: "high", Memory: 1024}, 5, 100*time.Millisecond)
	high.succeed(t, 1)
	low.succeed(t, 2)
	if lost := must(low.steps.Lost())(t); lost != 0 {
		t.Errorf("%d steps were lost without preemption", lost)
	}
	first := must(high.Await(t.Context(), "started", 1))(t)
	freed := must(low.Await(t.Context(), "completed", 1))(t)
	if first.AtMs < freed.AtMs {
		t.Errorf("the high job began at %v, before the low one left room at %v", first.At(), freed.At())
	}
	idle(t, c)
}

// The applications that others bring, on two NodeManagers.
func TestApplications(t *testing.T) {
	parallel(t, 130)
	fs := startOurFS(t)
	c := startTest(t, Options{Mode: Kill, Nodes: 2, DefaultFS: fs.hdfs})
	t.Run("masters", func(t *testing.T) { masters(t, c) })
	t.Run("DistributedShell", func(t *testing.T) {
		s := must(c.NewSteps("ds", 5, 50*time.Millisecond))(t)
		run := &stepsRun{must(c.DistributedShell(ShellJob{Name: "ds", Queue: "low", Containers: 3, Memory: 256,
			Command: s.Command() + "; echo done"}))(t), c, s}
		run.succeed(t, 3)
		logs := must(c.ContainerLogs(must(run.ID(t.Context()))(t)))(t)
		said := 0
		for name, text := range logs {
			if strings.HasSuffix(name, "/stdout") && text == "done\n" {
				said++
			}
		}
		if said != 3 {
			t.Errorf("%d of 3 containers have said that they are done: %v", said, logs)
		}
	})
	t.Run("MapReduce", func(t *testing.T) {
		testkit.Long(t) // so does WordCount on this cluster
		run := must(c.MapReduce(MapReduceJob{Name: "pi", Queue: "low", Args: []string{"pi", "2", "100"}}))(t)
		if err := run.Succeed(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		if out := run.Output(); !strings.Contains(out, "Estimated value of Pi is 3.1") {
			t.Errorf("output: %s", out)
		}
	})
	t.Run("on Headrace's file system", func(t *testing.T) { fs.jobs(t, c) })
	t.Run("failing command", func(t *testing.T) {
		run := must(c.Shell(ShellJob{Name: "bad", Queue: "high", Command: "exit 3"}))(t)
		if code := must(run.Wait(within(t, patience)))(t); code != 1 {
			t.Errorf("exit code %d of a job whose task failed", code)
		}
		if e := must(run.Await(t.Context(), "completed", 1))(t); e.Exit != 3 {
			t.Errorf("the container's exit status: %d, want 3", e.Exit)
		}
	})
	idle(t, c)
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
	err = c.Stop()
	if err == nil || !strings.Contains(err.Error(), "sleep 600") {
		t.Errorf("stop: %v; want that a process was left", err)
	}
	if pids := must(belong.Processes(c.Dir))(t); len(pids) > 0 {
		t.Errorf("still running: %v", pids)
	}
}
