package yarn

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"headrace/internal/linux"
	"headrace/wire"
)

// streaming is the class of a MapReduceJob whose map and reduce tasks are programs.
const streaming = "org.apache.hadoop.streaming.HadoopStreaming"

// The reduce task of a streaming job is put aside by either mechanism while it copies what maps have made, while it
// merges that, and while its program reduces; a map task while its program runs. When it is checkpointed as it copies, it
// waits for the answer to a fetch. Nothing is started again, and the result is right.
func phasesOfStreaming(t *testing.T, c *Cluster) {
	needCRIU(t)
	s := startStreaming(t, c)

	// One map is done soon, so that there is something to copy; the other waits.
	s.asideAndBack(t, "suspended", "stderr", "mapping begins")
	s.asideAndBack(t, "checkpointed", "stderr", "mapping begins")
	s.asideAndBack(t, "suspended", "syslog.shuffle", copiedOne)
	answer := s.fetchInVain(t)
	copying := s.aside(t, "checkpointed", "syslog.shuffle", copiedOne)
	answer()
	app := must(s.ID(t.Context()))(t)
	err := c.AwaitTasks(within(t, patience), "the maps to end", patience, func(tasks []*wire.Task) bool {
		ended := 0
		for _, task := range tasks {
			if task.Hosting.GetApplication() == app && task.EndedMs != 0 && task.Id != copying.id {
				ended++
			}
		}
		return ended == streamingMaps
	})
	if err != nil {
		t.Fatal(err)
	}
	copying.comeBack(t)
	for _, phase := range []struct{ says, program string }{{"merging begins", "merge"}, {"reducing begins", "reduce"}} {
		for _, state := range []string{"suspended", "checkpointed"} {
			if id := s.asideAndBack(t, state, "stderr", phase.says); id != copying.id {
				t.Errorf("%s: %s in %s, %s has copied", state, phase.says, id, copying.id)
			}
		}
		s.release(t, phase.program)
	}
	if err := s.Succeed(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	out := string(must(os.ReadFile(filepath.Join(s.dir, "out", "part-00000")))(t))
	if want := fmt.Sprint(streamingMaps * streamingLines); strings.TrimSpace(out) != want {
		t.Errorf("%q lines were counted, want %s", out, want)
	}
	if n := tasksHad(t, c, s.Run, time.Time{}); n != streamingMaps+1 {
		t.Errorf("the job has had %d containers, want %d", n, streamingMaps+1)
	}
}

const (
	streamingMaps  = 2
	streamingLines = 100_000
	// copiedOne is what a reduce task logs when it has fetched what a map has made.
	copiedOne = "bytes from map-output for"
)

type streamingJob struct {
	*Run
	c   *Cluster
	dir string
}

// startStreaming starts a job with two map tasks and one reduce task. The programs of one
// map and of the reduce task begin, and then wait to be released; so does the one that combines what is merged in the
// reduce task, where that is what both maps have made and not one alone.
func startStreaming(t *testing.T, c *Cluster) *streamingJob {
	t.Helper()
	s := &streamingJob{c: c, dir: filepath.Join(c.Dir, "streaming")}
	in := filepath.Join(s.dir, "in")
	if err := os.MkdirAll(in, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) string {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for i := range streamingMaps {
		write(filepath.Join(in, fmt.Sprint(i)), strings.Repeat(quickLine, streamingLines))
	}
	program := func(name, first, says, then string) string {
		return write(filepath.Join(s.dir, name), fmt.Sprintf("#!/bin/bash\n%s\necho %s >&2\nwhile [ ! -e %s ]; do sleep 0.05; done\n%s\n",
			first, says, filepath.Join(s.dir, "go-"+name), then))
	}
	once := "mkdir " + filepath.Join(s.dir, "once") + " 2>/dev/null && exec cat"
	inMap := `[ "$mapreduce_task_ismap" = true ] && exec cat`
	s.Run = must(c.MapReduce(MapReduceJob{Name: "streaming", Queue: "low", Class: streaming, Args: []string{
		"-input", in, "-output", filepath.Join(s.dir, "out"), "-mapper", program("map", once, "mapping begins", "cat"),
		"-combiner", program("merge", inMap, "merging begins", "cat"), "-reducer", program("reduce", "", "reducing begins", "wc -l"),
	}, Properties: map[string]string{
		// It has 28 MB for 4.6 of each map, and merges when it has 7.
		"mapreduce.reduce.memory.totalbytes":            fmt.Sprint(40 << 20),
		"mapreduce.reduce.shuffle.input.buffer.percent": "0.7",
		"mapreduce.reduce.shuffle.memory.limit.percent": "0.2",
		"mapreduce.reduce.shuffle.merge.percent":        "0.25",
		"mapreduce.job.reduces":                         "1",
		"mapreduce.job.maps":                            fmt.Sprint(streamingMaps),
		"mapreduce.job.reduce.slowstart.completedmaps":  "0.1",
		"mapreduce.map.speculative":                     "false",
		"mapreduce.reduce.speculative":                  "false",
		clientLooks:                                     seldomLooks,
	}}))(t)
	return s
}

// release has the programs of map or reduce tasks go on.
func (s *streamingJob) release(t *testing.T, which string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "go-"+which), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// aside puts the container aside that writes something to a log, by that mechanism and no other.
func (s *streamingJob) aside(t *testing.T, state, file, text string) *standstill {
	t.Helper()
	still := aside(t, s.c, s.Run, state, file, text)
	if still.state != state {
		t.Errorf("%s: %s is %s, not %s", text, still.id, still.state, state)
	}
	return still
}

// asideAndBack does so, has it go on, and returns its name when it runs.
func (s *streamingJob) asideAndBack(t *testing.T, state, file, text string) string {
	t.Helper()
	still := s.aside(t, state, file, text)
	still.comeBack(t)
	return still.id
}

// comeBack has it go on, and returns when it runs.
func (s *standstill) comeBack(t *testing.T) {
	t.Helper()
	s.goOn(t)
	eventually(t, s.id+" to run", func() (bool, error) { return doing(s.task(t)) == "running", nil })
}

var shufflePort = regexp.MustCompile(`shuffle listening on port (\d+)`)

// fetchInVain has maps go on and returns when a reduce task has asked the NodeManager for what they have made. That one
// stands still until the function that it returns is called.
func (s *streamingJob) fetchInVain(t *testing.T) (answer func()) {
	t.Helper()
	said := shufflePort.FindStringSubmatch(string(must(os.ReadFile(s.c.logFile("nm0")))(t)))
	if said == nil {
		t.Fatal("the NodeManager has not logged its port of the shuffle")
	}
	fetches := func() map[string]linux.Connection {
		all := must(linux.ProcFS("").Connections())(t)
		maps.DeleteFunc(all, func(_ string, c linux.Connection) bool { return fmt.Sprint(c.Far.Port()) != said[1] })
		return all
	}
	nm := s.c.machines[0].nm.cmd.Process
	must(0, nm.Signal(syscall.SIGSTOP))(t)
	answer = func() { nm.Signal(syscall.SIGCONT) }
	t.Cleanup(answer)
	before := fetches()
	s.release(t, "map")
	eventually(t, "a fetch", func() (bool, error) {
		for inode := range fetches() {
			if _, old := before[inode]; !old {
				return true, nil
			}
		}
		return false, nil
	})
	return answer
}
