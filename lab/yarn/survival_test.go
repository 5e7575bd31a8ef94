package yarn

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"headrace/internal/criu"
	"headrace/internal/testkit"
	"headrace/wire"
)

// Each daemon is killed in each state that a container goes through when it is suspended, or checkpointed, and started
// again: in one state with either mechanism, and in the others with all long tests.
func TestSurvival(t *testing.T) {
	parallel(t, 120)
	g := gate(t.TempDir())
	c := startTest(t, Options{Mode: Headrace, NoDaemons: true, ManagerFlags: []string{"--min-run", "0s"}})
	j := startJobs(t, c)
	withDaemons(t, c, "suspended", "suspend", []string{"--suspend-grace", "10m"}, func(t *testing.T) {
		killEach(t, j, g, "running", "suspending", "suspended")
	})
	needCRIU(t)
	withDaemons(t, c, "checkpointed", "checkpoint", []string{"--criu", g.criu(t)}, func(t *testing.T) {
		killEach(t, j, g, "checkpointing", "checkpointed", "restoring")
		t.Run("killed while checkpointed", func(t *testing.T) { killCheckpointed(t, j) })
	})
}

// A daemon of a cluster with one NodeManager.
type daemon struct {
	name  string
	kill  func(*Cluster) error
	start func(*Cluster, context.Context) error
	// always are the states in which it is killed not only with all long tests.
	always []string
}

var daemons = []daemon{
	{"node", func(c *Cluster) error { return c.KillNode(0) }, func(c *Cluster, ctx context.Context) error { return c.StartNode(ctx, 0) },
		[]string{"suspended", "checkpointing"}},
	{"manager", (*Cluster).KillManager, (*Cluster).StartManager, []string{"running", "restoring"}},
	{"NodeManager", func(c *Cluster) error { return c.KillNM(0) }, func(c *Cluster, ctx context.Context) error { return c.StartNM(ctx, 0) },
		[]string{"suspending", "checkpointed"}},
	{"ResourceManager", (*Cluster).KillRM, (*Cluster).StartRM, []string{"suspended", "restoring"}},
}

func killEach(t *testing.T, j *jobs, g gate, states ...string) {
	for _, state := range states {
		for _, d := range daemons {
			t.Run(d.name+" while "+state, func(t *testing.T) {
				if !slices.Contains(d.always, state) {
					testkit.Long(t)
				}
				survive(t, j, g, d, state)
			})
		}
	}
}

// survive has a container give way and go on, and kills a daemon when it is in the
// state. No step may be lost or done twice.
func survive(t *testing.T, j *jobs, g gate, d daemon, state string) {
	c, name := j.c, d.name+"-"+state
	low := j.startHeld(t, ShellJob{Name: "low-" + name, Queue: "low", Memory: 2048, Command: g.command(state)}, 6, 1)
	low.awaitSteps(t, 1)
	if state == "running" {
		d.dies(t, c, g, awaitDoing(t, c, state), state)
	}
	g.close(t, state)
	high := j.startHeld(t, ShellJob{Name: "high-" + name, Queue: "high", Memory: 1024}, 4, 1)
	parked := state == "suspended" || state == "checkpointed"
	var gave string
	switch {
	case state == "running":
		gave = awaitDoing(t, c, "suspended")
	case parked:
		gave = awaitDoing(t, c, state)
		high.awaitSteps(t, 1)
	case state == "restoring":
		high.goOn(t)
		gave = awaitDoing(t, c, state)
	default:
		gave = awaitDoing(t, c, state)
	}
	low.goOn(t)
	if state != "running" {
		d.dies(t, c, g, gave, state)
	}
	if parked {
		if still := awaitState(t, c, state, 1, low, high); still[0] != gave {
			t.Errorf("%s is %s, before it was %s", still[0], state, gave)
		}
	}
	high.goOn(t)
	high.finished(t)
	low.finished(t)
	low.stoodStill(t, high)
	idle(t, c)
}

// dies kills the daemon while a container is in a state, opens the gate, and starts
// the daemon again.
func (d daemon) dies(t *testing.T, c *Cluster, g gate, id, state string) {
	t.Helper()
	if now := doing(must(c.TaskOf(t.Context(), 0, id))(t)); now != state {
		t.Errorf("the container is %s when the %s is killed, want %s", now, d.name, state)
	}
	if err := d.kill(c); err != nil {
		t.Fatal(err)
	}
	g.open(t, state)
	if err := d.start(c, within(t, patience)); err != nil {
		t.Fatal(err)
	}
}

// doing returns what a task does, or else the state that it is in.
func doing(task *wire.Task) string { return orDefault(task.Doing, task.State) }

// awaitDoing returns the first task of a NodeManager that does something or is in a state.
func awaitDoing(t *testing.T, c *Cluster, what string) string {
	t.Helper()
	id := ""
	err := c.AwaitTasks(within(t, patience), "a container to be "+what, patience, func(tasks []*wire.Task) bool {
		i := slices.IndexFunc(tasks, func(task *wire.Task) bool { return doing(task) == what })
		if i >= 0 {
			id = tasks[i].Id
		}
		return i >= 0
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// stoodStill fails if the job has done a step while the other one did its own.
func (j *job) stoodStill(t *testing.T, other *job) {
	t.Helper()
	theirs := must(other.steps.Attempts())(t)["0"][0].Done
	first, last := theirs[0], theirs[len(theirs)-1]
	for _, a := range must(j.steps.Attempts())(t)["0"] {
		if slices.ContainsFunc(a.Done, func(at time.Time) bool { return at.After(first) && at.Before(last) }) {
			t.Errorf("%s has done steps at %v; %s had its room from %v to %v", j.name, a.Done, other.name, first, last)
		}
	}
}

// A gate is a directory. As long as it has a file with the name of a state, containers
// stay in that state: suspending, checkpointing or restoring.
type gate string

func (g gate) file(state string) string { return filepath.Join(string(g), state) }

func (g gate) close(t *testing.T, state string) {
	t.Helper()
	if err := os.WriteFile(g.file(state), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(g.file(state)) })
}

func (g gate) open(t *testing.T, state string) {
	t.Helper()
	if err := os.RemoveAll(g.file(state)); err != nil {
		t.Fatal(err)
	}
}

// wait returns a line of shell that ends when the gate is open.
func (g gate) wait(state string) string {
	return fmt.Sprintf("while [ -e %s ]; do sleep 0.05; done", g.file(state))
}

// command returns that of a job which stays suspending at the gate: its handler of
// SIGTSTP takes so long. Else empty.
func (g gate) command(state string) string {
	if state != "suspending" {
		return ""
	}
	return fmt.Sprintf("trap '%s; trap - TSTP' TSTP; %%s & wait; wait", g.wait(state))
}

// criu makes a CRIU that waits at the gate.
func (g gate) criu(t *testing.T) string {
	t.Helper()
	script := fmt.Sprintf("#!/bin/sh\ncase $1 in\ndump) %s ;;\nrestore) %s ;;\nesac\nexec '%s' \"$@\"\n",
		g.wait("checkpointing"), g.wait("restoring"), must(criu.Find())(t).Path)
	path := g.file("criu")
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// An application is killed while a container of it is on storage only.
func killCheckpointed(t *testing.T, j *jobs) {
	low := j.startHeld(t, ShellJob{Name: "low-killed", Queue: "low", Memory: 2048}, 300, 5)
	low.standStill(t, 5)
	high := j.start(t, ShellJob{Name: "high-killed", Queue: "high", Memory: 1024}, 6000)
	awaitState(t, j.c, "checkpointed", 1, low, high)
	low.kill(t)
	high.kill(t)
	idle(t, j.c)
	// They are removed beside all else, a moment after the end is recorded.
	err := await(within(t, patience), "the checkpoints to be removed", patience, func(context.Context) (bool, error) {
		entries, err := os.ReadDir(j.c.machines[0].stateDir() + "/checkpoints")
		entries = slices.DeleteFunc(entries, marksStore)
		if err == nil && len(entries) > 0 {
			err = fmt.Errorf("left: %v", entries)
		}
		return err == nil, err
	})
	if err != nil {
		t.Error(err)
	}
}
