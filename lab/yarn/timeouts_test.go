package yarn

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// taskTimeout is the time after which a framework takes a task for dead that it does
// not hear of: much less than usual, and more than a task is silent on a busy machine.
const taskTimeout = time.Minute

// frameworkJar returns the plug-in for a framework.
func frameworkJar(t *testing.T, c *Cluster, framework string) string {
	t.Helper()
	jar := c.o.Jars.Module(framework)
	if _, err := os.Stat(jar); err != nil {
		t.Skipf("the plug-in for %s is not there (%v): run make java", framework, err)
	}
	return jar
}

// node does something with the daemon beside the only NodeManager.
func (c *Cluster) node(t *testing.T, do func(context.Context, wireconnect.TaskServiceClient) (*wire.Task, error)) *wire.Task {
	t.Helper()
	client := wire.NewHTTPClient(c.machines[0].socket())
	defer client.CloseIdleConnections()
	return must(do(within(t, patience), wireconnect.NewTaskServiceClient(client, wire.BaseURL)))(t)
}

// A standstill is a container that a user has put aside.
type standstill struct {
	c  *Cluster
	id string
	// suspended or checkpointed.
	state string
	since time.Time
}

// aside puts the container aside that writes something to a log; of several, because its framework had
// given one up before it came to that, the newest.
func aside(t *testing.T, c *Cluster, r *Run, state, file, text string) *standstill {
	t.Helper()
	app := must(r.ID(within(t, patience)))(t)
	s := &standstill{c: c, state: state}
	err := await(t.Context(), fmt.Sprintf("wait for %q in %s of %s", text, file, app), patience, func(context.Context) (bool, error) {
		if r.Ended() {
			return false, &fatal{r.client.problem()}
		}
		logs, err := c.ContainerLogs(app)
		for name, log := range logs {
			container, of := filepath.Split(name)
			if of == file && !strings.HasSuffix(container, "_000001/") && strings.Contains(log, text) {
				s.id = max(s.id, filepath.Clean(container))
			}
		}
		return s.id != "", err
	})
	if err != nil {
		t.Fatal(err)
	}
	if why := s.task(t).NoCheckpoint; why != "" && s.state == "checkpointed" {
		t.Logf("%s is suspended, not checkpointed: %s", s.id, why)
		s.state = "suspended"
	}
	task := c.node(t, func(ctx context.Context, node wireconnect.TaskServiceClient) (*wire.Task, error) {
		if s.state == "checkpointed" {
			return node.Checkpoint(ctx, &wire.VerbRequest{Id: s.id})
		}
		return node.Suspend(ctx, &wire.VerbRequest{Id: s.id})
	})
	if task.State != s.state {
		t.Fatalf("%s is %s, not %s", s.id, task.State, s.state)
	}
	s.since = time.Now()
	return s
}

func (s *standstill) task(t *testing.T) *wire.Task {
	t.Helper()
	return s.c.node(t, func(ctx context.Context, node wireconnect.TaskServiceClient) (*wire.Task, error) {
		return node.Get(ctx, &wire.GetRequest{Id: s.id})
	})
}

// awaitEnd returns when the container is gone.
func (s *standstill) awaitEnd(t *testing.T) {
	t.Helper()
	err := await(t.Context(), "wait for the end of "+s.id, patience, func(context.Context) (bool, error) {
		return s.task(t).EndedMs != 0, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// outlast returns when the container has been aside for so long.
func (s *standstill) outlast(t *testing.T, limit time.Duration) {
	t.Helper()
	err := await(t.Context(), "wait while "+s.id+" is "+s.state, limit+time.Minute, func(context.Context) (bool, error) {
		if task := s.task(t); task.State != s.state {
			return false, &fatal{fmt.Errorf("after %v it is %s (%s)", time.Since(s.since), task.State, task.Reason)}
		}
		return time.Since(s.since) > limit, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func (s *standstill) goOn(t *testing.T) {
	t.Helper()
	s.c.node(t, func(ctx context.Context, node wireconnect.TaskServiceClient) (*wire.Task, error) {
		if s.state == "checkpointed" {
			return node.Restore(ctx, &wire.VerbRequest{Id: s.id})
		}
		return node.Resume(ctx, &wire.VerbRequest{Id: s.id})
	})
}

// tasksHad returns how many containers of an application have begun since then, its master's aside.
func tasksHad(t *testing.T, c *Cluster, r *Run, since time.Time) int {
	t.Helper()
	app := must(r.ID(t.Context()))(t)
	n := 0
	for _, task := range must(c.Tasks(t.Context(), 0))(t) {
		if task.Hosting.GetApplication() == app && task.StartedMs > since.UnixMilli() {
			n++
		}
	}
	return n
}

// A user puts containers aside for longer than time-outs, which takes little of the machine: of MapReduce, and beside that in
// each phase of a streaming job, executors of Spark, and clients of HDFS.
func TestPutAside(t *testing.T) {
	parallel(t, 155)
	c := startTest(t, Options{Mode: Headrace, Policy: "suspend", Memory: 20480})
	beside(t, c, map[string]func(*testing.T, *Cluster){"time-out of MapReduce": timeoutOfMapReduce, "phases of MapReduce": phasesOfStreaming,
		"Spark": timeoutOfSpark, "HDFS": clientsOfHDFS})
}

// beside runs parts of a test at the same time. Were they parallel, they would wait for all tests that have
// not begun yet, and the cluster with them.
func beside(t *testing.T, c *Cluster, parts map[string]func(*testing.T, *Cluster)) {
	t.Helper()
	var all sync.WaitGroup
	for name, part := range parts {
		all.Go(func() { t.Run(name, func(t *testing.T) { part(t, c) }) })
	}
	all.Wait()
	idle(t, c)
}

// Map tasks are put aside for longer than mapreduce.task.timeout. Those whose job has
// the plug-in go on afterwards.
func timeoutOfMapReduce(t *testing.T, c *Cluster) {
	with := map[string]string{
		"yarn.app.mapreduce.am.preemption.policy": "headrace.mapreduce.KeepAlivePolicy",
		"mapreduce.application.classpath":         filepath.Join(c.o.Jars.Lib, "*") + "," + frameworkJar(t, c, "mapreduce"),
		"headrace.node.socket":                    c.machines[0].socket(),
	}
	without := map[string]string{reduces: "0", "mapreduce.task.timeout": fmt.Sprint(taskTimeout.Milliseconds()), "mapreduce.task.timeout.check-interval-ms": "500"}
	maps.Copy(with, without)
	hold := holdFile(t, c)
	kept := []*heldJob{startHeld(t, c, "suspended", 1, hold, with)}
	if testkit.All() { // phasesOfStreaming and timeoutOfSpark checkpoint
		kept = append(kept, startHeld(t, c, "checkpointed", 1, hold, with))
	}
	lost := startHeld(t, c, "lost", 1, hold, without)
	const taken, refused = `headrace_manager_progress_total{result="taken"} `, `headrace_manager_progress_total{result="refused"} `
	told := func() string { return managerMetrics(t, c) }
	// Their masters tell how far they are as long as they run, and the manager believes it.
	must(0, await(within(t, patience), "wait for the manager to be told of progress", patience, func(context.Context) (bool, error) {
		return strings.Contains(told(), taken), nil
	}))(t)
	const file, begins = "stderr", heldSays
	var still []*standstill
	for _, j := range kept {
		still = append(still, aside(t, c, j.Run, j.name, file, begins))
	}
	lostMap := aside(t, c, lost.Run, "suspended", file, begins)
	must(0, os.Remove(hold))(t)

	lostMap.awaitEnd(t)
	for _, m := range still {
		m.outlast(t, taskTimeout+taskTimeout/4)
		m.goOn(t)
	}
	// What its framework gave up before, because it was slow to begin on a busy machine, does not count.
	for i, r := range kept {
		r.succeed(t)
		if n := tasksHad(t, c, r.Run, still[i].since); n != 0 {
			t.Errorf("job %s has had %d containers more since its map was put aside", r.name, n)
		}
	}
	lost.succeed(t)
	if tasksHad(t, c, lost.Run, lostMap.since) == 0 {
		t.Error("the job whose map was lost has had no other container")
	}
	if text := told(); !strings.Contains(text, taken) || strings.Contains(text, refused) {
		t.Errorf("the manager was told of no progress:\n%s", text)
	}
}

// Executors of Spark are put aside for longer than spark.network.timeout. Those whose
// driver has the plug-in go on afterwards.
func timeoutOfSpark(t *testing.T, c *Cluster) {
	with := map[string]string{
		"spark.plugins":                     "headrace.spark.KeepAlivePlugin",
		"spark.jars":                        frameworkJar(t, c, "spark"),
		"spark.rpc.io.connectionTimeout":    "600s",
		"spark.hadoop.headrace.node.socket": c.machines[0].socket(),
	}
	hold := holdFile(t, c)
	runs := map[string]*Run{"checkpointed": startSlowSum(t, c, "checkpointed", hold, with)}
	if testkit.All() { // timeoutOfMapReduce has such ones
		runs["suspended"], runs["lost"] = startSlowSum(t, c, "suspended", hold, with), startSlowSum(t, c, "lost", hold, nil)
	}
	executors := map[string]*standstill{}
	for name, r := range runs {
		state := map[string]string{"lost": "suspended"}[name]
		executors[name] = aside(t, c, r, orDefault(state, name), "stdout", "task begins")
	}
	must(0, os.Remove(hold))(t)

	if lost := executors["lost"]; lost != nil {
		lost.awaitEnd(t)
	}
	for name, e := range executors {
		if name != "lost" {
			e.outlast(t, taskTimeout+taskTimeout/4)
			e.goOn(t)
		}
	}
	for name, r := range runs {
		if err := r.Succeed(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		app := must(r.ID(t.Context()))(t)
		logs := must(c.ContainerLogs(app))(t)
		master := strings.Replace(app, "application", "container", 1) + "_01_000001"
		if sum := fmt.Sprintf("the sum is %d\n", slowNumbers*(slowNumbers+1)/2); !strings.Contains(logs[master+"/stdout"], sum) {
			t.Errorf("the driver has not written %q but %q", sum, logs[master+"/stdout"])
		}
		if n := tasksHad(t, c, r, executors[name].since); n > 0 != (name == "lost") {
			t.Errorf("%s has had %d executors more since its executor was put aside", app, n)
		}
	}
}

// slowNumbers is how many numbers a slow sum adds up, one each hundredth of a second.
const slowNumbers = 100

// startSlowSum starts an application of Spark with one executor and one task, which stands still until
// hold is gone.
func startSlowSum(t *testing.T, c *Cluster, name, hold string, properties map[string]string) *Run {
	t.Helper()
	if err := c.o.Jars.FindSpark(); err != nil {
		t.Skip(err)
	}
	given := c.sparkProperties(name)
	for name, value := range map[string]string{
		"spark.submit.deployMode":          "cluster",
		"spark.driver.memory":              "480m",
		"spark.driver.memoryOverhead":      "160m",
		"spark.executor.instances":         "1",
		"spark.executor.cores":             "1",
		"spark.network.timeout":            fmt.Sprint(taskTimeout.Milliseconds(), "ms"),
		"spark.network.timeoutInterval":    "1s",
		"spark.executor.heartbeatInterval": "4s",
	} {
		given[name] = value
	}
	for name, value := range properties {
		given[name] = value
	}
	var args []string
	for name, value := range given {
		args = append(args, "--conf", name+"="+value)
	}
	args = append(args, "--class", "headrace.sparkyarn.SlowSum", c.o.Jars.SparkApp, fmt.Sprint(slowNumbers), "10", hold)
	shared := c.o.Jars.sparkClasses()
	cmd := c.java(256, "org.apache.spark.deploy.SparkSubmit", append(shared.path, c.confDir()), shared.flags(), args...)
	cmd.Env = append(cmd.Env, "HADOOP_CONF_DIR="+c.confDir())
	return must(c.clients.start(name, cmd))(t)
}
