package yarn

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ShellJob runs a line of bash in a number of containers.
type ShellJob struct {
	Name string
	// Queue; empty: default.
	Queue    string
	Priority int
	// Containers; 0: 1. Memory of each in MB; 0: 128.
	Containers int
	Memory     int
	Command    string
}

// MapReduceJob is a class with a main that submits a job.
type MapReduceJob struct {
	Name     string
	Queue    string
	Priority int
	// Class as Java names it; empty: the driver of MapReduce's examples, whose first
	// argument is the name of an example.
	Class string
	Args  []string
	// Properties of the job.
	Properties map[string]string
	// ClassPath is what the client has before Hadoop.
	ClassPath []string
}

const exampleDriver = "org.apache.hadoop.examples.ExampleDriver"

// A Run is an application and the client that has submitted it and waits for it, a
// process of its own.
type Run struct {
	client   *process
	out      string // the file with the client's standard output
	machines machines
}

// Shell runs a job by our own application master, which takes no room in the cluster
// and starts again what YARN has taken away.
func (c *clients) Shell(job ShellJob) (*Run, error) {
	path := []string{c.o.Jars.Cluster}
	return c.start(job.Name, c.javaOfHadoop(clientHeap, "headrace.cluster.ShellMaster", c.confDir(), path, shellArguments(job)...))
}

// DistributedShell runs a job by YARN's own example of an application master, which
// has a container of 256 MB.
func (c *clients) DistributedShell(job ShellJob) (*Run, error) {
	const class = "org.apache.hadoop.yarn.applications.distributedshell.Client"
	conf, err := c.shellConf()
	if err != nil {
		return nil, err
	}
	jars, err := filepath.Glob(filepath.Join(c.o.Jars.Shell, "hadoop-yarn-applications-distributedshell-*.jar"))
	if err != nil || len(jars) != 1 {
		return nil, fmt.Errorf("find DistributedShell in %s: %d jars: run make java", c.o.Jars.Shell, len(jars))
	}
	args := []string{"-jar", jars[0], "-appname", job.Name, "-queue", orDefault(job.Queue, "default"),
		"-priority", strconv.Itoa(job.Priority), "-num_containers", strconv.Itoa(orDefault(job.Containers, 1)),
		"-container_memory", strconv.Itoa(orDefault(job.Memory, 128)), "-container_vcores", "1",
		"-master_memory", "256", "-shell_command", job.Command}
	path := []string{filepath.Join(c.o.Jars.Shell, "*")}
	return c.start(job.Name, c.javaOfHadoop(clientHeap, class, conf, path, args...))
}

// shellConf makes a configuration with which application masters find what only
// DistributedShell needs.
func (c *clients) shellConf() (string, error) {
	dir := filepath.Join(c.Dir, "conf-shell")
	site := c.site()
	site["yarn.application.classpath"] += "," + filepath.Join(c.o.Jars.Shell, "*")
	return dir, c.writeDir(dir, site)
}

// MapReduce runs a job of MapReduce.
func (c *clients) MapReduce(job MapReduceJob) (*Run, error) {
	class, args := job.Class, job.Args
	if class == "" {
		if len(args) == 0 {
			return nil, fmt.Errorf("job %s: no example is named", job.Name)
		}
		class = exampleDriver
	}
	given := map[string]string{"mapreduce.job.name": job.Name, "mapreduce.job.queuename": orDefault(job.Queue, "default"),
		"mapreduce.job.priority": strconv.Itoa(job.Priority)}
	maps.Copy(given, job.Properties)
	var flags []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		flags = append(flags, "-D"+name+"="+given[name])
	}
	if job.Class == "" {
		flags = append([]string{args[0]}, flags...)
		args = args[1:]
	}
	path := slices.Concat(job.ClassPath, c.o.Jars.hadoopClasses().path, []string{filepath.Join(c.o.Jars.Examples, "*")})
	return c.start(job.Name, c.javaWith(clientHeap, class, c.confDir(), path, append(flags, args...)...))
}

const clientHeap = 128

// clients are the processes that have submitted applications, and others that YARN
// knows nothing of.
type clients struct {
	*config
	machines machines
	mu       sync.Mutex
	all      []*process
}

// start starts a command that submits an application.
func (c *clients) start(name string, cmd *exec.Cmd) (*Run, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	base := fmt.Sprintf("client%d-%s", len(c.all), name)
	r := &Run{out: filepath.Join(c.Dir, "log", base+".out"), machines: c.machines}
	out, err := os.Create(r.out)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout = out
	if r.client, err = c.startOnHead("client of "+name, c.logFile(base), cmd); err != nil {
		return nil, err
	}
	c.all = append(c.all, r.client)
	return r, nil
}

var applicationID = regexp.MustCompile(`application_\d+_\d+`)

// ID returns the application's name when the client has submitted it.
func (r *Run) ID(ctx context.Context) (string, error) {
	var id string
	err := await(ctx, "wait for the submission of "+r.client.name, startTime, func(context.Context) (bool, error) {
		ended := r.client.gone()
		for _, path := range []string{r.out, r.client.log} {
			if text, err := os.ReadFile(path); err == nil && id == "" {
				id = applicationID.FindString(string(text))
			}
		}
		if id == "" && ended {
			return false, &fatal{r.client.problem()}
		}
		return id != "", nil
	})
	return id, err
}

// Wait returns when the client has ended, with its exit code.
func (r *Run) Wait(ctx context.Context) (int, error) {
	select {
	case <-r.client.ended:
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the %s: %w%s", r.client.name, context.Cause(ctx), r.client.quote())
	}
	return r.client.cmd.ProcessState.ExitCode(), nil
}

// Succeed waits, and fails unless the client has ended with 0. The error has in it what the application's containers have said.
func (r *Run) Succeed(ctx context.Context) error {
	code, err := r.Wait(ctx)
	if err != nil || code == 0 {
		return err
	}
	app, _ := r.ID(ctx) // there may be none
	return fmt.Errorf("%w%s", r.client.problem(), r.machines.Said(app))
}

// Ended reports whether the client has ended.
func (r *Run) Ended() bool { return r.client.gone() }

// Kill ends the client; with our own application master in it the application fails
// after its time-out, with others it goes on.
func (r *Run) Kill() error { return r.client.kill() }

// Output returns what the client has written to standard output.
func (r *Run) Output() string {
	text, _ := os.ReadFile(r.out)
	return string(text)
}

// Event is what our own application master tells.
type Event struct {
	AtMs int64 `json:"atMs"`
	// Event is submitted, registered, started, refused, completed, updated,
	// asked-to-release or finished; of Masters also ready, and broken; of a
	// Submitter ready, made, finished and broken.
	Event       string `json:"event"`
	Application string `json:"application"`
	Task        int    `json:"task"`
	Container   string `json:"container"`
	Node        string `json:"node"`
	// Exit is the container's exit status as YARN tells it: -102 is preempted.
	Exit        int    `json:"exit"`
	Diagnostics string `json:"diagnostics"`
	Good        bool   `json:"good"`
	// Reason why it is broken.
	Reason string `json:"reason"`
	// Took is how long a job of a Submitter has taken, in seconds, Answer what it has
	// computed, in a word, Uber that it has run in its application master.
	Took   float64 `json:"took"`
	Answer string  `json:"answer"`
	Uber   bool    `json:"uber"`
	// Metrics are what plug-ins of LineCounts have counted so far.
	Metrics map[string]int64 `json:"metrics"`
	// Report is what a FileLoad has measured.
	Report FileReport `json:"report"`
}

// end returns what to say if the job has come to its end with this event; nil: it has not.
func (e Event) end() error {
	if e.Event == "broken" || e.Event == "finished" {
		return fmt.Errorf("it is over: %s %s", e.Event, e.Reason)
	}
	return nil
}

// At returns when it happened.
func (e Event) At() time.Time { return time.UnixMilli(e.AtMs) }

// Preempted is the exit status of a container that YARN took away for somebody else.
const Preempted = -102

// Events returns what our own application master has told so far.
func (r *Run) Events() []Event {
	var events []Event
	for line := range strings.Lines(r.Output()) {
		var e Event
		if strings.HasSuffix(line, "}\n") && json.Unmarshal([]byte(line), &e) == nil {
			events = append(events, e)
		}
	}
	return events
}

// Await returns the n-th event of a kind, from 1, when there is one.
func (r *Run) Await(ctx context.Context, kind string, n int) (Event, error) {
	var found Event
	err := await(ctx, fmt.Sprintf("wait for event %s of the %s", kind, r.client.name), startTime, func(context.Context) (bool, error) {
		ended := r.client.gone()
		seen := 0
		for _, e := range r.Events() {
			if e.Event != kind {
				continue
			}
			if seen++; seen == n {
				found = e
				return true, nil
			}
		}
		if ended {
			return false, &fatal{r.client.problem()}
		}
		return false, nil
	})
	return found, err
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "root"
}
