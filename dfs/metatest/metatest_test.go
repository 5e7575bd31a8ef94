package metatest

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"headrace/hdfs/hdfstest"
	"headrace/meta"
)

var (
	seed  = flag.Uint64("seed", 1, "which operations; 0 takes new ones")
	count = flag.Int("ops", 1500, "how many operations")
)

var shared = hdfstest.Shared{Properties: []string{
	"dfs.namenode.fs-limits.min-block-size", "0", "dfs.namenode.accesstime.precision", "0", "dfs.bytes-per-checksum", "512", "dfs.heartbeat.interval", "200ms",
	"dfs.client.block.write.replace-datanode-on-failure.policy", "NEVER",
	"hadoop.user.group.static.mapping.overrides", "headrace=supergroup;alice=users,staff;bob=users;carol=",
}}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	shared.Stop()
	os.Exit(code)
}

// TestAsHDFS gives a real HDFS and package meta the same operations, and compares each
// answer, and all of the tree from time to time.
func TestAsHDFS(t *testing.T) {
	h := shared.Get(t)
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("go test ./dfs/metatest -run TestAsHDFS -seed %d -ops %d", *seed, *count)
	r := &remote{url: h.URL()}
	if _, err := r.do(op{user: hdfstest.User, name: "DELETE", path: "/probe"}); err != nil {
		t.Fatal(err)
	}
	l := newLocal()
	var want string
	both := func(o op) (failed bool) {
		t.Helper()
		var got string
		want, got = outcome(r.do(o)), outcome(l.do(o))
		// A fault of HDFS, which renames / to where the caller may not search, for one: any refusal will do.
		fault := strings.HasPrefix(want, "error java.lang.NullPointerException") && strings.HasPrefix(got, "error ")
		if want != got && !fault {
			t.Errorf("%v\nHDFS: %s\nmeta: %s", o, want, got)
		}
		return strings.HasPrefix(want, "error")
	}
	both(op{user: hdfstest.User, name: "SETPERMISSION", path: "/", q: map[string]string{"permission": "1777"}})
	g := &generator{rand.New(rand.NewPCG(*seed, 1))}
	outcomes := map[string][2]int{}
	for i := range *count {
		o := g.next()
		n := outcomes[o.name]
		failed := both(o)
		if (o.name == "CREATE" || o.name == "APPEND") && failed && strings.Contains(want, "QuotaExceeded") {
			// HDFS has deleted by then what was to be overwritten, which is a pity; and a file whose next block does not fit stays open.
			gone := op{user: hdfstest.User, name: "DELETE", path: o.path}
			r.do(gone)
			l.do(gone)
		}
		if failed {
			n[1]++
		} else {
			n[0]++
		}
		outcomes[o.name] = n
		if i%50 == 49 {
			compareTrees(t, both, l, "/")
		}
		if t.Failed() && i > 0 && os.Getenv("METATEST_GO_ON") == "" {
			t.Fatalf("after %d operations", i+1)
		}
	}
	for _, name := range slices.Sorted(keysOf(outcomes)) {
		t.Logf("%-20s %4d succeeded, %4d failed", name, outcomes[name][0], outcomes[name][1])
	}
}

func keysOf(m map[string][2]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func outcome(text string, err error) string {
	var e *meta.Error
	if errors.As(err, &e) {
		message, _, _ := strings.Cut(e.Message, " for operation ") // what WebHDFS calls it
		if strings.HasPrefix(message, "Permission denied by sticky bit") {
			// A fault of HDFS, which gives the sticky directory in a tree the owner and mode of the tree's root.
			before, _, _ := strings.Cut(message, ", parent=")
			message = before
		}
		return fmt.Sprintf("error %s: %s", e.Class, message)
	}
	if err != nil {
		return "error " + err.Error()
	}
	return text
}

// compareTrees compares all that is to be known of a directory and of what is below it.
func compareTrees(t *testing.T, both func(op) bool, l *local, dir string) {
	q := meta.Query{Reader: l.view, Caller: l.caller(hdfstest.User)}
	for _, name := range []string{"LISTSTATUS", "GETACLSTATUS", "GETXATTRS", "GETCONTENTSUMMARY"} {
		both(op{user: hdfstest.User, name: name, path: dir})
	}
	list, err := q.List(dir, "", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Entries {
		path := strings.TrimSuffix(dir, "/") + "/" + e.Name
		if e.Directory {
			compareTrees(t, both, l, path)
			continue
		}
		for _, name := range []string{"GETACLSTATUS", "GETXATTRS", "GET_BLOCK_LOCATIONS"} {
			both(op{user: hdfstest.User, name: name, path: path})
		}
	}
}
