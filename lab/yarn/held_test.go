package yarn

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// holdFile makes the file that keeps tasks in the middle of their work as long as it is there: until all
// that are to be put aside are, however busy the machine is.
func holdFile(t *testing.T, c *Cluster) string {
	t.Helper()
	path := filepath.Join(c.Dir, "hold-"+filepath.Base(t.Name()))
	must(0, os.WriteFile(path, nil, 0o644))(t)
	return path
}

// heldJob is a job that counts lines, with one reduce task unless it is told otherwise; without, it copies them.
type heldJob struct {
	*Run
	name, out string
	lines     int
	copies    bool
}

// clientLooks is the property with how often, in ms, the client of a job asks its master how far it is: by our configuration five times
// a second. seldomLooks is for jobs that stand still.
const clientLooks, seldomLooks = "mapreduce.client.progressmonitor.pollinterval", "1000"

// reduces is the property with the number of reduce tasks, each of which is a virtual machine.
const reduces = "mapreduce.job.reduces"

// heldSays is what a map writes to its standard error when it stands still.
const heldSays = "in the middle"

const quickLine = "the quick brown fox jumps over the lazy dog\n"

// startHeld starts a job with so many maps, which say so when they have half of their input, and then tell
// their master that they live until hold is gone.
func startHeld(t *testing.T, c *Cluster, name string, files int, hold string, properties map[string]string) *heldJob {
	t.Helper()
	const lines = 200_000
	dir := filepath.Join(c.Dir, name)
	j := &heldJob{name: name, out: filepath.Join(dir, "out"), lines: files * lines}
	in, program := filepath.Join(dir, "in"), filepath.Join(dir, "map")
	must(0, os.MkdirAll(in, 0o755))(t)
	for i := range files {
		must(0, os.WriteFile(filepath.Join(in, fmt.Sprint(i)), []byte(strings.Repeat(quickLine, lines)), 0o644))(t)
	}
	must(0, os.WriteFile(program, fmt.Appendf(nil, "#!/bin/bash\nhead -c %d\necho %s >&2\n"+
		"while [ -e %s ]; do echo reporter:status:held >&2; sleep 0.5; done\ncat\n", lines/2*len(quickLine), heldSays, hold), 0o755))(t)
	given := map[string]string{
		"mapreduce.input.fileinputformat.split.minsize": "1000000000",
		"mapreduce.job.maps":                            "1",
		reduces:                                         "1",
		clientLooks:                                     seldomLooks,
		"mapreduce.map.speculative":                     "false",
	}
	maps.Copy(given, properties)
	j.copies = given[reduces] == "0"
	j.Run = must(c.MapReduce(MapReduceJob{Name: name, Queue: "low", Class: streaming, Properties: given,
		Args: []string{"-input", in, "-output", j.out, "-mapper", program, "-reducer", "wc -l"}}))(t)
	return j
}

// succeed waits for the job and checks what it has counted.
func (j *heldJob) succeed(t *testing.T) {
	t.Helper()
	must(0, j.Succeed(within(t, patience)))(t)
	if j.copies {
		lines := 0
		for _, part := range must(filepath.Glob(filepath.Join(j.out, "part-*")))(t) {
			lines += strings.Count(string(must(os.ReadFile(part))(t)), strings.TrimSpace(quickLine)+"\t\n")
		}
		if lines != j.lines {
			t.Errorf("job %s has copied %d lines, want %d", j.name, lines, j.lines)
		}
		return
	}
	out := string(must(os.ReadFile(filepath.Join(j.out, "part-00000")))(t))
	if strings.TrimSpace(out) != fmt.Sprint(j.lines) {
		t.Errorf("job %s has counted %q lines, want %d", j.name, out, j.lines)
	}
}
