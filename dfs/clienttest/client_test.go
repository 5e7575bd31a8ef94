package clienttest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"headrace/dfs/dfstest"
	"headrace/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.M{M: m}.Run()) }

// run runs a client that must not fail. Some try again for ever, so it has a time limit.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

func me(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

// TestCurl: the examples of Hadoop's documentation of WebHDFS.
func TestCurl(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("there is no curl:", err)
	}
	_, web := dfstest.Start(t)
	dir := t.TempDir()
	file, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	data := bytes.Repeat([]byte("some lines\n"), 300_000)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	at, who := web+"/webhdfs/v1/d/a%20b+c%25?", "&user.name="+me(t)
	ask := func(args ...string) string {
		t.Helper()
		return run(t, dir, curl, append([]string{"-sS", "-f", "-i", "--max-time", "60"}, args...)...)
	}
	if said := ask("-L", "-T", file, at+"op=CREATE"+who); !strings.Contains(said, "HTTP/1.1 307 ") || !strings.Contains(said, "HTTP/1.1 201 ") {
		t.Errorf("CREATE: %s", said)
	}
	ask("-L", "-X", "POST", "-T", file, at+"op=APPEND"+who)
	run(t, dir, curl, "-sS", "-f", "-L", "-o", other, at+"op=OPEN"+who)
	if got, err := os.ReadFile(other); err != nil || !bytes.Equal(got, append(data, data...)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if said := run(t, dir, curl, "-sS", "-f", "-L", at+"op=OPEN&offset=5&length=5"+who); said != "lines" {
		t.Errorf("OPEN: %q", said)
	}
	if said := ask(at + "op=GETFILESTATUS" + who); !strings.Contains(said, `"length":`+strconv.Itoa(2*len(data))) {
		t.Errorf("GETFILESTATUS: %s", said)
	}
	if said := ask("-X", "DELETE", web+"/webhdfs/v1/d?op=DELETE&recursive=true"+who); !strings.Contains(said, `{"boolean":true}`) {
		t.Errorf("DELETE: %s", said)
	}
}

// python makes an environment with packages, or skips the test.
func python(t *testing.T, packages ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("packages are not installed in short tests")
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "bin", "python")
	for _, args := range [][]string{
		{"python3", "-m", "venv", dir},
		append([]string{at, "-m", "pip", "install", "--no-compile", "-q", "--disable-pip-version-check", "--only-binary", ":all:", "--retries", "1", "--timeout", "20"}, packages...),
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v cannot be had: %v: %s", packages, err, out[max(0, len(out)-500):])
		}
	}
	return at
}

// TestPython: hdfs-native, which is Rust's client, too, and fsspec, of which it is a file system, and which knows WebHDFS.
func TestPython(t *testing.T) {
	t.Parallel()
	at := python(t, "hdfs-native==0.14.7", "fsspec==2026.9.0", "requests")
	hdfs, web := dfstest.Start(t)
	run(t, t.TempDir(), at, testdata(t, "native.py"), hdfs)
	run(t, t.TempDir(), at, testdata(t, "web.py"), web, me(t))
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	p, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestColinmarc: github.com/colinmarc/hdfs, which is a module of its own here: it is no dependency of the project's.
func TestColinmarc(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("modules are not fetched in short tests")
	}
	program := filepath.Join(t.TempDir(), "colinmarc")
	build := exec.Command("go", "build", "-trimpath", "-o", program, ".") // with the packages that programs of ours have
	build.Dir = testdata(t, "colinmarc")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")
	fetch := exec.Command("go", "mod", "download")
	fetch.Dir, fetch.Env = build.Dir, build.Env
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Skipf("its modules cannot be had: %v: %s", err, out[max(0, len(out)-500):])
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	hdfs, _ := dfstest.Start(t)
	if said := run(t, t.TempDir(), program, strings.TrimPrefix(hdfs, "hdfs://"), me(t), "1"); said != "well\n" {
		t.Error(said)
	}
}
