package yarn

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/lab/belong"
	"headrace/wire"
)

// awaitState returns the containers in a state when there are exactly so many.
func awaitState(t *testing.T, c *Cluster, state string, want int) []string {
	t.Helper()
	var ids []string
	err := c.AwaitTasks(within(t, patience), fmt.Sprintf("%d containers to be %s", want, state), patience, func(tasks []*wire.Task) bool {
		ids = nil
		for _, task := range tasks {
			if task.State == state && task.Doing == "" {
				ids = append(ids, task.Id)
			}
		}
		return len(ids) == want
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// lowSteps are those of a job that gives way.
const lowSteps = 60

// shortestPause is less than a container is suspended in these tests.
const shortestPause = 1500 * time.Millisecond

// inPlace fails unless every task has done its work in one container, without
// losing a step, and so many have paused.
func (r *stepsRun) inPlace(t *testing.T, paused int) {
	t.Helper()
	if lost := must(r.steps.Lost())(t); lost != 0 {
		t.Errorf("%d steps were lost", lost)
	}
	long := 0
	for task, attempts := range must(r.steps.Attempts())(t) {
		if len(attempts) != 1 {
			t.Errorf("task %s has run in %d containers, want 1", task, len(attempts))
		}
		if attempts[0].LongestPause() > shortestPause {
			long++
		}
	}
	// On a busy machine a container may stand still for as long by itself.
	if aside := r.putAside(t); aside != paused || long < paused {
		t.Errorf("%d containers were put aside and %d have paused, want %d", aside, long, paused)
	}
	for _, e := range r.Events() {
		if e.Event == "completed" && e.Exit != 0 || e.Event == "updated" {
			t.Errorf("the application master has seen %+v", e)
		}
	}
}

// putAside counts the containers of the job that were suspended or checkpointed.
func (r *stepsRun) putAside(t *testing.T) int {
	t.Helper()
	app, n := must(r.ID(t.Context()))(t), 0
	for _, task := range must(r.c.Tasks(t.Context(), 0))(t) {
		if task.Hosting.GetApplication() != app {
			continue
		}
		history := must(r.c.TaskOf(t.Context(), 0, task.Id))(t).History
		if slices.ContainsFunc(history, func(e *wire.Event) bool { return e.State == "suspended" || e.State == "checkpointed" }) {
			n++
		}
	}
	return n
}

// A fill is a low job that leaves no room, and an urgent one that has taken some of
// it and keeps it until it is killed.
type fill struct {
	low, high *stepsRun
	// suspended are the containers that have given way.
	gave []string
}

// giveWay starts both and returns when a container of the low one is in the state.
func giveWay(t *testing.T, c *Cluster, name, state string) *fill {
	t.Helper()
	f := &fill{low: shell(t, c, ShellJob{Name: name + "-low", Queue: "low", Containers: 2, Memory: 1024}, lowSteps, 100*time.Millisecond)}
	holdAfter(t, f.low.steps, 20)
	f.high = shell(t, c, ShellJob{Name: name + "-high", Queue: "high", Memory: 1024}, 6000, 100*time.Millisecond)
	f.gave = awaitState(t, c, state, 1)
	goOn(t, f.low.steps)
	f.high.awaitSteps(t, 5)
	return f
}

// over ends the urgent job and waits for the low one.
func (f *fill) over(t *testing.T, c *Cluster) {
	t.Helper()
	if err := c.KillApp(t.Context(), must(f.high.ID(t.Context()))(t)); err != nil {
		t.Fatal(err)
	}
	f.low.succeed(t, 2)
	f.low.inPlace(t, 1)
	idle(t, c)
}

func TestSuspend(t *testing.T) {
	t.Parallel()
	c := startTest(t, Options{Mode: Headrace, Policy: "suspend"})
	t.Run("in place", func(t *testing.T) { suspendInPlace(t, c) })
	t.Run("DistributedShell", func(t *testing.T) { suspendDistributedShell(t, c) })
	t.Run("MapReduce", func(t *testing.T) { preemptMapReduce(t, c, "suspended") })
	t.Run("killed while suspended", func(t *testing.T) { killSuspended(t, c) })
}

func suspendInPlace(t *testing.T, c *Cluster) {
	low := shell(t, c, ShellJob{Name: "low", Queue: "low", Containers: 2, Memory: 1024}, lowSteps, 100*time.Millisecond)
	holdAfter(t, low.steps, 20)
	high := shell(t, c, ShellJob{Name: "high", Queue: "high", Memory: 1024}, 20, 100*time.Millisecond)
	awaitState(t, c, "suspended", 1)
	goOn(t, low.steps)
	high.succeed(t, 1)
	low.succeed(t, 2)
	low.inPlace(t, 1)
	idle(t, c)
}

// The application master has a container in the queue that gives way, and keeps it.
func suspendDistributedShell(t *testing.T, c *Cluster) {
	s := must(c.NewSteps("ds-low", lowSteps, 100*time.Millisecond))(t)
	low := &stepsRun{must(c.DistributedShell(ShellJob{Name: "ds-low", Queue: "low", Containers: 2, Memory: 896, Command: s.Command()}))(t), c, s}
	holdAfter(t, s, 20)
	high := shell(t, c, ShellJob{Name: "ds-high", Queue: "high", Memory: 1792}, 10, 100*time.Millisecond)
	suspended := awaitState(t, c, "suspended", 2)
	goOn(t, s)
	for _, id := range suspended {
		if strings.HasSuffix(id, "_000001") {
			t.Errorf("the application master is suspended: %s", id)
		}
	}
	high.succeed(t, 1)
	low.succeed(t, 2)
	low.inPlace(t, 2)
	app := must(c.App(t.Context(), must(low.ID(t.Context()))(t)))(t)
	if app.FinalStatus != "SUCCEEDED" || app.PreemptedMasters != 0 || app.PreemptedContainers != 0 {
		t.Errorf("the application: %+v", app)
	}
	idle(t, c)
}

// A job of MapReduce gives way in the middle of its map tasks, and its result is
// right.
func preemptMapReduce(t *testing.T, c *Cluster, state string) {
	hold := holdFile(t, c)
	low := startHeld(t, c, "words", 2, hold, nil)
	err := await(within(t, patience), "wait for both maps to be in the middle", patience, func(context.Context) (bool, error) {
		logs, err := c.ContainerLogs(must(low.ID(t.Context()))(t))
		n := 0
		for _, log := range logs {
			n += strings.Count(log, heldSays)
		}
		return n == 2, err
	})
	if err != nil {
		t.Fatal(err)
	}
	high := shell(t, c, ShellJob{Name: "mr-high", Queue: "high", Memory: 1024}, 20, 100*time.Millisecond)
	awaitState(t, c, state, 1)
	must(0, os.Remove(hold))(t)
	high.succeed(t, 1)
	low.succeed(t)
	app := must(c.App(t.Context(), must(low.ID(t.Context()))(t)))(t)
	if app.PreemptedContainers != 0 || app.PreemptedMasters != 0 {
		t.Errorf("the application: %+v", app)
	}
	idle(t, c)
}

func killSuspended(t *testing.T, c *Cluster) {
	f := giveWay(t, c, "kill", "suspended")
	for _, r := range []*stepsRun{f.low, f.high} {
		if err := c.KillApp(t.Context(), must(r.ID(t.Context()))(t)); err != nil {
			t.Fatal(err)
		}
	}
	idle(t, c)
	// The daemon writes the end down a moment after the last process has gone.
	err := c.AwaitTasks(within(t, patience), "all tasks to have ended", settleTime, func(tasks []*wire.Task) bool {
		return !slices.ContainsFunc(tasks, func(task *wire.Task) bool { return task.EndedMs == 0 })
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	c := startTest(t, Options{Mode: Headrace, Policy: "checkpoint"})
	t.Run("in place", func(t *testing.T) { checkpointInPlace(t, c) })
	t.Run("MapReduce", func(t *testing.T) { preemptMapReduce(t, c, "checkpointed") })
}

// What remains of a checkpointed container is the process that YARN watches.
func checkpointInPlace(t *testing.T, c *Cluster) {
	f := giveWay(t, c, "checkpoint", "checkpointed")
	for _, left := range processesOf(t, c, f.gave[0]) {
		if !strings.Contains(left, "headrace-shim") && !strings.Contains(left, "default_container_executor") {
			t.Errorf("a checkpointed container still has %s", left)
		}
	}
	f.over(t, c)
}

// processesOf returns the processes whose environment names a container.
func processesOf(t *testing.T, c *Cluster, container string) []string {
	t.Helper()
	var found []string
	for _, pid := range must(belong.Processes(c.Dir))(t) {
		environ := fmt.Sprintf("/proc/%d/environ", pid)
		env, err := os.ReadFile(environ)
		what := belong.Describe(pid)
		// One that has ended in between is described by nothing.
		if _, gone := os.ReadFile(environ); err == nil && gone == nil && strings.Contains(string(env), "CONTAINER_ID="+container) {
			found = append(found, what)
		}
	}
	return found
}

// The plug-ins without Headrace: stock preemption, and nobody warns twice.
func TestWithoutDaemons(t *testing.T) {
	t.Parallel()
	c := startTest(t, Options{Mode: Headrace, NoDaemons: true})
	low := shell(t, c, ShellJob{Name: "low", Queue: "low", Containers: 4, Memory: 512}, 60, 100*time.Millisecond)
	holdAfter(t, low.steps, 80) // so at least 20 in those that are killed
	high := shell(t, c, ShellJob{Name: "high", Queue: "high", Containers: 3, Memory: 512}, 10, 100*time.Millisecond)
	high.succeed(t, 3)
	goOn(t, low.steps)
	low.succeed(t, 4)
	if lost := must(low.steps.Lost())(t); lost < 20 {
		t.Errorf("%d steps were lost; want at least 20, as with stock preemption", lost)
	}
	idle(t, c)
	for _, log := range []string{"rm", "nm0"} {
		warnings := ourWarnings(t, c.logFile(log))
		if len(warnings) == 0 {
			t.Errorf("%s.log has no warning of ours", log)
		}
		for class, n := range warnings {
			if n != 1 {
				t.Errorf("%s.log has %d warnings of %s, want 1", log, n, class)
			}
		}
	}
}

// ourWarnings counts the warnings and errors of each of Headrace's classes in a log.
func ourWarnings(t *testing.T, path string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for line := range strings.Lines(string(must(os.ReadFile(path))(t))) {
		f := strings.Fields(line)
		if len(f) > 2 && (f[1] == "WARN" || f[1] == "ERROR") && strings.HasPrefix(f[2], "headrace.") {
			t.Log(strings.TrimSpace(line))
			n[f[2]]++
		}
	}
	return n
}
