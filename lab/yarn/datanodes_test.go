package yarn

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"headrace/hdfs"
	"headrace/internal/linux"
	"headrace/internal/testkit"
)

// onHDFS: an HDFS and a YARN on three machines, each with a disk, memory and a network of its own, are what they are to be. The
// subtests go on with what those before them have left.
func onHDFS(t *testing.T, c *Cluster) {
	d := &dataTest{c: c, client: must(c.HDFS.Client())(t), text: dataText()}
	for _, step := range []struct {
		name string
		do   func(*testing.T, *dataTest)
	}{{"machines", onMachines}, {"replicas", replicas}, {"short-circuit", shortCircuit}, {"MapReduce", readByMapReduce}, {"kill", killDaemons}} {
		if !t.Run(step.name, func(t *testing.T) { step.do(t, d) }) {
			return
		}
	}
}

const dataBlock = 1 << 20

// dataTest is what the subtests share: files of so many blocks, and what is in them.
type dataTest struct {
	c      *Cluster
	client *hdfs.Client
	text   []byte
}

// dataText is two blocks and a half of lines with three words each.
func dataText() []byte {
	var b bytes.Buffer
	for n := 0; b.Len() < 5*dataBlock/2; n++ {
		fmt.Fprintf(&b, "line %07d of\n", n)
	}
	return b.Bytes()
}

// writer is the machine from which files are written.
const writer = 1

// Every daemon is where it is to be.
func onMachines(t *testing.T, d *dataTest) {
	for _, m := range d.c.machines {
		for _, p := range []*process{m.nm, m.dataNode} {
			pid := p.cmd.Process.Pid
			if !m.ns.has(pid, m.path("")) {
				t.Errorf("the %s is not on machine %d", p.name, m.index)
			}
			groups := must(linux.ProcFS("").Cgroups(fmt.Sprint(pid)))(t)
			if !slices.ContainsFunc(slices.Collect(maps.Values(groups)), func(g string) bool { return filepath.Base(g) == filepath.Base(m.group) }) {
				t.Errorf("the %s is in %v, not in %s", p.name, groups, m.group)
			}
		}
	}
}

// A file has its blocks where the NameNode says, on the disks of machines and nowhere else;
// what is written on a machine with one replica stays there.
func replicas(t *testing.T, d *dataTest) {
	local := filepath.Join(d.c.Dir, "text")
	if err := os.WriteFile(local, d.text, 0o644); err != nil {
		t.Fatal(err)
	}
	must(0, d.client.MkdirAll(t.Context(), "/data", 0o755))(t)
	for n, on := range map[int][]int{1: {writer}, 3: {0, 1, 2}} {
		path := dataPath(n)
		if err := d.c.HDFS.Shell(within(t, patience), writer, fmt.Sprint("-Ddfs.replication=", n), "-put", "file://"+local, path); err != nil {
			t.Fatal(err)
		}
		all := must(d.c.HDFS.Replicas(t.Context(), path, len(on)))(t)
		if want := 3 * len(on); len(all) != want {
			t.Fatalf("%s has %d replicas of blocks, want %d", path, len(all), want)
		}
		for i, r := range all {
			if r.Machine != on[i%len(on)] || r.Block.Offset != int64(i/len(on)*dataBlock) {
				t.Errorf("replica %d of %s: %+v", i, path, r)
			}
			var contents []byte
			err := d.c.On(r.Machine, func() (err error) {
				if contents, err = os.ReadFile(r.Data); err == nil {
					_, err = os.Stat(r.Checksum)
				}
				return err
			})
			if err != nil || !bytes.Equal(contents, d.text[r.Block.Offset:r.Block.Offset+r.Block.Bytes]) {
				t.Errorf("replica %d of %s: %d bytes of something else, %v", i, path, len(contents), err)
			}
		}
		if got := testkit.Content(d.client.Open(t.Context(), path))(t); got != string(d.text) {
			t.Errorf("%s reads otherwise", path)
		}
	}
}

func dataPath(replicas int) string { return fmt.Sprintf("/data/%d", replicas) }

// A reader on the machine that has the blocks gets the DataNode's open files, or the data
// by a socket; the same disk reads once in both cases, and not at all what is in memory.
func shortCircuit(t *testing.T, d *dataTest) {
	if err := d.c.DropDisk(writer); err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		short bool
		op    string
		cold  bool
	}{{true, "REQUEST_SHORT_CIRCUIT_FDS", true}, {false, "HDFS_READ", false}} {
		log := d.c.logFile(fmt.Sprint("datanode", writer))
		before := logSize(log)
		for i := range d.c.machines {
			d.c.Disk(i).Reset()
		}
		err := d.c.HDFS.Shell(within(t, patience), writer, fmt.Sprint("-Ddfs.client.read.shortcircuit=", way.short), "-cat", dataPath(1))
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range []string{"REQUEST_SHORT_CIRCUIT_FDS", "HDFS_READ"} {
			if seen := logHas(log, before, "op: "+op); seen != (op == way.op) {
				t.Errorf("short-circuit %v: the DataNode has done %s: %v", way.short, op, seen)
			}
		}
		for i := range d.c.machines {
			read := d.c.Disk(i).Stats().Read
			if cold := way.cold && i == writer; (read >= int64(len(d.text))) != cold || !cold && read > dataBlock/4 {
				t.Errorf("short-circuit %v: disk %d has read %d bytes of %d", way.short, i, read, len(d.text))
			}
		}
	}
}

// YARN, MapReduce and HDFS have the same names for machines: each task has a replica beside
// it, because every machine has one, and counts as such.
func readByMapReduce(t *testing.T, d *dataTest) {
	testkit.Long(t) // in hosts each task reads on the machine that its split names
	run := must(d.c.MapReduce(MapReduceJob{Name: "words", Queue: "low", Args: []string{"wordcount", dataPath(3), "/counted"},
		Properties: map[string]string{"mapreduce.map.speculative": "false"}}))(t)
	if err := run.Succeed(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	log := string(must(os.ReadFile(run.client.log))(t))
	counters := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s+(.*-local map tasks|Launched map tasks)=(\d+)$`).FindAllStringSubmatch(log, -1) {
		counters[m[1]] = m[2]
	}
	if want := map[string]string{"Launched map tasks": "3", "Data-local map tasks": "3"}; !maps.Equal(counters, want) {
		t.Errorf("%v, want %v", counters, want)
	}
	lines := bytes.Count(d.text, []byte("\n"))
	result := testkit.Content(d.client.Open(t.Context(), "/counted/part-r-00000"))(t)
	if n := strings.Count(result, "\n"); n != lines+2 || !strings.Contains(result, fmt.Sprintf("\nline\t%d\n", lines)) {
		t.Errorf("%d words are counted, want %d", n, lines+2)
	}
	idle(t, d.c)
}

// Daemons come back, and what was written is there.
func killDaemons(t *testing.T, d *dataTest) {
	testkit.Long(t) // TestWarmingSurvives kills and starts a NameNode and a DataNode
	h := d.c.HDFS
	check := func(when string) {
		t.Helper()
		var got []byte
		// A DataNode asks the NameNode for us, first by a connection that its death has ended.
		err := await(within(t, patience), "read "+when, patience, func(ctx context.Context) (bool, error) {
			r, err := d.client.Open(ctx, dataPath(3))
			if err != nil {
				return false, err
			}
			defer r.Close()
			got, err = io.ReadAll(r)
			return err == nil, err
		})
		if err != nil || !bytes.Equal(got, d.text) {
			t.Fatalf("%s: %d bytes of something else, %v", when, len(got), err)
		}
	}
	// Not the one with the only replicas of a file: without them HDFS stays in safe mode.
	const killed, stopped = 2, 0
	must(0, h.KillDataNode(killed))(t)
	must(0, h.KillNameNode())(t)
	if _, err := h.State(t.Context()); err == nil {
		t.Error("a NameNode that was killed answers")
	}
	must(0, h.StartNameNode(within(t, patience)))(t)
	check("without a DataNode")
	must(0, h.StartDataNode(within(t, patience), killed))(t)
	must(0, h.StopDataNode(stopped))(t)
	must(0, h.StartDataNode(within(t, patience), stopped))(t)
	must(0, h.StopNameNode())(t)
	must(0, h.StartNameNode(within(t, patience)))(t)
	check("in the end")
	if s := must(h.State(t.Context()))(t); s.NumLiveDataNodes != 3 {
		t.Errorf("%+v", s)
	}
}
