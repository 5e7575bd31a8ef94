package yarn

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"headrace/internal/testkit"
	"headrace/wire"
)

// hosts: each block has a replica on all three machines, and one of these is in memory. The
// tasks of a job whose splits name that one read nearly everything from there, as the machines'
// own counts of what is read tell. With HEADRACE_TEST_PAIR=1 a job whose splits name all machines
// goes before it, for comparison.
func (d *collection) hosts(t *testing.T) {
	blocks, pair := int64(5), os.Getenv("HEADRACE_TEST_PAIR") != ""
	if pair {
		blocks = 9
	}
	d = &collection{c: d.c, jar: d.jar, size: blocks * dataBlock}
	put(t, d.c, "/in", bytes.Repeat([]byte("sixteen letters\n"), int(d.size/16)))
	if pair {
		d.read(t, "anywhere", map[string]string{"headrace.warm.hosts": "false"})
	}
	if r := d.read(t, "named", map[string]string{"headrace.warm.hosts": "true"}); r.ReadMemory < d.size*3/5 {
		t.Errorf("only %d bytes are read where they are in memory", r.ReadMemory)
	}
}

// read runs a job with a task for each block, which is submitted when all is in memory, and
// returns how its input stood last.
func (d *collection) read(t *testing.T, name string, properties map[string]string) (last *wire.InputsStatus) {
	t.Helper()
	for i := range d.c.Nodes() {
		must(0, d.c.DropDisk(i))(t)
	}
	properties["headrace.node.socket"] = d.c.machines[0].socket()
	properties["headrace.warm.lead"], properties["headrace.warm.patience"] = "8m", "1m"
	properties["mapreduce.map.memory.mb"], properties["mapreduce.reduce.memory.mb"] = "512", "512"
	properties["yarn.app.mapreduce.am.resource.mb"] = "512"
	run := must(d.c.MapReduce(MapReduceJob{Name: name, Queue: "high", ClassPath: []string{d.jar}, Properties: properties,
		Args: []string{"wordcount", "/in", "/" + name}}))(t)
	must(0, await(within(t, patience), "wait for the end of "+name, patience, func(context.Context) (bool, error) {
		for _, s := range d.inputs(t) {
			last = s
		}
		return run.Ended(), nil
	}))(t)
	if err := run.Succeed(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	log := string(must(os.ReadFile(run.client.log))(t))
	if named := strings.Contains(log, "name the machine that has them in memory"); named != (properties["headrace.warm.hosts"] == "true") || last == nil {
		t.Fatalf("%s has named machines: %v; its input stood at %v:\n%s", name, named, last, log)
	}
	if last.Pinned+last.Resident != d.size || last.ReadMemory+last.ReadDisk > d.size {
		t.Errorf("%s: %v", name, last)
	}
	t.Logf("%s: of %d bytes %d are read where they are in memory, %d elsewhere", name, d.size, last.ReadMemory, d.size-last.ReadMemory)
	result := testkit.Content(must(d.c.HDFS.Client())(t).Open(t.Context(), "/"+name+"/part-r-00000"))(t)
	if want := fmt.Sprintf("sixteen\t%d\n", d.size/16); !strings.Contains(result, want) {
		t.Errorf("%s: %q, want %q in it", name, result, want)
	}
	d.awaitNothing(t)
	return last
}
