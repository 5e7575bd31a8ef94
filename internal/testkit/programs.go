package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	for _, name := range names {
		dir = filepath.Dir(build(t, name, name))
	}
	return dir
}

// build builds a command of Headrace, unless that was done, as a file of a name, and returns its path.
func build(t testing.TB, command, as string, flags ...string) string {
	t.Helper()
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
	path := filepath.Join(built.dir, as)
	if built.have[as] {
		return path
	}
	// As make build compiles it: what is compiled already, here or in another checkout, is only linked.
	cmd := exec.Command("go", append(append([]string{"build", "-trimpath", "-o", path}, flags...), "headrace/cmd/"+command)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", as, err, out)
	}
	built.have[as] = true
	return path
}

// HeadraceWith builds headrace with a variable of a package that has a value (headrace/PACKAGE.NAME=VALUE), and returns its path. It skips the test where there is nothing to
// build with.
func HeadraceWith(t testing.TB, variable string) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("another program cannot be built: ", err)
	}
	return build(t, "headrace", "headrace-"+strings.NewReplacer("/", "-", "=", "-").Replace(variable), "-ldflags", "-X "+variable)
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
