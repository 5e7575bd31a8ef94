package yarn

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"headrace/internal/testkit"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// Headrace is taken away from a cluster while containers run, in the two ways that the documents tell.
func removing(t *testing.T, j *jobs) {
	t.Run("drained", func(t *testing.T) {
		testkit.Long(t) // the manager's own tests drain, and those of its command; a real one loses Headrace below
		drained(t, j)
		j.c.restartYARN(t, nil)
	})
	t.Run("the plug-in gone first", func(t *testing.T) { pluginGone(t, j) })
}

// One container has given way, a person holds another. The cluster is drained, and YARN started again without
// preemption, by Headrace or its own, which would kill what the machine has more than YARN gives out. All of it comes to its end where it is.
func drained(t *testing.T, j *jobs) {
	needCRIU(t)
	c := j.c
	must(0, c.StartDaemons(within(t, patience), "checkpoint", nil))(t)
	f := giveWay(t, j, "drained", "checkpointed")
	held := f.running(t)
	c.node(t, func(ctx context.Context, node wireconnect.TaskServiceClient) (*wire.Task, error) {
		return node.Suspend(ctx, &wire.VerbRequest{Id: held})
	})
	c.drain(t)
	awaitState(t, c, "running", 3, f.low, f.high)
	c.restartYARN(t, map[string]string{"headrace.preemption.mode": "off", "yarn.resourcemanager.scheduler.monitor.enable": "false"})
	c.drain(t)
	f.high.goesOn(t)
	f.low.goOn(t)
	f.high.kill(t)
	f.low.inPlace(t, 2)
	idle(t, c)
	must(0, c.StopDaemons())(t)
	j.start(t, ShellJob{Name: "after-drained", Queue: "low"}, 2).finished(t)
	idle(t, c)
}

// The manager and the plug-in are gone, and a container stands still: root has it go on, to its end where it is. YARN does not preempt, for the
// same reason.
func pluginGone(t *testing.T, j *jobs) {
	needRoot(t)
	c := j.c
	must(0, c.StartDaemons(within(t, patience), "suspend", nil))(t)
	f := giveWay(t, j, "gone", "suspended")
	still := awaitState(t, c, "suspended", 1, f.low, f.high)[0]
	must(0, c.KillManager())(t)
	c.o.Mode = Wait // Headrace's properties are in no file any more
	c.restartYARN(t, nil)
	c.run(t, "--state-dir", c.machines[0].stateDir(), "resume", "--force", still)
	awaitState(t, c, "running", 3, f.low, f.high)
	f.high.goesOn(t)
	f.over(t)
	must(0, c.StopDaemons())(t)
}

// goesOn returns when the job has done steps for three seconds more, in which stock preemption would have killed something: it has half a second
// between two rounds, and gives a container one second.
func (j *job) goesOn(t *testing.T) {
	t.Helper()
	j.awaitSteps(t, must(j.steps.Done())(t)+30)
}

// running returns the container of the low job that has not given way, or has for a moment only.
func (f *fill) running(t *testing.T) string {
	t.Helper()
	app, id := f.low.application(t), ""
	must(0, f.low.c.AwaitTasks(within(t, patience), "one of two containers to run", patience, func(tasks []*wire.Task) bool {
		runs := slices.DeleteFunc(tasks, func(task *wire.Task) bool { return task.Hosting.GetApplication() != app || doing(task) != "running" })
		if len(runs) == 1 {
			id = runs[0].Id
		}
		return len(runs) == 1
	}))(t)
	return id
}

// run runs a command of Headrace, and returns what it has written.
func (c *Cluster) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(within(t, patience), c.o.Binary, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("headrace %v: %v: %s", args, err, out)
	}
	return string(out)
}

// drain has all containers go on by the command, which returns when they run.
func (c *Cluster) drain(t *testing.T) {
	t.Helper()
	const done = "all containers run, and none gives way\n"
	if out := c.run(t, "cluster", "drain", "--manager", c.managerURL(), "--token-file", c.tokenFile()); !strings.HasSuffix(out, done) {
		t.Errorf("drain: %q, want %q", out, done)
	}
}

// restartYARN ends the ResourceManager and the NodeManager as operators do, and starts them again with other properties.
func (c *Cluster) restartYARN(t *testing.T, properties map[string]string) {
	t.Helper()
	c.o.Properties = seldomLooking(properties)
	must(0, errors.Join(stop(&c.resourceManager.process), stop(&c.machines[0].nm), c.writeAll(c.machines)))(t)
	must(0, errors.Join(c.StartRM(within(t, patience)), c.StartNM(within(t, patience), 0)))(t)
}
