package yarn

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace/wire"
)

// streaming is the class of a MapReduceJob whose map and reduce tasks are programs.
const streaming = "org.apache.hadoop.streaming.HadoopStreaming"

// The reduce task of a streaming job is put aside while it copies what maps have made,
// when it begins to merge that, and while its program reduces; the map task while its
// program runs. Nothing is started again, and the result is right.
func phasesOfStreaming(t *testing.T, c *Cluster) {
	needCRIU(t)
	s := startStreaming(t, c)

	// One map is done soon, so that there is something to copy; the other waits.
	mapping := aside(t, c, s.Run, "checkpointed", "stderr", "mapping begins")
	copying := aside(t, c, s.Run, "suspended", "syslog.shuffle", "EventFetcher for fetching Map Completion Events")
	mapping.goOn(t)
	s.release(t, "map")
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
	copying.goOn(t)
	aside(t, c, s.Run, "suspended", "syslog.shuffle", "finalMerge called").goOn(t)
	reducing := aside(t, c, s.Run, "checkpointed", "stderr", "reducing begins")
	if reducing.id != copying.id {
		t.Errorf("%s reduces, %s has copied", reducing.id, copying.id)
	}
	s.release(t, "reduce")
	reducing.goOn(t)
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
)

type streamingJob struct {
	*Run
	dir string
}

// startStreaming starts a job with two map tasks and one reduce task. The programs of one
// map and of the reduce task begin, and then wait to be released.
func startStreaming(t *testing.T, c *Cluster) *streamingJob {
	t.Helper()
	s := &streamingJob{dir: filepath.Join(c.Dir, "streaming")}
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
	s.Run = must(c.MapReduce(MapReduceJob{Name: "streaming", Queue: "low", Class: streaming, Args: []string{
		"-input", in, "-output", filepath.Join(s.dir, "out"), "-mapper", program("map", once, "mapping begins", "cat"), "-reducer", program("reduce", "", "reducing begins", "wc -l"),
	}, Properties: map[string]string{
		"mapreduce.job.reduces":                        "1",
		"mapreduce.job.maps":                           fmt.Sprint(streamingMaps),
		"mapreduce.job.reduce.slowstart.completedmaps": "0.1",
		"mapreduce.map.speculative":                    "false",
		"mapreduce.reduce.speculative":                 "false",
		clientLooks:                                    seldomLooks,
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
