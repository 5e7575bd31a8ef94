package yarn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"headrace/internal/testkit"
	"headrace/lab/belong"
)

// needMachines skips the test where a cluster cannot have the option Machines.
func needMachines(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a YARN cluster; not with -short")
	}
	testMachine(t, t.TempDir(), t.TempDir())
}

// Two NodeManagers on machines of their own: what gives way goes on in place, by
// either mechanism, services too, and starts again when its machine is lost. Before that, where it is to, it goes on on the other one.
func TestTwoMachines(t *testing.T) {
	parallel(t, 240)
	needMachines(t)
	c := startTest(t, Options{Mode: Headrace, Machines: true, Nodes: 2, NoDaemons: true, Properties: elsewhereSoon})
	j := startJobs(t, c)
	if !t.Run("elsewhere", func(t *testing.T) { elsewhere(t, j) }) {
		return // a daemon may be missing
	}
	for _, way := range []struct{ policy, state string }{{"suspend", "suspended"}, {"checkpoint", "checkpointed"}} {
		t.Run(way.state, func(t *testing.T) {
			if way.state == "suspended" {
				testkit.Long(t) // instances of services are on both, and containers that end meanwhile are in TestOneNode
			}
			if err := c.StartDaemons(within(t, patience), way.policy, nil); err != nil {
				t.Fatal(err)
			}
			inPlaceOnBoth(t, j, way.state)
			endWhenAsked(t, j, way.policy)
			if err := c.StopDaemons(); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("services", func(t *testing.T) { services(t, j) })
	t.Run("lost", func(t *testing.T) {
		c.o.ManagerFlags = nil
		if err := c.StartDaemons(within(t, patience), "suspend", nil); err != nil {
			t.Fatal(err)
		}
		loseMachine(t, j)
	})
}

// A container of each machine gives way, and goes on there.
func inPlaceOnBoth(t *testing.T, j *jobs, state string) {
	low := j.startHeld(t, ShellJob{Name: "low-" + state, Queue: "low", Containers: 2, Memory: 2048}, 40, 10)
	low.standStill(t, 10)
	high := j.startHeld(t, ShellJob{Name: "high-" + state, Queue: "high", Containers: 2, Memory: 1536}, 10, 1)
	on := map[int]bool{}
	for _, id := range awaitState(t, j.c, state, 2, low, high) {
		i := nodeOf(t, j.c, id)
		on[i] = true
		for other := range j.c.Nodes() {
			_, err := os.Stat(j.c.machines[other].path("headrace/tasks/" + id))
			if there := err == nil; there != (i == other) {
				t.Errorf("%s is on machine %d; machine %d has files of it: %v", id, i, other, there)
			}
		}
	}
	if len(on) != 2 {
		t.Errorf("containers have given way on %d machines, want 2", len(on))
	}
	low.goOn(t)
	high.goOn(t)
	high.finished(t)
	low.finished(t)
	idle(t, j.c)
}

// endWhenAskedCommand ends when it is to be suspended: at once, or up to some tenths
// of a second later, when it is perhaps not running any more. It leaves a file in a
// directory when it can be asked. On a busy machine it may be stopped before it has run; then the signal is gone when it goes on, and it
// ends when there is a file beside the directory.
const endWhenAskedCommand = `trap 'for ((i = RANDOM * (RANDOM %% 2) * 4; i > 0; i--)); do :; done; exit 0' TSTP; : > %[1]s/$CONTAINER_ID; while [ ! -e %[1]s.over ]; do sleep 0.1 & wait $!; done`

// Containers end at the moment of their suspension.
func endWhenAsked(t *testing.T, j *jobs, name string) {
	const rounds, containers = 3, 4
	for round := range rounds {
		low := ShellJob{Name: fmt.Sprint("low-ends-", name, round), Queue: "low", Containers: containers, Memory: 1024}
		ready := must(j.c.NewSteps(low.Name, 0, 0))(t).Dir
		low.Command = fmt.Sprintf(endWhenAskedCommand, ready)
		if err := j.Submit(low); err != nil {
			t.Fatal(err)
		}
		err := await(within(t, patience), "wait for containers that can be asked", patience, func(context.Context) (bool, error) {
			files, err := os.ReadDir(ready)
			return len(files) == containers, err
		})
		if err != nil {
			t.Fatal(err)
		}
		// It takes all the room, so that all of them have to give way.
		high := j.start(t, ShellJob{Name: fmt.Sprint("high-ends-", name, round), Queue: "high", Containers: 2, Memory: 2048}, 3)
		high.finished(t)
		if err := os.WriteFile(ready+".over", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		e := must(j.Await(within(t, patience), low.Name, "finished"))(t)
		if !e.Good {
			t.Errorf("round %d: the low job has failed", round)
		}
		ends := 0
		for _, e := range must(j.Events(low.Name))(t) {
			if e.Event == "completed" {
				ends++
				if e.Exit != 0 {
					t.Errorf("round %d: %s has ended with %d (%s)", round, e.Container, e.Exit, e.Diagnostics)
				}
			}
		}
		if ends != containers {
			t.Errorf("round %d: %d containers have ended, want %d", round, ends, containers)
		}
		idle(t, j.c)
	}
}

// lostSoon has the ResourceManager give up a node after 10 s. It is for the moment in which one is lost: a ResourceManager that stands
// still for so long, on a busy machine, gives up all of them.
var lostSoon = map[string]string{"yarn.nm.liveness-monitor.expiry-interval-ms": "10000"}

// A machine is lost with suspended containers, which start again on the other.
func loseMachine(t *testing.T, j *jobs) {
	c := j.c
	low := j.startHeld(t, ShellJob{Name: "low-lost", Queue: "low", Containers: 2, Memory: 2048}, 40, 5)
	low.standStill(t, 5)
	high := j.start(t, ShellJob{Name: "high-lost", Queue: "high", Memory: 1024}, 6000)
	suspended := awaitState(t, c, "suspended", 1, low, high)[0]
	lost := nodeOf(t, c, suspended)
	restartRM(t, c, lostSoon)
	if err := c.loseMachine(lost); err != nil {
		t.Fatal(err)
	}
	high.kill(t)
	low.goOn(t)
	if e := must(j.Await(within(t, patience), "low-lost", "finished"))(t); !e.Good {
		t.Error("the low job has failed")
	}
	again := 0
	for task, all := range must(low.steps.Attempts())(t) {
		if last := all[len(all)-1]; len(last.Done) != low.steps.Count && len(all[0].Done) != low.steps.Count {
			t.Errorf("task %s has not done all steps in any container: %v", task, all)
		}
		for _, a := range all {
			if a.Container == suspended {
				again = len(all) - 1
			}
		}
	}
	if again != 1 {
		t.Errorf("the task of the container that was lost has started again %d times, want 1", again)
	}
	idle(t, c)
	if m := must(c.Metrics(t.Context()))(t); m.ActiveNodes != 1 || m.TotalMB != 2048 {
		t.Errorf("without the lost machine: %+v", m)
	}
}

// loseMachine ends everything on machine i at once, and returns.
func (c *Cluster) loseMachine(i int) error {
	n := c.machines[i]
	err := errors.Join(c.KillNM(i), c.KillNode(i))
	pids, e := belong.Processes(c.Dir)
	err = errors.Join(err, e)
	for _, pid := range pids {
		if n.ns.has(pid, n.path("")) {
			err = errors.Join(err, belong.Kill(pid))
		}
	}
	return err
}
