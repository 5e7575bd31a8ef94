package yarn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headrace/internal/testkit"
	"headrace/wire"
)

const stockPolicy, ourPolicy = "org.apache.hadoop.mapreduce.v2.app.rm.preemption.NoopAMPreemptionPolicy", "headrace.mapreduce.MemoryLocalityPolicy"

// together: two identical jobs get their first containers at the same moment; all machines have all blocks. Two of the
// stock kind read each block at about the same time, mostly from disks of two machines. With our policy each begins in a
// place of its own, and finds in memory what the other one has read.
func (d *collection) together(t *testing.T) {
	testkit.Long(t)
	s := d.newShared(t, "/both")
	stock := s.run(t, sharedJobs{name: "stock", policy: stockPolicy, many: 2})
	ordered := s.run(t, sharedJobs{name: "ordered", policy: ourPolicy, many: 2})
	if 10*ordered > 9*stock {
		t.Errorf("disks read %d bytes for two jobs that begin at the same time, %d for stock ones, of %d", ordered, stock, s.size)
	}
}

// withoutLead: the input of a job is read into memory while it waits for room. Nobody knows by then where its maps will run: of the
// stock kind they read most of it again, from disks of other machines. With our policy they run where it is.
func (d *collection) withoutLead(t *testing.T) {
	testkit.Long(t)
	s := d.newShared(t, "/ahead")
	stock := s.run(t, sharedJobs{name: "anywhere", policy: stockPolicy, many: 1, ahead: true})
	ordered := s.run(t, sharedJobs{name: "where-it-is", policy: ourPolicy, many: 1, ahead: true})
	if ordered >= stock || ordered > s.size*4/3 {
		t.Errorf("disks read %d bytes for a job whose input is read ahead, %d for a stock one, of %d", ordered, stock, s.size)
	}
}

// combined: the splits of a job that combine blocks name a machine, and have them read there while the job waits for room.
func (d *collection) combined(t *testing.T) {
	testkit.Long(t)
	s := d.newShared(t, "/combined")
	if read := s.run(t, sharedJobs{name: "pairs", policy: stockPolicy, many: 1, ahead: true, combined: true}); read > s.size*4/3 {
		t.Errorf("disks read %d bytes for a job whose splits name machines, of %d", read, s.size)
	}
}

// sharedJobs are so many that read the same. Their input is read ahead if they say so. They count words, or copy lines if their splits combine
// two blocks each.
type sharedJobs struct {
	name, policy    string
	many            int
	ahead, combined bool
}

// shared is what jobs read, files of a block each.
type shared struct {
	*collection
	dir  string
	size int64
}

func (d *collection) newShared(t *testing.T, dir string) *shared {
	t.Helper()
	const blocks = 12
	must(0, must(d.c.HDFS.Client())(t).MkdirAll(t.Context(), dir, 0o755))(t)
	for i := range blocks {
		put(t, d.c, fmt.Sprintf("%s/%02d", dir, i), bytes.Repeat([]byte("fifteen letters\n"), dataBlock/16))
		must(d.c.HDFS.Replicas(t.Context(), fmt.Sprintf("%s/%02d", dir, i), 3))(t)
	}
	return &shared{d, dir, blocks * dataBlock}
}

// run runs jobs, and returns how much disks have read since they were submitted. They have no room but for their masters until all of these
// are there, and what is read ahead is in memory.
func (s *shared) run(t *testing.T, q sharedJobs) int64 {
	t.Helper()
	c := s.c
	job := MapReduceJob{Queue: "high", Args: []string{"wordcount", s.dir},
		Properties: map[string]string{"yarn.app.mapreduce.am.preemption.policy": q.policy, "headrace.node.socket": c.machines[0].socket(),
			"mapreduce.application.classpath": filepath.Join(c.o.Jars.Lib, "*") + "," + s.jar, "mapreduce.map.speculative": "false",
			// Two on each machine at a time, half of them of each of two jobs.
			"mapreduce.map.memory.mb": "768", "mapreduce.job.running.map.limit": "3"}}
	if q.combined {
		job.Class, job.Args = streaming, []string{"-inputformat", "org.apache.hadoop.mapred.lib.CombineTextInputFormat", "-mapper", "cat", "-input", s.dir, "-output"}
		job.Properties["mapreduce.input.fileinputformat.split.maxsize"], job.Properties[reduces] = fmt.Sprint(2*dataBlock), "0"
		job.Properties["stream.map.input.ignoreKey"] = "true"
	}
	if q.ahead {
		job.ClassPath = []string{s.jar}
	}
	for m := range c.machines {
		must(0, c.DropDisk(m))(t)
		c.Disk(m).Reset()
	}
	hold := filepath.Join(c.Dir, "hold-"+q.name)
	must(0, os.WriteFile(hold, nil, 0o644))(t)
	room := must(c.Shell(ShellJob{Name: "room-" + q.name, Queue: "high", Containers: len(c.machines), Memory: 1408, Command: "while [ -e " + hold + " ]; do sleep 0.1; done"}))(t)
	must(room.Await(within(t, patience), "started", len(c.machines)))(t)
	var runs []*Run
	for i := range q.many {
		one := job
		one.Name = fmt.Sprint(q.name, i)
		one.Args = append(slices.Clone(job.Args), "/"+one.Name)
		runs = append(runs, must(c.MapReduce(one))(t))
	}
	for _, run := range runs {
		id := must(run.ID(within(t, patience)))(t)
		must(0, await(within(t, patience), "wait for the master of "+id, patience, func(ctx context.Context) (bool, error) {
			app, err := c.App(ctx, id)
			if app.Ended() {
				return false, &fatal{errors.New(app.Diagnostics)}
			}
			return app.State == "RUNNING", err
		}))(t)
	}
	if q.ahead {
		s.await(t, "the input to be in memory", func(all []*wire.InputsStatus) bool {
			return len(all) == q.many && all[0].Pinned+all[0].Resident == s.size
		})
	}
	must(0, os.Remove(hold))(t)
	for i, run := range runs {
		must(0, run.Succeed(within(t, patience)))(t)
		name := fmt.Sprint(q.name, i)
		s.answers(t, name, q.combined)
		if log := string(must(os.ReadFile(run.client.log))(t)); strings.Contains(log, "MEMORY_DOUBTS") {
			t.Errorf("%s is not ordered by what is in memory:\n%s", name, log)
		}
		t.Logf("%s: %v", name, s.mapStarts(t, must(run.ID(t.Context()))(t)))
	}
	must(0, room.Succeed(within(t, patience)))(t)
	read := c.DiskStats().Read
	t.Logf("%s: disks have read %d bytes for %d jobs on %d", q.name, read, q.many, s.size)
	s.awaitNothing(t)
	return read
}

// answers compares what a job has written with what is right.
func (s *shared) answers(t *testing.T, job string, copied bool) {
	t.Helper()
	client := must(s.c.HDFS.Client())(t)
	if !copied {
		result := testkit.Content(client.Open(t.Context(), "/"+job+"/part-r-00000"))(t)
		if want := fmt.Sprintf("fifteen\t%d\nletters\t%[1]d\n", s.size/16); result != want {
			t.Errorf("%s: %q, want %q", job, result, want)
		}
		return
	}
	lines := 0
	for i := range s.size / (2 * dataBlock) {
		lines += strings.Count(testkit.Content(client.Open(t.Context(), fmt.Sprintf("/%s/part-%05d", job, i)))(t), "fifteen letters\t\n")
	}
	if want := int(s.size / 16); lines != want {
		t.Errorf("%s has copied %d lines, want %d", job, lines, want)
	}
}
