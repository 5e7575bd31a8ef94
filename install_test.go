package headrace_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstall: everything that is to be there is installed, for its prefix, and goes
// again. The programs and jars are stand-ins.
func TestInstall(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make")
	}
	dir, dest := t.TempDir(), filepath.Join(t.TempDir(), "a root")
	if err := os.CopyFS(filepath.Join(dir, "systemd"), os.DirFS("systemd")); err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("Makefile", string(makefile), 0o644)
	write("bin/headrace", "#!/bin/sh\necho completion\n", 0o755)
	write("bin/headrace-shim", "", 0o755)
	want := []string{"bin/headrace", "bin/headrace-shim", "share/headrace/node.env", "share/headrace/manager.env"}
	for _, plugin := range []string{"yarn", "mapreduce", "spark"} {
		write("java/"+plugin+"/target/headrace-"+plugin+".jar", "", 0o644)
		want = append(want, "share/headrace/headrace-"+plugin+".jar")
	}
	units, err := filepath.Glob("systemd/*.service")
	if err != nil || len(units) < 3 {
		t.Fatalf("%v, %v", units, err)
	}
	for _, u := range units {
		want = append(want, "lib/systemd/system/"+filepath.Base(u))
	}
	run := func(target string) {
		t.Helper()
		cmd := exec.Command("make", "-o", "build", "-o", "java", target, "DESTDIR="+dest, "PREFIX=/opt/x")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
	}
	run("install")
	for _, name := range want {
		text, err := os.ReadFile(filepath.Join(dest, "opt/x", name))
		if err != nil {
			t.Error(err)
		}
		if strings.HasSuffix(name, ".service") && !strings.Contains(string(text), "\nExecStart=/opt/x/bin/headrace ") {
			t.Errorf("%s does not start /opt/x/bin/headrace:\n%s", name, text)
		}
	}
	run("uninstall")
	run("uninstall") // also when nothing is left
	filepath.WalkDir(dest, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() || e.Name() == "headrace" {
			t.Errorf("%s is left (%v)", path, err)
		}
		return nil
	})
}
