package yarn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace/internal/testkit"
	"headrace/lab/belong"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// jobs are run by one process, which is their application master.
type jobs struct {
	c *Cluster
	*Masters
}

func startJobs(t *testing.T, c *Cluster) *jobs {
	t.Helper()
	return &jobs{c, must(c.Masters(within(t, patience)))(t)}
}

// A job of them does steps of a tenth of a second.
type job struct {
	*jobs
	name  string
	steps Steps
	tasks int
}

// start starts a job of so many steps. %s in its command stands for them; an empty
// command does nothing else.
func (j *jobs) start(t *testing.T, s ShellJob, count int) *job {
	t.Helper()
	return j.submit(t, s, must(j.c.NewSteps(s.Name, count, 100*time.Millisecond))(t))
}

// startHeld starts a job whose tasks stand still when each has done a step, until goOn.
func (j *jobs) startHeld(t *testing.T, s ShellJob, count, step int) *job {
	t.Helper()
	steps := must(j.c.NewSteps(s.Name, count, 100*time.Millisecond))(t)
	hold(t, steps, step)
	return j.submit(t, s, steps)
}

// standStill returns when all tasks of a job do that was started held at a step.
func (j *job) standStill(t *testing.T, step int) {
	t.Helper()
	j.awaitSteps(t, j.tasks*step)
}

func (j *job) goOn(t *testing.T) {
	t.Helper()
	goOn(t, j.steps)
}

func (j *jobs) submit(t *testing.T, s ShellJob, steps Steps) *job {
	t.Helper()
	s.Command = strings.ReplaceAll(orDefault(s.Command, "%s"), "%s", steps.Command())
	if err := j.Submit(s); err != nil {
		t.Fatal(err)
	}
	started := &job{j, s.Name, steps, max(1, s.Containers)}
	t.Cleanup(func() {
		// What a failed test leaves would be in the way of others.
		if t.Failed() {
			started.tell(t)
			started.end()
		}
	})
	return started
}

// tell logs what has become of a job, and what its scheduler has said of it.
func (j *job) tell(t *testing.T) {
	events, err := j.Events(j.name)
	t.Logf("%s: %v", j.name, err)
	app := ""
	for _, e := range events {
		app = e.Application
		t.Logf("%s %s %s on %s: %d %s", time.UnixMilli(e.AtMs).Format(time.TimeOnly), e.Event, e.Container, e.Node, e.Exit, e.Diagnostics)
	}
	if app == "" {
		return
	}
	j.c.tellLog(t, "rm", func(line string) bool {
		return strings.Contains(line, strings.TrimPrefix(app, "application_")) && (strings.Contains(line, "headrace") || strings.Contains(line, "reempt"))
	})
}

// awaitSteps returns when so many are done in all tasks together.
func (j *job) awaitSteps(t *testing.T, n int) {
	t.Helper()
	awaitSteps(t, j.steps, n, j)
}

// over returns an error after which waiting makes no sense, if the job has come to its end.
func (j *job) over() error {
	events, err := j.Events(j.name)
	for _, e := range events {
		if end := e.end(); end != nil {
			return &fatal{fmt.Errorf("job %s: %w", j.name, end)}
		}
	}
	return err
}

// finished waits for the end, and fails unless every task has done all steps, each of
// them once, in one container, and no other container was taken away.
func (j *job) finished(t *testing.T) {
	t.Helper()
	e := must(j.Await(within(t, patience), j.name, "finished"))(t)
	if !e.Good {
		t.Errorf("%s has failed", j.name)
	}
	attempts := must(j.steps.Attempts())(t)
	if len(attempts) != j.tasks {
		t.Errorf("%s: %d tasks have done anything, want %d", j.name, len(attempts), j.tasks)
	}
	for task, all := range attempts {
		if len(all) != 1 || len(all[0].Done) != j.steps.Count {
			t.Errorf("%s: task %s has run in %d containers, and done %d of %d steps in the first", j.name, task, len(all), len(all[0].Done), j.steps.Count)
		}
	}
	for _, e := range must(j.Events(j.name))(t) {
		if e.Event == "completed" && e.Exit != 0 && !j.lostByYARN(t, e) {
			t.Errorf("%s: %s was taken away, exit status %d: %s", j.name, e.Container, e.Exit, e.Diagnostics)
		}
	}
}

// lostByYARN reports whether a container was being started when its NodeManager was
// killed: that one had noted that it runs, and its launch script had not begun; or it
// launched the container after its restart before it had taken it up. YARN gives up
// such a container, with or without Headrace.
func (j *jobs) lostByYARN(t *testing.T, e Event) bool {
	t.Helper()
	why := map[int]string{
		154: "Unable to locate pid file for container " + e.Container,
		-1:  "Unable to get local resources when Container " + e.Container + " is at NEW",
	}[e.Exit]
	return why != "" && slices.ContainsFunc(j.c.machines, func(n *machine) bool {
		return logHas(j.c.logFile(fmt.Sprint("nm", n.index)), 0, why)
	})
}

// end kills the job if it has not ended.
func (j *job) end() {
	events, _ := j.Events(j.name)
	for _, e := range events {
		if e.Event == "submitted" {
			j.c.KillApp(context.Background(), e.Application)
		}
	}
}

func (j *job) application(t *testing.T) string {
	t.Helper()
	return must(j.Await(within(t, patience), j.name, "submitted"))(t).Application
}

func (j *job) kill(t *testing.T) {
	t.Helper()
	if err := j.c.KillApp(t.Context(), j.application(t)); err != nil {
		t.Fatal(err)
	}
}

func againAndAgain(t *testing.T, j *jobs) {
	t.Run("four rounds", func(t *testing.T) { fourRounds(t, j) })
	t.Run("ending", func(t *testing.T) { endWhileGivingWay(t, j) })
	t.Run("by priority", func(t *testing.T) { byPriority(t, j) })
	t.Run("by a user", func(t *testing.T) { suspendedByUser(t, j) })
	t.Run("too much memory", func(t *testing.T) { tooMuchMemory(t, j) })
	t.Run("stranger", func(t *testing.T) { stranger(t, j.c) })
}

// One container gives way again and again. Each time that it is put aside soon after it
// has gone on it stays so for longer, up to eight seconds.
func fourRounds(t *testing.T, j *jobs) {
	const rounds = 4
	if task := giveWayAgain(t, j, "rounds", rounds, 8*rounds+10, 3); task.Preemptions != rounds {
		t.Errorf("the container was preempted %d times, want %d", task.Preemptions, rounds)
	}
}

// giveWayAgain has a job of lowSteps give way to one of highSteps so often,
// however long that takes to come. It returns the task of its container.
func giveWayAgain(t *testing.T, j *jobs, name string, rounds, lowSteps, highSteps int) *wire.Task {
	t.Helper()
	const first, apart = 5, 8
	low := j.startHeld(t, ShellJob{Name: name, Queue: "low", Memory: 2048}, lowSteps, first)
	for round := range rounds {
		if round > 0 {
			hold(t, low.steps, first+round*apart)
		}
		low.standStill(t, first+round*apart)
		high := j.start(t, ShellJob{Name: fmt.Sprint(name, round), Queue: "high", Memory: 1024}, highSteps)
		high.finished(t)
	}
	low.goOn(t)
	low.finished(t)
	idle(t, j.c)
	all := must(low.steps.Attempts())(t)["0"]
	return must(j.c.TaskOf(t.Context(), 0, all[0].Container))(t)
}

// Many short containers are suspended at all moments, also at that of their end.
func endWhileGivingWay(t *testing.T, j *jobs) {
	low := j.start(t, ShellJob{Name: "short", Queue: "low", Containers: 40, Memory: 512}, 7)
	low.awaitSteps(t, 10)
	for i := range 6 {
		j.start(t, ShellJob{Name: fmt.Sprint("often", i), Queue: "high", Containers: 2, Memory: 512}, 2).finished(t)
	}
	low.finished(t)
	idle(t, j.c)
}

// An application gives way to another of its queue that has a higher priority.
func byPriority(t *testing.T, j *jobs) {
	low := j.startHeld(t, ShellJob{Name: "lesser", Queue: "high", Priority: 1, Containers: 2, Memory: 1024}, 60, 10)
	low.standStill(t, 10)
	high := j.startHeld(t, ShellJob{Name: "greater", Queue: "high", Priority: 9, Memory: 1024}, 20, 1)
	id := awaitState(t, j.c, "suspended", 1, low, high)[0]
	// The manager hears of containers from nodes, and of the priorities of applications from the ResourceManager.
	must(0, await(within(t, patience), "have the manager know priorities", patience, func(ctx context.Context) (bool, error) {
		told, err := j.c.Manager().Containers(ctx, &wire.ContainersRequest{})
		if err != nil {
			return false, err
		}
		all := told.Containers
		lesser := all[slices.IndexFunc(all, func(c *wire.Container) bool { return c.Id == id })].Hosting.Application
		for _, c := range all {
			if want := map[bool]uint32{true: 1, false: 9}[c.Hosting.Application == lesser]; c.Priority != want {
				return false, fmt.Errorf("the manager takes %s for one of priority %d, want %d", c.Id, c.Priority, want)
			}
		}
		return true, nil
	}))(t)
	low.goOn(t)
	high.goOn(t)
	high.finished(t)
	low.finished(t)
	idle(t, j.c)
}

// A user suspends a container: the scheduler has its room, and the container goes on
// when the user says so and there is room.
func suspendedByUser(t *testing.T, j *jobs) {
	low := j.startHeld(t, ShellJob{Name: "held", Queue: "low", Memory: 2048}, 40, 10)
	low.standStill(t, 10)
	id := must(low.steps.Attempts())(t)["0"][0].Container
	client := wire.NewHTTPClient(j.c.machines[0].socket())
	defer client.CloseIdleConnections()
	tasks := wireconnect.NewTaskServiceClient(client, wire.BaseURL)
	must(tasks.Suspend(t.Context(), &wire.VerbRequest{Id: id}))(t)
	high := j.start(t, ShellJob{Name: "meanwhile", Queue: "low", Memory: 2048}, 5)
	high.finished(t)
	if task := must(j.c.TaskOf(t.Context(), 0, id))(t); task.State != "suspended" || !task.Held {
		t.Errorf("the user's container is %s, held %v", task.State, task.Held)
	}
	must(tasks.Resume(t.Context(), &wire.VerbRequest{Id: id}))(t)
	low.goOn(t)
	low.finished(t)
	idle(t, j.c)
}

// YARN's limit on the memory of a container is kept by what its processes use below
// the supervisor.
func tooMuchMemory(t *testing.T, j *jobs) {
	s := ShellJob{Name: "hungry", Queue: "low", Memory: 128, Command: "python3 -c 'import time; x = bytes([1]) * 300000000; time.sleep(3600)'"}
	if err := j.Submit(s); err != nil {
		t.Fatal(err)
	}
	const killedExceededPMem = -104
	if e := must(j.Await(within(t, patience), s.Name, "completed"))(t); e.Exit != killedExceededPMem {
		t.Errorf("a container with too much memory has ended with %d (%s), want %d", e.Exit, e.Diagnostics, killedExceededPMem)
	}
	idle(t, j.c)
}

// Who has another token is told nothing and changes nothing.
func stranger(t *testing.T, c *Cluster) {
	for _, token := range []string{"", "wrong"} {
		client := &http.Client{Timeout: 10 * time.Second, Transport: withToken{token, c.Transport()}}
		manager := wireconnect.NewManagerServiceClient(client, c.managerURL())
		_, err := manager.Preempt(t.Context(), &wire.PreemptRequest{Victims: []*wire.Victim{{Container: "container_1_1_01_000001"}}})
		if e := new(connect.Error); !errors.As(err, &e) || e.Code() != connect.CodeUnauthenticated {
			t.Errorf("with the token %q: %v", token, err)
		}
	}
}

// A NodeManager is lost together with a suspended container, which starts again
// elsewhere.
func TestLostNode(t *testing.T) {
	testkit.Long(t) // TestTwoMachines loses a machine in the same way
	parallel(t, 60)
	c := startTest(t, Options{Mode: Headrace, Policy: "suspend", Nodes: 2})
	j := startJobs(t, c)
	low := j.startHeld(t, ShellJob{Name: "low", Queue: "low", Containers: 4, Memory: 1024}, 60, 10)
	low.standStill(t, 10)
	high := j.start(t, ShellJob{Name: "high", Queue: "high", Containers: 2, Memory: 1024}, 6000)
	lost := nodeOf(t, c, awaitState(t, c, "suspended", 2, low, high)[0])
	restartRM(t, c, lostSoon)
	if err := errors.Join(c.KillNM(lost), c.KillNode(lost)); err != nil {
		t.Fatal(err)
	}
	if err := belong.Kill(containersOf(t, c, lost)...); err != nil {
		t.Fatal(err)
	}
	if err := c.awaitNodes(within(t, patience), 1); err != nil {
		t.Fatal(err)
	}
	high.kill(t)
	low.goOn(t)
	if e := must(j.Await(within(t, patience), "low", "finished"))(t); !e.Good {
		t.Error("the low job has failed")
	}
	if n := must(low.steps.Done())(t); n < 4*60 {
		t.Errorf("%d steps were done, want at least %d", n, 4*60)
	}
	idle(t, c)
}

// nodeOf returns the index of the NodeManager that a container is on.
func nodeOf(t *testing.T, c *Cluster, container string) int {
	t.Helper()
	for i := range c.Nodes() {
		for _, task := range must(c.Tasks(t.Context(), i))(t) {
			if task.Id == container {
				return i
			}
		}
	}
	t.Fatalf("no node has %s", container)
	return 0
}

// containersOf returns the processes of the containers of NodeManager i.
func containersOf(t *testing.T, c *Cluster, i int) []int {
	t.Helper()
	var pids []int
	for _, pid := range must(belong.Processes(c.Dir))(t) {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		dir := c.machines[i].path("")
		if strings.Contains(string(env), "LOCAL_DIRS="+dir) || strings.Contains(string(args), c.machines[i].stateDir()) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// restartNM kills a NodeManager and starts it again; once more if it has stumbled over
// a container that had been queued: it launches such a container before it has taken
// it up, and then leaves it SCHEDULED for ever, with or without Headrace.
func restartNM(t *testing.T, c *Cluster, i int) error {
	t.Helper()
	log := c.logFile(fmt.Sprint("nm", i))
	for range 10 {
		before := logSize(log)
		if err := errors.Join(c.KillNM(i), c.StartNM(within(t, patience), i)); err != nil {
			return err
		}
		if !logHas(log, before, "Invalid event: CONTAINER_EXITED_WITH_FAILURE at NEW") {
			return nil
		}
		t.Logf("NodeManager %d has lost a queued container in its recovery, and is started once more", i)
	}
	return errors.New("a NodeManager has stumbled over a container ten times")
}

// Many jobs of both kinds come and go on two NodeManagers while daemons are killed.
// No step is done twice.
func TestEverythingAtOnce(t *testing.T) {
	testkit.Long(t)
	parallel(t, 300)
	// On a busy machine a container may take longer to begin than it is given.
	c := startTest(t, Options{Mode: Headrace, Policy: "cost", Nodes: 2, ManagerFlags: []string{"--min-run", "0s"},
		Properties: map[string]string{"headrace.preemption.fallback": "wait"}})
	kills := killsOfYARN(t, c)
	kills[1] = func() error { return errors.Join(c.KillNode(0), c.StartNode(within(t, patience), 0)) }
	kills[3] = func() error { return errors.Join(c.KillManager(), c.StartManager(within(t, patience))) }
	for _, j := range everythingAtOnce(t, startJobs(t, c), kills) {
		j.finished(t)
	}
	idle(t, c)
}

// killsOfYARN are those of YARN's own daemons, by the number of the urgent job that has begun.
func killsOfYARN(t *testing.T, c *Cluster) map[int]func() error {
	return map[int]func() error{
		5: func() error { return restartNM(t, c, 1) },
		7: func() error { return errors.Join(c.KillRM(), c.StartRM(within(t, patience))) },
	}
}

// everythingAtOnce starts four jobs that give way and eight that are urgent.
func everythingAtOnce(t *testing.T, j *jobs, kills map[int]func() error) (all []*job) {
	for i := range 4 {
		all = append(all, j.start(t, ShellJob{Name: fmt.Sprint("low", i), Queue: "low", Containers: 3, Memory: 512}, 60))
	}
	all[0].awaitSteps(t, 10)
	for i := range 8 {
		all = append(all, j.start(t, ShellJob{Name: fmt.Sprint("high", i), Queue: "high", Containers: 1 + i%4, Memory: 512}, 10))
		if i%2 == 1 {
			all[len(all)-1].awaitSteps(t, 1)
		}
		if kill := kills[i]; kill != nil {
			must(0, kill())(t)
		}
	}
	return all
}

// The same on YARN as it is, to tell what is Headrace's and what is not: it logs how containers end, and fails only if a job
// comes to no end or something is left.
func TestEverythingAtOnceOnStock(t *testing.T) {
	testkit.Long(t)
	parallel(t, 200)
	c := startTest(t, Options{Mode: Kill, Nodes: 2})
	j := startJobs(t, c)
	bad, ends := 0, map[string]int{}
	all := everythingAtOnce(t, j, killsOfYARN(t, c))
	for _, job := range all {
		if !must(j.Await(within(t, patience), job.name, "finished"))(t).Good {
			bad++
		}
		for _, e := range must(j.Events(job.name))(t) {
			if e.Event == "completed" && e.Exit != 0 {
				why, _, _ := strings.Cut(strings.ReplaceAll(e.Diagnostics, e.Container, "it"), "\n")
				ends[fmt.Sprintf("exit status %d of a container of %s: %s", e.Exit, strings.TrimRight(job.name, "0123456789"), why)]++
			}
		}
	}
	t.Logf("%d of %d jobs have ended badly", bad, len(all))
	for why, n := range ends {
		t.Logf("%d times %s", n, why)
	}
	idle(t, c)
}
