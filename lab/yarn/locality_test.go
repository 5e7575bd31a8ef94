package yarn

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"headrace/internal/testkit"
	"headrace/wire"
)

// locality: a file's first three blocks are in memory nowhere, the others each on one of the three
// machines that all have them. A job of the stock kind begins with the first blocks; one with our
// policy, on each machine with what is in memory there, and disks read the rest.
func (d *collection) locality(t *testing.T) {
	testkit.Long(t)
	const cold, warm = 3, 3
	lines := (cold + warm) * dataBlock / 16
	put(t, d.c, "/many", bytes.Repeat([]byte("fifteen letters\n"), lines))
	replicas := must(d.c.HDFS.Replicas(t.Context(), "/many", 3))(t)
	warmOn := func(block int) int {
		return max(-1, block-cold)
	}
	for i, policy := range []string{stockPolicy, ourPolicy} {
		for m := range d.c.machines {
			must(0, d.c.DropDisk(m))(t)
		}
		for _, r := range replicas {
			if r.Machine == warmOn(int(r.Block.Offset/dataBlock)) {
				for _, file := range []string{r.Data, r.Checksum} {
					must(0, d.c.On(r.Machine, func() error { _, err := os.ReadFile(file); return err }))(t)
				}
			}
		}
		for m := range d.c.machines {
			d.c.Disk(m).Reset()
		}
		run := must(d.c.MapReduce(MapReduceJob{Name: fmt.Sprint("order", i), Queue: "high", Args: []string{"wordcount", "/many", fmt.Sprint("/order", i)},
			Properties: map[string]string{"yarn.app.mapreduce.am.preemption.policy": policy, "headrace.node.socket": wire.SocketPath(d.c.machines[0].at(stateName)),
				"mapreduce.application.classpath": filepath.Join(d.c.o.Jars.Lib, "*") + "," + d.jar,
				// A map reads a line of the block behind its own: not all of that.
				"dfs.client.read.shortcircuit.buffer.size": "65536", "dfs.client.cache.readahead": "65536",
				// One on each machine at a time, also beside the master.
				"mapreduce.map.memory.mb": "1536", "mapreduce.map.speculative": "false"}}))(t)
		must(0, run.Succeed(within(t, patience)))(t)
		read := int64(0)
		for m := range d.c.machines {
			read += d.c.Disk(m).Stats().Read
		}
		starts := d.mapStarts(t, must(run.ID(t.Context()))(t))
		result := testkit.Content(must(d.c.HDFS.Client())(t).Open(t.Context(), fmt.Sprintf("/order%d/part-r-00000", i)))(t)
		if want := fmt.Sprintf("fifteen\t%d\nletters\t%d\n", lines, lines); result != want {
			t.Errorf("%q, want %q", result, want)
		}
		hits, first := 0, map[int]int{}
		for _, s := range starts {
			if s.machine == warmOn(s.block) {
				hits++
			}
			if _, later := first[s.machine]; !later {
				first[s.machine] = s.block
			}
		}
		t.Logf("%s: %d of %d blocks that are in memory are read there, %d bytes from disks; order %v", policy, hits, warm, read, starts)
		if i == 0 {
			if slices.ContainsFunc(starts[:cold], func(s mapStart) bool { return s.block >= cold }) {
				t.Errorf("the stock job begins with %v", starts)
			}
			continue
		}
		if log := string(must(os.ReadFile(run.client.log))(t)); !strings.Contains(log, fmt.Sprintf("MEMORY_LOCAL_MAPS=%d\n", hits)) || strings.Contains(log, "MEMORY_DOUBTS") {
			t.Errorf("the job has not counted %d maps, but %q:\n%s", hits, regexp.MustCompile("MEMORY_[A-Z_]*=[0-9]+").FindAllString(log, -1), log)
		}
		for machine, block := range first {
			if warmOn(block) != machine {
				t.Errorf("machine %d begins with block %d, which is not in memory there", machine, block)
			}
		}
		// Each map also reads the beginning of the block behind its own.
		if rest := int64(cold+warm-hits)*dataBlock + 3*dataBlock/2; read > rest {
			t.Errorf("disks read %d bytes, want %d at most", read, rest)
		}
	}
}

// mapStart says which map has begun on which machine.
type mapStart struct{ block, machine int }

var startOfMap = regexp.MustCompile(`TaskAttempt: \[attempt_\d+_\d+_m_(\d+)_\d+\] using containerId: \[\S+ on NM: \[([^:\]]+)`)

// mapStarts returns what the application's master says of maps, in its order.
func (d *collection) mapStarts(t *testing.T, app string) (all []mapStart) {
	t.Helper()
	for name, log := range must(d.c.ContainerLogs(app))(t) {
		if !strings.HasSuffix(name, "/syslog") { // the master's number is not always the first
			continue
		}
		for _, m := range startOfMap.FindAllStringSubmatch(log, -1) {
			on := slices.IndexFunc(d.c.machines, func(of *machine) bool { return of.host == m[2] })
			all = append(all, mapStart{must(strconv.Atoi(m[1]))(t), on})
		}
	}
	if len(all) == 0 {
		t.Fatalf("the master of %s says nothing of maps", app)
	}
	return all
}
