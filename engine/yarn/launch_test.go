package yarn

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// captured returns a launch as a process of a real cluster has found it.
func captured(t *testing.T, container string) Launch {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/launch", container+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var in struct{ Argv, Env []string }
	if err := json.Unmarshal(b, &in); err != nil {
		t.Fatal(err)
	}
	app := strings.Join(strings.Split(container, "_")[1:3], "_")
	return Launch{App: "application_" + app, User: "root", Argv: in.Argv, Env: in.Env}
}

// TestKeyOfRealLaunches: the containers of one DistributedShell application, of two
// attempts of its master, have one key.
func TestKeyOfRealLaunches(t *testing.T) {
	first := captured(t, "container_1795260042509_0004_01_000002")
	for _, other := range []string{"container_1795260042509_0004_01_000003", "container_1795260042509_0004_02_000002"} {
		l := captured(t, other)
		if slices.Equal(l.Env, first.Env) || slices.Equal(l.Argv, first.Argv) {
			t.Errorf("%s is no other container", other)
		}
		if l.Key() != first.Key() {
			t.Errorf("%s has another key: %+v\n%+v", other, l.Command(), first.Command())
		}
	}
	if captured(t, "container_1795260042509_0005_01_000002").Key() == first.Key() {
		t.Error("another command has the same key")
	}
	got, err := json.MarshalIndent(first.Command(), "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	golden := "testdata/launch/command.golden"
	if *rewrite {
		if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != string(got)+"\n" {
		t.Errorf("%v: the comparable command is\n%s", err, got)
	}
	if roots := first.Roots(); !slices.Equal(roots, []string{
		"/hadoop/local/usercache/root/appcache/application_1795260042509_0004", "/hadoop/logs/application_1795260042509_0004",
	}) {
		t.Errorf("roots %q", roots)
	}
}

// TestKeyOfService: an instance of a YARN service has one key on every machine, and
// no other has it.
func TestKeyOfService(t *testing.T) {
	first, again := captured(t, "container_1795274522454_0005_01_000002"), captured(t, "container_1795274522454_0005_01_000004")
	if slices.Equal(again.Env, first.Env) || slices.Equal(again.Argv, first.Argv) {
		t.Error("they are one container")
	}
	key := first.Key()
	if again.Key() != key {
		t.Errorf("the relaunch has another key: %+v\n%+v", again.Command(), first.Command())
	}
	if replaceAll(again, "task-0", "task-1").Key() == key {
		t.Error("another instance has the same key")
	}
}

// aLaunch returns one on a machine with two disks.
func aLaunch() Launch {
	return Launch{
		App: "application_17_0004", User: "ann",
		Argv: []string{"/bin/bash", "-c", "./run.sh --out /d2/local/usercache/ann/appcache/application_17_0004/container_17_0004_01_000002/out 1>/d2/logs/application_17_0004/container_17_0004_01_000002/stdout"},
		Env: []string{
			"CONTAINER_ID=container_17_0004_01_000002", "NM_HOST=n1", "NM_PORT=1", "JVM_PID=7", "YARN_SHELL_ID=1", "A=b",
			"PWD=/d2/local/usercache/ann/appcache/application_17_0004/container_17_0004_01_000002",
			"LOCAL_DIRS=/d1/local/usercache/ann/appcache/application_17_0004,/d2/local/usercache/ann/appcache/application_17_0004",
			"LOCAL_USER_DIRS=/d1/local/usercache/ann/,/d2/local/usercache/ann/",
			"LOG_DIRS=/d1/logs/application_17_0004/container_17_0004_01_000002,/d2/logs/application_17_0004/container_17_0004_01_000002",
			"CLASSPATH=/d1/local/usercache/ann/appcache/application_17_0004/filecache/12/a.jar:/d1/local/filecache/3/10/b.jar",
			"NM_AUX_SERVICE_mapreduce_shuffle=AAA=",
		},
		Resources: []Resource{{Name: "run.sh", Size: 10, Sum: "abc"}, {Name: "a.jar", Size: 20, Sum: "def"}},
	}
}

func replaceAll(l Launch, pairs ...string) Launch {
	r := strings.NewReplacer(pairs...)
	for i := range l.Argv {
		l.Argv[i] = r.Replace(l.Argv[i])
	}
	for i := range l.Env {
		l.Env[i] = r.Replace(l.Env[i])
	}
	return l
}

func TestKey(t *testing.T) {
	key := aLaunch().Key()
	if len(key) != 64 || strings.Trim(key, "0123456789abcdef") != "" || aLaunch().Key() != key {
		t.Fatalf("key %q", key)
	}
	for what, c := range map[string]struct {
		l    Launch
		same bool
	}{
		"another container":       {replaceAll(aLaunch(), "_01_000002", "_01_000017"), true},
		"another attempt":         {replaceAll(aLaunch(), "_01_000002", "_02_000002"), true},
		"an epoch":                {replaceAll(aLaunch(), "container_17", "container_e03_17"), true},
		"another machine":         {replaceAll(aLaunch(), "NM_HOST=n1", "NM_HOST=n2", "NM_PORT=1", "NM_PORT=2", "JVM_PID=7", "JVM_PID=99"), true},
		"the other disk":          {replaceAll(aLaunch(), "--out /d2", "--out /d1", "PWD=/d2", "PWD=/d1", "1>/d2", "1>/d1"), true},
		"other directories":       {replaceAll(aLaunch(), "/d1/", "/mnt/disk1/", "/d2/", "/mnt/disk2/"), true},
		"another place in caches": {replaceAll(aLaunch(), "filecache/12/", "filecache/4/"), true},
		"another shell id":        {replaceAll(aLaunch(), "YARN_SHELL_ID=1", "YARN_SHELL_ID=5"), true},
		"another shuffle port":    {replaceAll(aLaunch(), "AAA=", "BBB="), true},
		"another order": {func() Launch {
			l := aLaunch()
			slices.Reverse(l.Env)
			slices.Reverse(l.Resources)
			return l
		}(), true},
		"a variable of Headrace": {func() Launch { l := aLaunch(); l.Env = append(l.Env, "HEADRACE_TASK_ID=t1"); return l }(), true},
		"another variable":       {replaceAll(aLaunch(), "A=b", "A=c"), false},
		"one more variable":      {func() Launch { l := aLaunch(); l.Env = append(l.Env, "B=c"); return l }(), false},
		"another argument":       {replaceAll(aLaunch(), "--out", "--in"), false},
		"one argument in two":    {func() Launch { l := aLaunch(); l.Argv[2], l.Argv = "x", append(l.Argv, "y"); return l }(), false},
		"another application":    {replaceAll(func() Launch { l := aLaunch(); l.App = "application_17_0005"; return l }(), "17_0004", "17_0005"), false},
		"another user":           {func() Launch { l := aLaunch(); l.User = "bob"; return l }(), false},
		"another file":           {func() Launch { l := aLaunch(); l.Resources[0].Sum = "xyz"; return l }(), false},
		"one file less":          {func() Launch { l := aLaunch(); l.Resources = l.Resources[1:]; return l }(), false},
	} {
		if same := c.l.Key() == key; same != c.same {
			t.Errorf("%s: same key %v, want %v: %+v", what, same, c.same, c.l.Command())
		}
	}
	c := aLaunch().Command()
	if want := "./run.sh --out {PWD}/out 1>{LOG_DIR}/stdout"; c.Argv[2] != want {
		t.Errorf("command %q, want %q", c.Argv[2], want)
	}
	if want := []string{"A=b", "CLASSPATH={LOCAL_DIR}/filecache/{N}/a.jar:{NM_LOCAL_DIR}/filecache/{N}/b.jar"}; !slices.Equal(c.Env, want) {
		t.Errorf("environment %q, want %q", c.Env, want)
	}
}

func TestKeyIsPure(t *testing.T) {
	l := aLaunch()
	before, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	l.Key()
	l.Roots()
	if after, err := json.Marshal(l); err != nil || string(after) != string(before) {
		t.Errorf("the launch was changed: %s", after)
	}
}

// TestShortNames: what YARN says nothing useful of does not garble the command.
func TestShortNames(t *testing.T) {
	l := Launch{Argv: []string{"cat /etc/passwd a,b"}, Env: []string{"PWD=/", "LOG_DIRS=", "LOCAL_DIRS=,", "CONTAINER_ID=a", "BROKEN"}}
	if c := l.Command(); c.Argv[0] != "cat /etc/passwd a,b" || len(c.Env) != 0 {
		t.Errorf("%+v", c)
	}
	if roots := l.Roots(); len(roots) != 0 {
		t.Errorf("roots %q", roots)
	}
}

func TestResources(t *testing.T) {
	top := t.TempDir()
	cwd, cache := filepath.Join(top, "cwd"), filepath.Join(top, "filecache", "11")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(cwd, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(cwd, "launch_container.sh"), "of the container alone")
	write(filepath.Join(cache, "run.sh"), "one")
	write(filepath.Join(cache, "lib", "a"), "two")
	write(filepath.Join(cache, "lib", "b"), "three")
	write(filepath.Join(top, "elsewhere"), "x")
	link(filepath.Join(cache, "run.sh"), "run.sh")
	link(filepath.Join(cache, "lib"), "lib")
	link(filepath.Join(top, "elsewhere"), "elsewhere")
	write(filepath.Join(cache, "site.xml"), "four")
	write(filepath.Join(cwd, "conf", "of the container"), "")
	link(filepath.Join(cache, "site.xml"), "conf/site.xml")
	get := func() []Resource {
		t.Helper()
		list, err := Resources(cwd, nil)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	first := get()
	if want := []string{"conf/site.xml 4", "lib 8", "run.sh 3"}; !slices.Equal(namesAndSizes(first), want) {
		t.Fatalf("resources %+v", first)
	}
	write(filepath.Join(cache, "run.sh"), "ONE")
	write(filepath.Join(cache, "lib", "c"), "")
	write(filepath.Join(cache, "site.xml"), "five")
	second := get()
	for i := range second {
		if second[i].Sum == first[i].Sum {
			t.Errorf("%s has changed, its sum has not", first[i].Name)
		}
	}
	link(filepath.Join(cache, "none"), "none")
	if _, err := Resources(cwd, nil); err == nil {
		t.Error("a resource that is missing went unnoticed")
	}
}

func namesAndSizes(list []Resource) []string {
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprint(r.Name, " ", r.Size))
	}
	return out
}
