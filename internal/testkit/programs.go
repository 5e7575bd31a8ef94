package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// ShimEnv names headrace-shim where it is built already, with the other programs
// beside it: by make test, and for tests that run again as a user who cannot build.
const ShimEnv = "HEADRACE_TEST_SHIM"

var built struct {
	sync.Mutex
	dir  string
	have map[string]bool
}

// M runs the tests of a package that uses Programs, for TestMain.
type M struct{ *testing.M }

// Run removes in the end what was built.
func (m M) Run() (code int) {
	defer func() { os.RemoveAll(built.dir) }()
	return m.M.Run()
}

// Programs returns a directory with commands of Headrace, each built once for all tests
// of a package. Every user may run them.
func Programs(t testing.TB, names ...string) (dir string) {
	t.Helper()
	if shim := os.Getenv(ShimEnv); shim != "" {
		return filepath.Dir(shim)
	}
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "headrace-built")
		if err == nil {
			err = os.Chmod(dir, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		built.dir, built.have = dir, map[string]bool{}
	}
	for _, name := range names {
		if built.have[name] {
			continue
		}
		build := exec.Command("go", "build", "-o", built.dir+"/", "headrace/cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
		built.have[name] = true
	}
	return built.dir
}

// Shim builds headrace-shim and returns its path.
func Shim(t testing.TB) string {
	t.Helper()
	return filepath.Join(Programs(t, "headrace-shim"), "headrace-shim")
}

// Headrace builds headrace, with headrace-shim beside it, and returns its path.
func Headrace(t testing.TB) string {
	t.Helper()
	return filepath.Join(Programs(t, "headrace", "headrace-shim"), "headrace")
}

// Lab builds headrace-lab and returns its path.
func Lab(t testing.TB) string {
	t.Helper()
	return filepath.Join(Programs(t, "headrace-lab"), "headrace-lab")
}
