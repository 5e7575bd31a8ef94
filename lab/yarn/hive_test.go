package yarn

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"headrace/internal/testkit"
)

// hive runs a query of Hive's own on the input, with a lead: when its first task has begun, all of its
// input is locked on the machines, and when it has ended nothing is.
func (d *collection) hive(t *testing.T) {
	testkit.Long(t)
	const query = "select sum(cast(n as bigint)) from (from words select transform(line) using '/bin/sh %s' as (n string)) x"
	module := filepath.Join(d.c.o.Jars.Cluster, "..", "..", "..", "hivequery", "target")
	jars, app := filepath.Join(module, "hive", "*"), filepath.Join(module, "headrace-hivequery.jar")
	if _, err := os.Stat(app); err != nil {
		t.Skipf("there is no Hive (%v): run mvn -f java/hivequery/pom.xml package", err)
	}
	plugin := frameworkJar(t, d.c, "hive")
	for _, args := range [][]string{{"-mkdir", "/table"}, {"-mv", "/a", "/b", "/table"}} {
		must(0, d.c.HDFS.Shell(within(t, patience), 0, args...))(t)
	}
	for i := range d.c.Nodes() {
		must(0, d.c.DropDisk(i))(t)
	}

	// Each task says that it has begun, and waits until it may go on.
	dir := filepath.Join(d.c.Dir, "hive")
	script, begun, proceed := filepath.Join(dir, "count"), filepath.Join(dir, "begun"), filepath.Join(dir, "go")
	must(0, os.Mkdir(dir, 0o777))(t)
	must(0, os.Chmod(dir, 0o777))(t) // whatever the umask
	must(0, os.WriteFile(script, fmt.Appendf(nil, "touch %s\nread line < %s\nexec wc -l\n", begun, proceed), 0o644))(t)
	must(0, syscall.Mkfifo(proceed, 0o666))(t)
	gate := must(os.OpenFile(proceed, os.O_RDWR, 0))(t)
	defer gate.Close()

	must(0, properties{"fs.defaultFS": d.c.HDFS.URL()}.write(filepath.Join(dir, "core-site.xml")))(t)
	must(0, properties{
		"hive.query.lifetime.hooks":           "headrace.hive.WarmHook",
		"headrace.node.socket":                d.c.machines[0].socket(),
		"headrace.warm.lead":                  "8m",
		"headrace.warm.patience":              "1m",
		"hive.execution.engine":               "mr",
		"mapreduce.framework.name":            "local",
		"mapreduce.cluster.local.dir":         filepath.Join(dir, "local"),
		"hadoop.tmp.dir":                      filepath.Join(dir, "tmp"),
		"hive.exec.local.scratchdir":          filepath.Join(dir, "scratch"),
		"hive.downloaded.resources.dir":       filepath.Join(dir, "resources"),
		"hive.metastore.warehouse.dir":        "/warehouse",
		"javax.jdo.option.ConnectionURL":      "jdbc:derby:memory:metastore;create=true",
		"datanucleus.schema.autoCreateAll":    "true",
		"hive.metastore.schema.verification":  "false",
		"hive.support.concurrency":            "false",
		"hive.stats.autogather":               "false",
		"hive.security.authorization.enabled": "false",
	}.write(filepath.Join(dir, "hive-site.xml")))(t)
	cmd := d.c.java(256, "headrace.hivequery.Query", []string{dir, app, plugin, jars}, nil,
		"create external table words (line string) location '/table'", fmt.Sprintf(query, script))
	var opens []string // what Hive reaches into
	for _, name := range []string{"lang", "net", "nio", "util", "util.concurrent", "util.concurrent.atomic", "util.regex", "io", "time"} {
		opens = append(opens, "--add-opens=java.base/java."+name+"=ALL-UNNAMED")
	}
	cmd.Env = append(cmd.Env, "JDK_JAVA_OPTIONS="+strings.Join(opens, " "))
	r := must(d.c.clients.start("hive", cmd))(t)

	must(0, await(within(t, patience), "wait for the first task", patience, func(context.Context) (bool, error) {
		if r.Ended() {
			return false, &fatal{r.client.problem()}
		}
		_, err := os.Stat(begun)
		return err == nil, err
	}))(t)
	all := d.inputs(t)
	if len(all) != 1 || all[0].Files != 2 || all[0].Bytes != d.size || all[0].Pinned+all[0].Resident != d.size || all[0].Left+all[0].NotFit != 0 {
		t.Fatalf("when the first task has begun: %v", all)
	}
	if n := d.pinned(t); n < all[0].Pinned {
		t.Errorf("%d bytes are locked on all machines, want %d", n, all[0].Pinned)
	}
	must(gate.WriteString(strings.Repeat("\n", 100)))(t)
	must(0, r.Succeed(within(t, patience)))(t)
	if want := fmt.Sprintf("row %d\n", 2*strings.Count(string(dataText()), "\n")); !strings.Contains(r.Output(), want) {
		t.Errorf("the query has not answered %q but %q", want, r.Output())
	}
	d.awaitNothing(t)
}
