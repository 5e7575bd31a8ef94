package yarn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"headrace/internal/testkit"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// An operator has the wrong token at first, then looks, and then has those give way that cost least.
func TestOrder(t *testing.T) {
	parallel(t, 75)
	token := filepath.Join(t.TempDir(), "token")
	must(0, os.WriteFile(token, []byte("0123456789abcdef0123456789abcdef\n"), 0o600))(t)
	c := startTest(t, Options{Mode: Headrace, ManagerFlags: []string{"--min-run", "0s"},
		Properties: map[string]string{"headrace.manager.token-file": token}})
	j := startJobs(t, c)
	t.Run("wrong token", func(t *testing.T) { wrongToken(t, j) })
	t.Run("observe-only", func(t *testing.T) {
		testkit.Long(t) // PreemptionTest in Java observes only, too
		restartRM(t, c, map[string]string{"headrace.preemption.mode": "observe-only"})
		observeOnly(t, j)
	})
	// What gives way is killed, that first which costs least.
	c.o.Policy = "kill"
	must(0, errors.Join(c.KillManager(), c.StartManager(within(t, patience))))(t)
	restartRM(t, c, map[string]string{"headrace.preemption.order": "cost"})
	t.Run("cheapest", func(t *testing.T) { cheapestGivesWay(t, j) })
	t.Run("manager stands still", func(t *testing.T) { ordersByItself(t, j) })
}

// What Headrace would do is written down, and YARN does what it always does.
func observeOnly(t *testing.T, j *jobs) {
	log := j.c.logFile("rm")
	before := logSize(log)
	low := j.startHeld(t, ShellJob{Name: "low", Queue: "low", Containers: 2, Memory: 1024}, 60, 20)
	low.standStill(t, 20)
	high := j.start(t, ShellJob{Name: "high", Queue: "high", Memory: 1024}, 5)
	high.finished(t)
	low.goOn(t)
	if e := must(j.Await(within(t, patience), "low", "finished"))(t); !e.Good {
		t.Error("the low job has failed")
	}
	if lost := must(low.steps.Lost())(t); lost < 10 {
		t.Errorf("%d steps were lost; want at least 10, as with stock preemption", lost)
	}
	idle(t, j.c)
	if !logHas(log, before, "would") {
		t.Error("the ResourceManager's log does not say what would have been done")
	}
}

// restartRM kills the ResourceManager and starts it with other properties.
func restartRM(t *testing.T, c *Cluster, properties map[string]string) {
	t.Helper()
	c.o.Properties = seldomLooking(properties)
	must(0, errors.Join(c.writeAll(c.machines), c.KillRM(), c.StartRM(within(t, patience))))(t)
}

// A pair of containers of which the older one, which YARN would spare, has run for less time than
// the other: a person had put it aside.
type pair struct {
	*job
	older, newer string
}

func startPair(t *testing.T, j *jobs, name string) *pair {
	t.Helper()
	const shorter = 4 // seconds
	p := &pair{job: j.startHeld(t, ShellJob{Name: name, Queue: "low", Containers: 2, Memory: 1024}, 2, 1)}
	p.awaitSteps(t, 2)
	p.older, p.newer = p.containers(t)[0], p.containers(t)[1]
	client := wire.NewHTTPClient(j.c.machines[0].socket())
	defer client.CloseIdleConnections()
	tasks := wireconnect.NewTaskServiceClient(client, wire.BaseURL)
	must(tasks.Suspend(t.Context(), &wire.VerbRequest{Id: p.older}))(t)
	err := await(within(t, patience), "wait for one container to have run longer", patience, func(ctx context.Context) (bool, error) {
		older, err := j.c.TaskOf(ctx, 0, p.older)
		newer, e := j.c.TaskOf(ctx, 0, p.newer)
		return older.GetState() == "suspended" && newer.GetUsage().GetRunning() > older.GetUsage().GetRunning()+shorter, errors.Join(err, e)
	})
	if err != nil {
		t.Fatal(err)
	}
	must(tasks.Resume(t.Context(), &wire.VerbRequest{Id: p.older}))(t)
	awaitState(t, j.c, "running", 2, p.job)
	return p
}

// containers returns those in which tasks have begun, in YARN's order.
func (p *pair) containers(t *testing.T) (ids []string) {
	t.Helper()
	for _, all := range must(p.steps.Attempts())(t) {
		for _, a := range all {
			ids = append(ids, a.Container)
		}
	}
	slices.Sort(ids)
	return ids
}

// gaveWay waits for the end, and fails unless one container was taken away, which was id.
func (p *pair) gaveWay(t *testing.T, id string) {
	t.Helper()
	p.goOn(t)
	if e := must(p.Await(within(t, patience), p.name, "finished"))(t); !e.Good {
		t.Errorf("%s has failed", p.name)
	}
	var gone []string
	for _, e := range must(p.Events(p.name))(t) {
		if e.Event == "completed" && e.Exit != 0 {
			gone = append(gone, e.Container)
			if e.Exit != Preempted {
				t.Errorf("%s has ended with %d (%s)", e.Container, e.Exit, e.Diagnostics)
			}
		}
	}
	if !slices.Equal(gone, []string{id}) {
		t.Errorf("of %s and %s, %v gave way, want %s", p.older, p.newer, gone, id)
	}
	if n := len(p.containers(t)); n != 3 {
		t.Errorf("%d containers have begun, want 3", n)
	}
}

// That one gives way which has less to lose, in place of the one that YARN has chosen.
func cheapestGivesWay(t *testing.T, j *jobs) {
	log := j.c.logFile("rm")
	before := logSize(log)
	low := startPair(t, j, "low-cheap")
	high := j.start(t, ShellJob{Name: "high-cheap", Queue: "high", Memory: 1024}, 5)
	high.finished(t)
	low.gaveWay(t, low.older)
	idle(t, j.c)
	if line := "In place of [" + low.newer + "]"; !logHas(log, before, line) {
		t.Errorf("the ResourceManager's log does not say %q", line)
	}
}

// With a manager that accepts calls and answers none, containers give way in YARN's own order, and its own choice is killed.
func ordersByItself(t *testing.T, j *jobs) {
	log := j.c.logFile("rm")
	low := startPair(t, j, "low-still")
	before := logSize(log)
	manager := j.c.headraceDaemons.process.cmd.Process
	must(0, manager.Signal(syscall.SIGSTOP))(t)
	high := j.start(t, ShellJob{Name: "high-still", Queue: "high", Memory: 1024}, 5)
	high.finished(t)
	must(0, manager.Signal(syscall.SIGCONT))(t)
	low.gaveWay(t, low.newer)
	idle(t, j.c)
	said := string(must(os.ReadFile(log))(t)[before:])
	ordered := strings.Index(said, "Containers give way in YARN's own order: ")
	killed := strings.Index(said, low.newer+" is preempted by YARN: there is no answer")
	if ordered < 0 || killed < ordered {
		t.Errorf("the order is at %d, the end of %s at %d of the log:\n%s", ordered, low.newer, killed, said)
	}
}
