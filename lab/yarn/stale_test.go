package yarn

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"headrace/internal/testkit"
	"headrace/lab/belong"
)

// What a killed process has left is ended by the next; what a living one uses, and
// what was kept, stays.
func TestRemoveStale(t *testing.T) {
	parent := t.TempDir()
	dirs := map[string]string{}
	for _, name := range []string{"killed", "alive", "kept"} {
		dirs[name] = filepath.Join(parent, dirPrefix+name)
		if err := os.Mkdir(dirs[name], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	must(lockDir(dirs["killed"], os.O_CREATE))(t).Close()
	alive := must(lockDir(dirs["alive"], os.O_CREATE))(t)
	defer alive.Close()
	ended := map[string]<-chan struct{}{}
	for name, dir := range dirs {
		ended[name] = sleepIn(t, dir)
	}
	if err := removeStale(parent); err != nil {
		t.Fatal(err)
	}
	<-ended["killed"]
	if _, err := os.Stat(dirs["killed"]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of the killed one: %v", err)
	}
	for _, name := range []string{"alive", "kept"} {
		if _, err := os.Stat(dirs[name]); err != nil {
			t.Error(err)
		}
		if len(must(belong.Processes(dirs[name]))(t)) != 1 {
			t.Errorf("the process of the %s one is gone", name)
		}
	}
}

// sleepIn starts a process of the cluster in dir; the channel is closed at its end.
func sleepIn(t *testing.T, dir string) <-chan struct{} {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.Env = append(os.Environ(), belong.Marker+"="+dir)
	return testkit.Start(t, cmd)
}
