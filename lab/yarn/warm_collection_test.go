package yarn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"headrace/internal/testkit"
	"headrace/wire"
)

// TestCollection: the input of jobs is in memory before they start, on the disks of machines, and let go
// when they have ended, and their tasks run where it is. Before that, the HDFS and the machines that this takes are tried without
// Headrace's daemons. Nothing is left of all that in the end.
func TestCollection(t *testing.T) {
	parallel(t, 290)
	needMachines(t)
	c := startTest(t, Options{Mode: Headrace, NoDaemons: true, Machines: true, Nodes: 3, Disk: quickDisk(), LabProgram: testkit.Lab(t), MachineMemory: 2 << 30,
		NodeFlags: []string{"--warm-budget", "64MB"}, HDFS: &HDFSOptions{BlockSize: dataBlock, ShortCircuit: true, Racks: 2}})
	if !t.Run("HDFS", func(t *testing.T) { onHDFS(t, c) }) {
		return // a daemon may be missing
	}
	must(0, c.StartDaemons(within(t, patience), "wait", nil))(t)
	d := &collection{c: c, jar: frameworkJar(t, c, "mapreduce"), size: int64(2 * len(dataText()))}
	d.write(t)
	t.Run("MapReduce", d.mapReduce)
	t.Run("Hive", d.hive)
	t.Run("hosts", d.hosts)
	t.Run("locality", d.locality)
	t.Run("combined", d.combined)
	t.Run("together", d.together)
	t.Run("without lead", d.withoutLead)
	must(0, c.Stop())(t)
	nothingOf(t, c)
}

// mapReduce has MapReduce's own jobs warm their input, whatever becomes of the client.
func (d *collection) mapReduce(t *testing.T) {
	c := d.c
	// It has declared a lead, so it is submitted when all is in memory. It begins when that has been seen.
	begins := d.withoutStart(t)
	words := d.start(t, "words", map[string]string{"headrace.warm.lead": "8m", "headrace.warm.patience": "1m"})
	id := words.submitted(t)
	all := d.inputs(t)
	if len(all) != 1 || all[0].Job != id || all[0].User != userName() || all[0].Files != 2 || all[0].Bytes != d.size || all[0].Pinned+all[0].Resident != d.size || all[0].Left+all[0].NotFit != 0 {
		t.Fatalf("before %s starts: %v", id, all)
	}
	// What somebody has just read stays as it is.
	if n := d.pinned(t); n < all[0].Pinned || n == 0 {
		t.Errorf("%d bytes are locked on all machines, want %d", n, all[0].Pinned)
	}
	begins()
	d.succeed(t, words)
	d.awaitNothing(t)

	// Nobody waits for the end of this one, so that YARN tells it: when it names others.
	lost := d.start(t, "lost", nil)
	id = lost.submitted(t)
	d.await(t, "the input of "+id+" to be asked for", func(all []*wire.InputsStatus) bool { return len(all) == 1 && all[0].Job == id })
	must(0, lost.Kill())(t)
	must(0, await(within(t, patience), "wait for the end of "+id, patience, func(ctx context.Context) (bool, error) {
		app, err := c.App(ctx, id)
		return app.Ended(), err
	}))(t)

	// One that does without, and one on a machine without Headrace.
	stock := d.start(t, "stock", map[string]string{"headrace.warm": "false",
		"yarn.app.mapreduce.am.preemption.policy": "headrace.mapreduce.MemoryLocalityPolicy",
		"mapreduce.application.classpath":         filepath.Join(c.o.Jars.Lib, "*") + "," + d.jar})
	warnings := map[*submission]int{stock: 0}
	if testkit.All() { // WarmProviderTest in Java goes on without a node too
		warnings[d.start(t, "absent", map[string]string{"headrace.node.socket": filepath.Join(c.Dir, "nobody")})] = 1
	}
	d.awaitNothing(t)
	for r, want := range warnings {
		d.succeed(t, r)
		log := string(must(os.ReadFile(r.client.log))(t))
		if n := strings.Count(log, "is not read into memory before it starts"); n != want || strings.Contains(log, "is warmed") {
			t.Errorf("the client of %s has warned %d times, want %d:\n%s", r.name, n, want, log)
		}
	}
	// Its tasks run in its master: there is nothing to put into order, and nothing to say of that.
	for name, log := range must(c.ContainerLogs(must(stock.ID(t.Context()))(t)))(t) {
		if strings.HasSuffix(name, "/syslog") && (!strings.Contains(log, "uberizing job") || regexp.MustCompile("WARN.* headrace.mapreduce").MatchString(log)) {
			t.Errorf("the master of stock:\n%s", log)
		}
	}
	d.awaitNothing(t)
	idle(t, c)
}

// collection is what jobs have in common: their input, files of two machines.
type collection struct {
	c    *Cluster
	jar  string
	size int64
}

func (d *collection) write(t *testing.T) {
	t.Helper()
	put(t, d.c, "/a", dataText())
	put(t, d.c, "/b", dataText())
	for i := range d.c.Nodes() {
		must(0, d.c.DropDisk(i))(t)
	}
}

// submission is a job that counts words, in its application master so that it is quick.
type submission struct {
	*Run
	name string
}

func (d *collection) start(t *testing.T, name string, properties map[string]string) *submission {
	t.Helper()
	given := map[string]string{"mapreduce.job.ubertask.enable": "true", "mapreduce.job.ubertask.maxbytes": "1000000000",
		"headrace.node.socket": d.c.machines[0].socket(), "dfs.client.read.shortcircuit": "false"}
	maps.Copy(given, properties)
	s := &submission{must(d.c.MapReduce(MapReduceJob{Name: name, Queue: "low", ClassPath: []string{d.jar}, Properties: given,
		Args: []string{"wordcount", "/[ab]", "/" + name}}))(t), name}
	t.Cleanup(func() {
		if id, err := s.ID(t.Context()); t.Failed() && err == nil {
			d.c.tellMasters(t, id)
		}
	})
	return s
}

// withoutStart has all NodeManagers stand still until the function that it returns is called, so that no container starts.
func (d *collection) withoutStart(t *testing.T) (begins func()) {
	t.Helper()
	signal := func(s syscall.Signal) (err error) {
		for _, m := range d.c.machines {
			err = errors.Join(err, m.nm.cmd.Process.Signal(s))
		}
		return err
	}
	must(0, signal(syscall.SIGSTOP))(t)
	begins = func() { signal(syscall.SIGCONT) }
	t.Cleanup(begins)
	return begins
}

// submitted returns the application's name when YARN has it.
func (s *submission) submitted(t *testing.T) string {
	t.Helper()
	const says = "Submitted application "
	err := await(within(t, patience), "wait for the submission of "+s.name, patience, func(context.Context) (bool, error) {
		if s.Ended() {
			return false, &fatal{s.client.problem()}
		}
		return logHas(s.client.log, 0, says), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(must(os.ReadFile(s.client.log))(t)), says)
	return applicationID.FindString(rest)
}

func (d *collection) succeed(t *testing.T, s *submission) {
	t.Helper()
	if err := s.Succeed(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	result := testkit.Content(must(d.c.HDFS.Client())(t).Open(t.Context(), "/"+s.name+"/part-r-00000"))(t)
	if lines := 2 * strings.Count(string(dataText()), "\n"); !strings.Contains(result, fmt.Sprintf("\nline\t%d\n", lines)) {
		t.Errorf("%s has not counted %d lines", s.name, lines)
	}
}

// inputs returns what is kept for whom, as the manager knows it.
func (d *collection) inputs(t *testing.T) []*wire.InputsStatus {
	t.Helper()
	return must(d.c.Inputs().Inputs(t.Context(), &wire.InputsRequest{User: "root"}))(t).Inputs
}

// pinned returns how many bytes are locked on all machines.
func (d *collection) pinned(t *testing.T) (n int64) {
	t.Helper()
	for i := range d.c.machines {
		n += must(d.c.Pinned(t.Context(), i))(t)
	}
	return n
}

func (d *collection) await(t *testing.T, what string, is func([]*wire.InputsStatus) bool) {
	t.Helper()
	var last []*wire.InputsStatus
	testkit.Await(t, what, func() bool { last = d.inputs(t); return is(last) }, &last)
}

// awaitNothing waits until nothing is kept for anybody.
func (d *collection) awaitNothing(t *testing.T) {
	t.Helper()
	d.await(t, "everything to be let go", func(all []*wire.InputsStatus) bool { return len(all) == 0 && d.pinned(t) == 0 })
}
