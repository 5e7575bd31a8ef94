package yarn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/lab/belong"
	"headrace/wire"
)

// awaitState returns the containers in a state when there are so many or more. Jobs that are to last longer are named: when
// one has come to its end, nobody need wait.
func awaitState(t *testing.T, c *Cluster, state string, want int, last ...*job) []string {
	t.Helper()
	var ids []string
	var over error
	err := c.AwaitTasks(within(t, patience), fmt.Sprintf("%d containers to be %s", want, state), patience, func(tasks []*wire.Task) bool {
		ids = nil
		for _, task := range tasks {
			if task.State == state && task.Doing == "" {
				ids = append(ids, task.Id)
			}
		}
		for _, j := range last {
			over = errors.Join(over, j.over())
		}
		return len(ids) >= want || over != nil
	})
	if err := errors.Join(err, over); err != nil {
		t.Fatalf("%d of %d containers are %s: %v", len(ids), want, state, err)
	}
	return ids
}

// lowSteps are those of a job that gives way.
const lowSteps = 60

// shortestPause is less than a container is suspended in these tests.
const shortestPause = 1500 * time.Millisecond

// inPlace fails unless every task of an application has done its work in one container, without
// losing a step, and so many have paused.
func inPlace(t *testing.T, c *Cluster, application string, steps Steps, events []Event, paused int) {
	t.Helper()
	if lost := must(steps.Lost())(t); lost != 0 {
		t.Errorf("%d steps were lost", lost)
	}
	long := 0
	for task, attempts := range must(steps.Attempts())(t) {
		if len(attempts) != 1 {
			t.Errorf("task %s has run in %d containers, want 1", task, len(attempts))
		}
		if attempts[0].LongestPause() > shortestPause {
			long++
		}
	}
	// On a busy machine a container may stand still for as long by itself.
	if aside := putAside(t, c, application); aside != paused || long < paused {
		t.Errorf("%d containers were put aside and %d have paused, want %d", aside, long, paused)
	}
	for _, e := range events {
		if e.Event == "completed" && e.Exit != 0 || e.Event == "updated" {
			t.Errorf("the application master has seen %+v", e)
		}
	}
}

// inPlace waits for the end of a job, and fails unless it was all done so.
func (j *job) inPlace(t *testing.T, paused int) {
	t.Helper()
	j.finished(t)
	inPlace(t, j.c, j.application(t), j.steps, must(j.Events(j.name))(t), paused)
}

// putAside counts the containers of an application that were suspended or checkpointed.
func putAside(t *testing.T, c *Cluster, application string) int {
	t.Helper()
	n := 0
	for _, task := range must(c.Tasks(t.Context(), 0))(t) {
		if task.Hosting.GetApplication() != application {
			continue
		}
		history := must(c.TaskOf(t.Context(), 0, task.Id))(t).History
		if slices.ContainsFunc(history, func(e *wire.Event) bool { return e.State == "suspended" || e.State == "checkpointed" }) {
			n++
		}
	}
	return n
}

// A fill is a low job that leaves no room, and an urgent one that has taken some of
// it and keeps it until it is killed.
type fill struct {
	low, high *job
	// gave are the containers that have given way.
	gave []string
}

// giveWay starts both and returns when a container of the low one is in the state. It stays so until over: the
// low job is held.
func giveWay(t *testing.T, j *jobs, name, state string) *fill {
	t.Helper()
	f := &fill{low: j.startHeld(t, ShellJob{Name: name + "-low", Queue: "low", Containers: 2, Memory: 1024}, lowSteps, 10)}
	f.low.standStill(t, 10)
	f.high = j.start(t, ShellJob{Name: name + "-high", Queue: "high", Memory: 1024}, 6000)
	f.gave = awaitState(t, j.c, state, 1, f.low, f.high)
	f.high.awaitSteps(t, 5)
	return f
}

// over ends the urgent job and waits for the low one.
func (f *fill) over(t *testing.T) {
	t.Helper()
	f.low.goOn(t)
	f.high.kill(t)
	f.low.inPlace(t, 1)
	idle(t, f.low.c)
}

// On one NodeManager YARN kills as long as Headrace's daemons are not there. When they are, what gives way
// goes on in place, by either mechanism, again and again. In the end Headrace is removed.
func TestOneNode(t *testing.T) {
	parallel(t, 350)
	c := startTest(t, Options{Mode: Headrace, NoDaemons: true, IntraQueue: true})
	j := startJobs(t, c)
	t.Run("without daemons", func(t *testing.T) { withoutDaemons(t, j) })
	withDaemons(t, c, "suspended", "suspend", nil, func(t *testing.T) { suspended(t, j) })
	withDaemons(t, c, "checkpointed", "checkpoint", nil, func(t *testing.T) { checkpointed(t, j) })
	c.o.ManagerFlags = []string{"--min-run", "0s"}
	withDaemons(t, c, "again and again", "suspend", nil, func(t *testing.T) { againAndAgain(t, j) })
	t.Run("full store", func(t *testing.T) { fullStore(t, j) })
	c.o.NodeFlags = nil
	t.Run("removing", func(t *testing.T) { removing(t, j) })
}

func suspended(t *testing.T, j *jobs) {
	t.Run("in place", func(t *testing.T) {
		testkit.Long(t) // so is it where Headrace is removed, and in TestOrdinaryUser
		suspendInPlace(t, j)
	})
	t.Run("DistributedShell", func(t *testing.T) {
		testkit.Long(t) // MapReduce's master keeps its container too; DistributedShell's goes on in TestTwoMachines
		suspendDistributedShell(t, j)
	})
	t.Run("MapReduce", func(t *testing.T) { preemptMapReduce(t, j, "suspended") })
	t.Run("killed while suspended", func(t *testing.T) { killSuspended(t, j) })
}

func suspendInPlace(t *testing.T, j *jobs) {
	low := j.startHeld(t, ShellJob{Name: "low", Queue: "low", Containers: 2, Memory: 1024}, lowSteps, 10)
	low.standStill(t, 10)
	high := j.startHeld(t, ShellJob{Name: "high", Queue: "high", Memory: 1024}, 20, 1)
	awaitState(t, j.c, "suspended", 1, low, high)
	low.goOn(t)
	high.goOn(t)
	high.finished(t)
	low.inPlace(t, 1)
	idle(t, j.c)
}

// The application master has a container in the queue that gives way, and keeps it.
func suspendDistributedShell(t *testing.T, j *jobs) {
	c := j.c
	s := must(c.NewSteps("ds-low", lowSteps, 100*time.Millisecond))(t)
	hold(t, s, 10)
	low := &stepsRun{must(c.DistributedShell(ShellJob{Name: "ds-low", Queue: "low", Containers: 2, Memory: 896, Command: s.Command()}))(t), c, s}
	low.awaitSteps(t, 20)
	high := j.startHeld(t, ShellJob{Name: "ds-high", Queue: "high", Memory: 1792}, 10, 1)
	for _, id := range awaitState(t, c, "suspended", 2, high) {
		if strings.HasSuffix(id, "_000001") {
			t.Errorf("the application master is suspended: %s", id)
		}
	}
	goOn(t, s)
	high.goOn(t)
	high.finished(t)
	low.succeed(t, 2)
	id := must(low.ID(t.Context()))(t)
	inPlace(t, c, id, s, low.Events(), 2)
	app := must(c.App(t.Context(), id))(t)
	if app.FinalStatus != "SUCCEEDED" || app.PreemptedMasters != 0 || app.PreemptedContainers != 0 {
		t.Errorf("the application: %+v", app)
	}
	idle(t, c)
}

// A job of MapReduce gives way in the middle of its map tasks, and its result is
// right.
func preemptMapReduce(t *testing.T, j *jobs, state string) {
	c := j.c
	hold := holdFile(t, c)
	low := startHeld(t, c, "words-"+state, 2, hold, nil)
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
	high := j.startHeld(t, ShellJob{Name: "mr-high-" + state, Queue: "high", Memory: 1024}, 20, 1)
	awaitState(t, c, state, 1, high)
	must(0, os.Remove(hold))(t)
	high.goOn(t)
	high.finished(t)
	low.succeed(t)
	app := must(c.App(t.Context(), must(low.ID(t.Context()))(t)))(t)
	if app.PreemptedContainers != 0 || app.PreemptedMasters != 0 {
		t.Errorf("the application: %+v", app)
	}
	idle(t, c)
}

func killSuspended(t *testing.T, j *jobs) {
	f := giveWay(t, j, "kill", "suspended")
	f.low.kill(t)
	f.high.kill(t)
	idle(t, j.c)
	// The daemon writes the end down a moment after the last process has gone.
	err := j.c.AwaitTasks(within(t, patience), "all tasks to have ended", patience, func(tasks []*wire.Task) bool {
		return !slices.ContainsFunc(tasks, func(task *wire.Task) bool { return task.EndedMs == 0 })
	})
	if err != nil {
		t.Error(err)
	}
}

func checkpointed(t *testing.T, j *jobs) {
	needCRIU(t)
	t.Run("in place", func(t *testing.T) { checkpointInPlace(t, j) })
	t.Run("MapReduce", func(t *testing.T) {
		testkit.Long(t) // TestPutAside checkpoints maps and reduces; suspended ones give way above
		preemptMapReduce(t, j, "checkpointed")
	})
}

// What remains of a checkpointed container is the process that YARN watches.
func checkpointInPlace(t *testing.T, j *jobs) {
	f := giveWay(t, j, "checkpoint", "checkpointed")
	for _, left := range processesOf(t, j.c, f.gave[0]) {
		if !strings.Contains(left, "headrace-shim") && !strings.Contains(left, "default_container_executor") {
			t.Errorf("a checkpointed container still has %s", left)
		}
	}
	f.over(t)
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
func withoutDaemons(t *testing.T, j *jobs) {
	c := j.c
	low := j.startHeld(t, ShellJob{Name: "low-alone", Queue: "low", Containers: 4, Memory: 512}, 60, 20)
	low.standStill(t, 20) // so at least 20 in those that are killed
	j.start(t, ShellJob{Name: "high-alone", Queue: "high", Containers: 3, Memory: 512}, 10).finished(t)
	low.goOn(t)
	if e := must(j.Await(within(t, patience), low.name, "finished"))(t); !e.Good {
		t.Error("the low job has failed")
	}
	low.steps.complete(t, 4)
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
