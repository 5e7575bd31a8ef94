package gateway_test

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/internal/testkit"
)

// suites is testdata/hadooptests.txt: the classes to run, by Class.method why a test of theirs is not expected to pass, and those that are
// not run, since they leave behind what others fail by. Slow classes are run with all long tests.
type suites struct {
	classes []string
	excused map[string]string
	omitted []string
	slow    int // classes that are left out
}

func readSuites(t *testing.T) suites {
	t.Helper()
	b, err := os.ReadFile("testdata/hadooptests.txt")
	if err != nil {
		t.Fatal(err)
	}
	s := suites{excused: map[string]string{}}
	all, leftOut := testkit.All(), false
	for line := range strings.Lines(string(b)) {
		first, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case first == "" || first == "#":
		case first == "except" || first == "omit":
			tests, reason, ok := strings.Cut(why, ": ")
			if !ok || reason == "" {
				t.Errorf("%q gives no reason", line)
			}
			if leftOut {
				continue
			}
			for _, test := range strings.Fields(tests) { // of the class that was named last
				class := strings.TrimPrefix(s.classes[len(s.classes)-1], "org.apache.hadoop.")
				if first == "omit" {
					s.omitted = append(s.omitted, class+"."+test)
				} else {
					s.excused[class+"."+test] = reason
				}
			}
		case first == "slow" && !all:
			s.slow, leftOut = s.slow+1, true
		default:
			leftOut = false
			s.classes = append(s.classes, "org.apache.hadoop."+cmp.Or(strings.TrimSpace(why), first))
		}
	}
	return s
}

// testReport is what JUnit writes.
type testReport struct {
	Cases []struct {
		Class   string    `xml:"classname,attr"`
		Took    float64   `xml:"time,attr"` // seconds
		Name    string    `xml:"name,attr"`
		Failure *failure  `xml:"failure"`
		Error   *failure  `xml:"error"`
		Skipped *struct{} `xml:"skipped"`
	} `xml:"testcase"`
}

type failure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// patience is how long a class may take on Hadoop's own cluster.
const patience = 10 * time.Minute

// hadoopRun runs Hadoop's test classes, and counts what has come of them.
type hadoopRun struct {
	suites
	onHDFS                  bool
	java                    string
	options                 []string // of the virtual machine
	passed, skipped, notRun int
	failed                  int                // excused
	ran                     map[string]float64 // classes, for so many seconds
}

// TestHadoopsOwnTests: the tests that Hadoop has for HDFS pass here, unchanged, with a stand-in for their cluster: all of its
// contract tests, and others that are listed. A test that is excused and passes all the same is a mistake in the list.
// HEADRACE_TEST_ON_HDFS=1 leaves the stand-in out, so they are run on Hadoop's own cluster: what is to pass here passes there, and
// excused tests are run only if they are said to fail there as well. Clusters that have
// been shut down fill the memory there, so each class has a virtual machine of its own, and is a subtest.
func TestHadoopsOwnTests(t *testing.T) {
	java, lib := hadoopJars(t)
	tests := "../../java/hdfstests/target"
	if jars, _ := filepath.Glob(tests + "/tests/hadoop-hdfs-*-tests.jar"); len(jars) == 0 {
		t.Skip("Hadoop's tests are not there; make java/hdfstests/target/built gathers them")
	}
	r := &hadoopRun{suites: readSuites(t), onHDFS: os.Getenv("HEADRACE_TEST_ON_HDFS") != "", java: java, ran: map[string]float64{}}
	dir := t.TempDir()
	ours, heap := tests+"/classes", "-Xmx512m"
	if r.onHDFS { // all but what is in the place of Hadoop's classes
		for _, part := range []string{"contract", "org/apache/hadoop/fs"} {
			if err := os.CopyFS(filepath.Join(dir, "classes", part), os.DirFS(filepath.Join(ours, part))); err != nil {
				t.Fatal(err)
			}
		}
		ours = filepath.Join(dir, "classes")
		site := "<configuration><property><name>dfs.namenode.fs-limits.min-block-size</name><value>0</value></property></configuration>" // as in Hadoop's own resources
		if err := os.WriteFile(filepath.Join(ours, "hdfs-site.xml"), []byte(site), 0o600); err != nil {
			t.Fatal(err)
		}
		heap = "-Xmx2g" // whose name nodes and data nodes are in the same process
	}
	r.options = []string{heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MetaspaceSize=256m", "-XX:-UsePerfData", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote", "--add-opens=java.base/java.lang=ALL-UNNAMED",
		"-Dheadrace.tests.program=" + testkit.Headrace(t),
		"-cp", strings.Join([]string{ours, tests + "/tests/*", filepath.Join(lib, "../hdfs/*"), filepath.Join(lib, "*")}, ":")}
	if r.onHDFS {
		for _, c := range r.classes {
			t.Run(c[strings.LastIndex(c, ".")+1:], func(t *testing.T) { r.run(t, c) })
		}
	} else {
		r.run(t, r.classes...)
	}
	t.Logf("%d tests of %d classes pass, %d skip themselves, %d are excused, %d are not run; %d classes that take long are left out",
		r.passed, len(r.ran), r.skipped, r.failed, r.notRun, r.slow)
	slices.SortFunc(r.classes, func(a, b string) int { return cmp.Compare(r.ran[b], r.ran[a]) })
	for _, c := range r.classes[:min(len(r.classes), 5)] {
		t.Logf("%s: %.0f s", c, r.ran[c])
	}
}

// run has a virtual machine of its own for the classes.
func (r *hadoopRun) run(t *testing.T, classes ...string) {
	dir := t.TempDir()
	args := append(slices.Clone(r.options), "-Dheadrace.tests.dir="+dir, "-Dtest.build.data="+filepath.Join(dir, "data"), "-Dhadoop.tmp.dir="+filepath.Join(dir, "tmp"),
		"org.junit.platform.console.ConsoleLauncher", "execute", "--details=testfeed", "--disable-banner", "--disable-ansi-colors", "--reports-dir", dir,
		"--config", "junit.jupiter.execution.timeout.testable.method.default=120s")
	for _, c := range classes {
		args = append(args, "--select-class", c)
	}
	expected, omitted := map[string]bool{}, slices.Clone(r.omitted) // failures that are expected of these classes
	for test, why := range r.excused {
		switch class := "org.apache.hadoop." + test[:strings.LastIndex(test, ".")]; {
		case !slices.Contains(classes, class):
		case r.onHDFS && !strings.HasSuffix(why, "on HDFS as well"):
			omitted = append(omitted, test)
		default:
			expected[test] = true
		}
	}
	for _, test := range omitted {
		i := strings.LastIndex(test, ".")
		if !slices.Contains(classes, "org.apache.hadoop."+test[:i]) {
			continue
		}
		r.notRun++
		args = append(args, "--exclude-methodname", regexp.QuoteMeta("org.apache.hadoop."+test[:i]+"#"+test[i+1:])+`(\(.*)?`)
	}
	cmd := exec.Command(r.java, args...)
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	var late <-chan time.Time
	if r.onHDFS {
		late = time.After(patience)
	}
	select {
	case <-testkit.Start(t, cmd):
	case <-late:
		said, _ := os.ReadFile(out.Name())
		started := regexp.MustCompile(`.*:: STARTED`).FindAll(said, -1)
		t.Fatalf("it has not ended within %v: %s", patience, bytes.Join(started[max(0, len(started)-1):], nil))
	}
	failing := map[string]bool{}
	for _, engine := range []string{"jupiter", "vintage"} {
		var report testReport
		b, err := os.ReadFile(filepath.Join(dir, "TEST-junit-"+engine+".xml"))
		if err == nil {
			err = xml.Unmarshal(b, &report)
		}
		if err != nil {
			said, _ := os.ReadFile(out.Name())
			t.Fatalf("%v\n%.4000s", err, said)
		}
		for _, c := range report.Cases {
			r.ran[c.Class] += c.Took
			name, _, _ := strings.Cut(c.Name, "(")
			test := strings.TrimPrefix(c.Class, "org.apache.hadoop.") + "." + name
			failed := cmp.Or(c.Failure, c.Error)
			switch {
			case c.Skipped != nil:
				r.skipped++
			case failed != nil && expected[test]:
				r.failed++
				failing[test] = true
			case failed != nil:
				t.Errorf("%s fails: %s\n%.2000s", test, failed.Message, failed.Text)
			default:
				r.passed++
			}
		}
	}
	if t.Failed() { // a node may have ended by itself
		said, _ := os.ReadFile(filepath.Join(dir, "log"))
		for line := range strings.Lines(string(said)) {
			if strings.Contains(line, "level=ERROR") || strings.Contains(line, "panic") || strings.HasPrefix(line, "headrace") {
				t.Logf("a node: %.500s", line)
			}
		}
	}
	for test := range expected {
		if !failing[test] {
			t.Errorf("%s is excused, and does not fail", test)
		}
	}
	for _, c := range classes {
		if _, ok := r.ran[c]; !ok {
			t.Errorf("no test of %s has run", c)
		}
	}
}
