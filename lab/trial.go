package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace"
	"headrace/wire"
)

// The priorities of the two tasks.
const (
	lowPriority    = headrace.Low
	urgentPriority = headrace.High
)

// job is a task of an experiment.
type job struct {
	name   string
	args   []string // of bench-task
	memory int64    // what it says that it needs
	answer string   // the last line of its output; empty: not known yet
	alone  float64  // how long it takes without a daemon
}

// trial is one low-priority task and an urgent one that arrives when share of the
// former is done.
type trial struct {
	low, urgent job
	share       float64
	// cold are directories whose files are dropped from the page cache once the
	// low-priority task is checkpointed.
	cold []string
	// began is told the ids of the tasks as they are submitted; nil: nobody.
	began func(low, urgent string)
}

// trialTime is a bound for what may not come to an end.
const trialTime = 10 * time.Minute

// outcome is a run and the two tasks as they ended, with what they wrote.
type outcome struct {
	Run
	low, urgent       *wire.Task
	lowOut, urgentOut string
}

// errWrong marks a run without numbers after which the others can go on.
var errWrong = errors.New("failed run")

// run carries the trial out with the daemon and checks both answers. The scratch
// is for the file by which the low-priority task tells that share is done. Both
// tasks are gone when it returns.
func (t trial) run(ctx context.Context, d *daemon, s *scratch) (o outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	mark := filepath.Join(s.dir, "mark")
	if err := os.RemoveAll(mark); err != nil {
		return o, err
	}
	swapBefore, err := readPaged()
	if err != nil {
		return o, err
	}
	cpuBefore := d.cpu()
	var low, urgent string
	defer func() { err = errors.Join(err, d.dispose(low), d.dispose(urgent)) }()

	start := time.Now()
	args := append([]string{t.low.args[0], "--mark", fmt.Sprintf("%g:%s", t.share, mark)}, t.low.args[1:]...)
	if low, err = d.submit(ctx, t.low.called("low"), args, t.low.memory, lowPriority); err != nil {
		return o, err
	}
	t.tell(low, "")
	if err := d.awaitFile(ctx, low, mark); err != nil {
		return o, fmt.Errorf("wait until %.0f %% is done: %w", t.share*100, err)
	}
	arrived := time.Now()
	if urgent, err = d.submit(ctx, t.urgent.called("urgent"), t.urgent.args, t.urgent.memory, urgentPriority); err != nil {
		return o, err
	}
	t.tell(low, urgent)
	defer d.coolDown(ctx, low, t.cold)()
	u, err := d.watch.end(ctx, urgent)
	if err != nil {
		return o, fmt.Errorf("urgent task: %w", err)
	}
	l, err := d.watch.end(ctx, low)
	if err != nil {
		return o, fmt.Errorf("low-priority task: %w", err)
	}
	swapAfter, err := readPaged()
	if err != nil {
		return o, err
	}
	o = outcome{Run: accountOf(l.task, u.task), low: l.task, urgent: u.task}
	var lowErr, urgentErr error
	o.lowOut, lowErr = d.check(ctx, l.task, t.low.answer)
	o.urgentOut, urgentErr = d.check(ctx, u.task, t.urgent.answer)
	if err := errors.Join(lowErr, urgentErr); err != nil {
		return outcome{}, err
	}

	o.Sojourn = u.ended.Sub(arrived).Seconds()
	o.LowResponse = l.ended.Sub(start).Seconds()
	o.Makespan = max(o.LowResponse, u.ended.Sub(start).Seconds())
	o.Arrived = arrived.Sub(start).Seconds()
	o.DaemonCPU = d.cpu() - cpuBefore
	swap := swapAfter.since(swapBefore)
	o.PagedOut, o.PagedIn = swap.out, swap.in
	return o, nil
}

// called is the name of the task.
func (j job) called(otherwise string) string {
	if j.name != "" {
		return j.name
	}
	return otherwise
}

func (t trial) tell(low, urgent string) {
	if t.began != nil {
		t.began(low, urgent)
	}
}

// submit runs a workload.
func (d *daemon) submit(ctx context.Context, name string, args []string, memory int64, p headrace.Priority) (string, error) {
	q := d.workload(name, args)
	q.Priority, q.Memory = uint32(p), memory
	resp, err := d.Run(ctx, q)
	if err != nil {
		return "", fmt.Errorf("submit the task %s: %w", name, err)
	}
	return resp.Id, nil
}

// workload asks for a task of the lab.
func (d *daemon) workload(name string, args []string) *wire.RunRequest {
	return &wire.RunRequest{
		Argv:  append([]string{d.config.programs.Lab, "bench-task"}, args...),
		Name:  name,
		Cpus:  1,
		Env:   taskEnv(),
		Cwd:   "/",
		Umask: proto.Uint32(0o022),
	}
}

// taskEnv is the environment of every task. The collector of the Go runtime must
// not change its footprint between runs.
func taskEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "GOGC=100", "GOMAXPROCS=1"}
}

// awaitFile waits until the running task has made a file.
func (d *daemon) awaitFile(ctx context.Context, id, path string) error {
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		t, _, err := d.watch.get(id)
		if err != nil {
			return err
		}
		if t.task != nil && final(t.task) {
			return fmt.Errorf("%w: task %s ended: %s%s", errWrong, id, ending(t.task), d.complaint(t.task))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// coolDown drops the directories from the page cache as soon as the task is
// checkpointed, so that a restore reads from storage. The returned function ends
// the waiting.
func (d *daemon) coolDown(ctx context.Context, id string, dirs []string) (stop func()) {
	if len(dirs) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := d.watch.until(ctx, id, inState(headrace.Checkpointed)); err != nil {
			return
		}
		for _, dir := range dirs {
			// What could not be dropped is read faster: seen in the numbers, and
			// no reason to lose the run.
			_ = dropCachedTree(dir)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// check compares a task's answer with the one that it must give, if that is
// known, and returns all that it has written.
func (d *daemon) check(ctx context.Context, t *wire.Task, want string) (string, error) {
	if t.State != headrace.Done.String() {
		return "", fmt.Errorf("%w: the task %s ended: %s%s", errWrong, t.Name, ending(t), d.complaint(t))
	}
	out, err := d.output(ctx, t.Id)
	if err != nil {
		return "", err
	}
	if got := lastOf(out); want != "" && got != want {
		return "", fmt.Errorf("%w: the task %s gave a WRONG ANSWER: %q, want %q", errWrong, t.Name, got, want)
	}
	return out, nil
}

func lastOf(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// dispose ends a task if need be and forgets it. It works after ctx has ended,
// because the next run needs the place.
func (d *daemon) dispose(id string) error {
	if id == "" || d.broken() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	t, err := d.Get(ctx, &wire.GetRequest{Id: id})
	if err != nil {
		return fmt.Errorf("remove task %s: %w", id, err)
	}
	if !final(t) {
		if _, err := d.Kill(ctx, &wire.VerbRequest{Id: id, Grace: 0.01}); err != nil {
			return fmt.Errorf("remove task %s: %w", id, err)
		}
	}
	if _, err := d.Forget(ctx, &wire.VerbRequest{Id: id}); err != nil {
		return fmt.Errorf("remove task %s: %w", id, err)
	}
	return nil
}

// accountOf is what two ended tasks have used, and their history.
func accountOf(low, urgent *wire.Task) Run {
	r := Run{Mechanism: mechanismOf(low).String()}
	for _, t := range []*wire.Task{low, urgent} {
		r.LostCPU += t.LostCpu
		if u := t.Usage; u != nil {
			r.TaskCPU += u.UserCpu + u.SystemCpu
			r.OverheadCPU += u.OverheadCpu
		}
		dumped, restored := checkpointBytes(t.History)
		r.Dumped += dumped
		r.Restored += restored
	}
	r.Lanes = append(r.Lanes, laneOf(urgent, low.SubmittedMs), laneOf(low, low.SubmittedMs))
	r.Lanes[0].Strong = true
	return r
}

// parseFloats reads the numbers of a line.
func parseFloats(line string) ([]float64, error) {
	var out []float64
	for f := range strings.FieldsSeq(line) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
