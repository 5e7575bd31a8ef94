package yarn

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace/internal/testkit"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beside := flag.Lookup("test.parallel").Value
	turns.free = beside.(flag.Getter).Get().(int)
	beside.Set(strconv.Itoa(math.MaxInt32)) // all stand in line at once
	testkit.M{M: m}.Run()
}

// turns says which of the parallel tests run. By themselves they would begin in any order, with the race detector.
var turns struct {
	sync.Mutex
	free int // so many more may run
	line []*turn
}

// turn is a test's place in line.
type turn struct {
	seconds int
	come    chan struct{} // closed when the test may run
}

// parallel has a test run beside others, as many as the flag -parallel says, when it is its turn: whoever takes
// longest goes first, or it would be alone in the end. seconds is about how long it takes beside three others. A
// test is said to have taken its time in line as well; that it begins is in its log.
func parallel(t *testing.T, seconds int) {
	t.Helper()
	mine := &turn{seconds, make(chan struct{})}
	turns.Lock()
	turns.line = append(turns.line, mine)
	turns.Unlock()
	t.Parallel() // returns when all of them are in line
	nextTurns(0)
	<-mine.come
	t.Cleanup(func() { nextTurns(1) })
	t.Log("begins")
}

// nextTurns gives turns back, and gives away those that are free.
func nextTurns(back int) {
	turns.Lock()
	defer turns.Unlock()
	turns.free += back
	slices.SortStableFunc(turns.line, func(a, b *turn) int { return b.seconds - a.seconds })
	n := min(turns.free, len(turns.line))
	for _, next := range turns.line[:n] {
		close(next.come)
	}
	turns.free, turns.line = turns.free-n, turns.line[n:]
}

// seldomLooking adds to properties some with which daemons look less often for something to do: the ResourceManager all 5 ms by
// itself, and a NodeManager each second for what containers use, which is a walk through /proc for each of them.
func seldomLooking(properties map[string]string) map[string]string {
	all := map[string]string{
		"yarn.scheduler.capacity.schedule-asynchronously.scheduling-interval-ms": "25",
		"yarn.nodemanager.container-monitor.interval-ms":                         "3000", // the default
	}
	maps.Copy(all, properties)
	return all
}

// startTest starts a cluster that ends with the test. What is then left of it fails
// the test.
func startTest(t *testing.T, o Options) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a YARN cluster; not with -short")
	}
	jars, err := Find()
	if err != nil {
		t.Skip(err)
	}
	o.Jars, o.Dir, o.Properties = jars, t.TempDir(), seldomLooking(o.Properties)
	// The user of YARN has to come through.
	if err := os.Chmod(filepath.Dir(o.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if keep := os.Getenv(keepEnv); keep != "" {
		o.Dir, o.Keep = keep, true
	}
	if o.headrace() {
		o.Binary = testkit.Headrace(t)
	}
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs())
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// withDaemons is a part of a test in which Headrace's daemons run, with flags for those of nodes.
func withDaemons(t *testing.T, c *Cluster, name, policy string, flags []string, do func(*testing.T)) {
	t.Helper()
	must(0, c.StartDaemons(within(t, patience), policy, func(int) []string { return flags }))(t)
	t.Run(name, do)
	must(0, c.StopDaemons())(t)
}

// patience is how long a test waits for something that may take long on a busy
// machine.
const patience = 8 * time.Minute

// within returns a context for one step of a test.
func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("%s not done in %v", t.Name(), limit))
	t.Cleanup(cancel)
	return ctx
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// tellMasters logs what has become of the masters of an application that has had more than one: what the ResourceManager and the
// NodeManagers say of each, and what it has written last.
func (c *Cluster) tellMasters(t *testing.T, app string) {
	var answer struct {
		AppAttempts struct {
			AppAttempt []struct {
				Name      string `json:"appAttemptId"`
				Container string `json:"containerId"`
			} `json:"appAttempt"`
		} `json:"appAttempts"`
	}
	err := c.get(context.Background(), "apps/"+app+"/appattempts", &answer) // the test's own context is over
	logs, e := c.ContainerLogs(app)
	all := answer.AppAttempts.AppAttempt
	t.Logf("%s has had %d masters: %v", app, len(all), errors.Join(err, e))
	if len(all) < 2 {
		return
	}
	// The ResourceManager's answers have no diagnostics of an attempt; its log has how the container has ended.
	daemons := []string{"rm"}
	for i := range c.machines {
		daemons = append(daemons, fmt.Sprint("nm", i))
	}
	for _, a := range all {
		for _, daemon := range daemons {
			c.tellLog(t, daemon, func(line string) bool { return strings.Contains(line, a.Name) || strings.Contains(line, a.Container) })
		}
		const most = 50_000
		syslog := logs[a.Container+"/syslog"]
		t.Logf("the syslog of %s ends with:\n%s", a.Name, syslog[max(0, len(syslog)-most):])
	}
}

// tellLog logs the lines of a daemon's log that are chosen.
func (c *Cluster) tellLog(t *testing.T, daemon string, chosen func(line string) bool) {
	log, err := os.ReadFile(c.logFile(daemon))
	if err != nil {
		t.Log(err)
	}
	for line := range strings.Lines(string(log)) {
		if chosen(line) {
			t.Logf("%s: %s", daemon, strings.TrimSpace(line))
		}
	}
}

// put makes a file of HDFS, as Hadoop's client would, without the start of a virtual machine.
func put(t *testing.T, c *Cluster, path string, contents []byte) {
	t.Helper()
	write := func(to io.Writer) error { _, err := to.Write(contents); return err }
	must(0, must(c.HDFS.Client())(t).Create(within(t, patience), path, 0o644, write))(t)
}

// awaitSteps returns when so many are done in all tasks together, of a job perhaps.
func awaitSteps(t *testing.T, s Steps, n int, of ...*job) {
	t.Helper()
	err := await(within(t, patience), fmt.Sprintf("wait for %d steps in %s", n, s.Dir), patience, func(context.Context) (bool, error) {
		var over error // before the look: there are no more steps then
		for _, j := range of {
			over = j.over()
		}
		done, err := s.Done()
		return done >= n, errors.Join(err, over)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hold has each task of a job stand still when it has done a step. They end only after goOn, however long
// the client of the job takes that they are to give way to.
func hold(t *testing.T, s Steps, step int) {
	t.Helper()
	if err := s.Hold(step); err != nil {
		t.Fatal(err)
	}
}

func goOn(t *testing.T, s Steps) {
	t.Helper()
	if err := s.GoOn(); err != nil {
		t.Fatal(err)
	}
}

// A stepsRun is a running job whose tasks do steps.
type stepsRun struct {
	*Run
	c     *Cluster
	steps Steps
}

// shell starts a job of our own application master that does steps.
func shell(t *testing.T, c *Cluster, job ShellJob, count int, each time.Duration) *stepsRun {
	t.Helper()
	s := must(c.NewSteps(job.Name, count, each))(t)
	job.Command = s.Command()
	run := must(c.Shell(job))(t)
	t.Cleanup(func() {
		// What a failed test leaves would be in the way of others.
		if id := applicationID.FindString(run.Output()); t.Failed() && id != "" {
			c.KillApp(context.Background(), id)
		}
	})
	return &stepsRun{run, c, s}
}

// awaitSteps returns when so many are done in all tasks together.
func (r *stepsRun) awaitSteps(t *testing.T, n int) {
	t.Helper()
	err := await(within(t, patience), fmt.Sprintf("wait for %d steps", n), patience, func(context.Context) (bool, error) {
		if r.Ended() {
			return false, &fatal{r.client.problem()}
		}
		done, err := r.steps.Done()
		return done >= n, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// succeed waits for the end and checks that every task has done every step.
func (r *stepsRun) succeed(t *testing.T, tasks int) {
	t.Helper()
	if err := r.Succeed(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	r.steps.complete(t, tasks)
}

// complete checks that every task has done every step, in one container at least.
func (s Steps) complete(t *testing.T, tasks int) {
	t.Helper()
	attempts := must(s.Attempts())(t)
	if len(attempts) != tasks {
		t.Errorf("%d tasks have done anything, want %d", len(attempts), tasks)
	}
	for task, all := range attempts {
		best := 0
		for _, a := range all {
			best = max(best, len(a.Done))
		}
		if best != s.Count {
			t.Errorf("task %s has done %d of %d steps", task, best, s.Count)
		}
	}
}

// managerMetrics returns what the manager says of itself. Who needs ten seconds to ask is not answered: it is asked again.
func managerMetrics(t *testing.T, c *Cluster) (text string) {
	t.Helper()
	must(0, await(within(t, patience), "wait for the manager's metrics", patience, func(ctx context.Context) (bool, error) {
		q := must(http.NewRequestWithContext(ctx, http.MethodGet, c.managerURL()+"/metrics", nil))(t)
		answer, err := c.client().Do(q)
		if err != nil {
			return false, nil
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		text = string(b)
		return err == nil && answer.StatusCode == http.StatusOK, nil
	}))(t)
	return text
}

// idle fails unless the cluster's accounting is as before any application.
func idle(t *testing.T, c *Cluster) {
	t.Helper()
	if err := c.AwaitIdle(within(t, patience)); err != nil {
		t.Error(err)
	}
	// An application is counted out a moment before what its queue has of it is given back.
	err := await(within(t, patience), "the cluster to be as it was", patience, func(ctx context.Context) (bool, error) {
		err := asBefore(ctx, c)
		return err == nil, err
	})
	if err != nil {
		t.Error(err)
	}
}

// asBefore returns nil if nothing is allocated, reserved or asked for, by the cluster's accounting.
func asBefore(ctx context.Context, c *Cluster) error {
	m, err := c.Metrics(ctx)
	if err != nil {
		return err
	}
	if m.AllocatedMB != 0 || m.ReservedMB != 0 || m.PendingMB != 0 || m.AllocatedVCores != 0 || m.AvailableMB != m.TotalMB {
		return fmt.Errorf("the cluster has %+v", m)
	}
	queues, err := c.QueueUse(ctx)
	if err != nil {
		return err
	}
	for name, q := range queues {
		if q.UsedMB != 0 || q.UsedVCores != 0 || q.PendingMB != 0 || q.ReservedMB != 0 || q.Containers != 0 || q.AMUsedMB != 0 {
			return fmt.Errorf("queue %s has %+v", name, q)
		}
		for user, mb := range q.Users {
			if mb != 0 {
				return fmt.Errorf("queue %s: user %s still uses %d MB", name, user, mb)
			}
		}
	}
	return nil
}
