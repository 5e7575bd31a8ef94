package headrace_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestInstall: what was built is installed, for its prefix, without anything being built;
// it goes again. The programs and jars are stand-ins.
func TestInstall(t *testing.T) {
	plugins := []string{"yarn", "mapreduce", "spark", "hive"}
	for name, jars := range map[string][]string{"with jars": plugins, "without jars": nil, "some jars": plugins[:1]} {
		t.Run(name, func(t *testing.T) {
			tree := newInstallTree(t)
			tree.write("bin/headrace", "#!/bin/sh\necho completion\n", 0o755)
			tree.write("bin/headrace-shim", "", 0o755)
			want := []string{"bin/headrace", "bin/headrace-shim", "share/headrace/node.env", "share/headrace/manager.env", "share/headrace/dfs.env", "lib/tmpfiles.d/headrace.conf", settingsFile}
			for _, plugin := range jars {
				tree.write("java/"+plugin+"/target/headrace-"+plugin+".jar", "", 0o644)
				want = append(want, "share/headrace/headrace-"+plugin+".jar")
			}
			units, err := filepath.Glob("systemd/*.service")
			if err != nil || len(units) < 3 {
				t.Fatalf("%v, %v", units, err)
			}
			for _, u := range units {
				want = append(want, "lib/systemd/system/"+filepath.Base(u))
			}
			if out, err := tree.make("install"); err != nil {
				t.Fatalf("make install: %v\n%s", err, out)
			}
			tree.check(want)
			for range 2 { // also when nothing is left
				if out, err := tree.make("uninstall"); err != nil {
					t.Fatalf("make uninstall: %v\n%s", err, out)
				}
			}
			tree.check(nil)
			tree.keepsSettings()
		})
	}
}

// TestInstallNeedsABuild: who has built nothing is told what to do.
func TestInstallNeedsABuild(t *testing.T) {
	tree := newInstallTree(t)
	tree.write("bin/headrace", "#!/bin/sh\n", 0o755)
	out, err := tree.make("install")
	if err == nil || !strings.Contains(out, "bin/headrace-shim is not there: make build first") {
		t.Errorf("make install without headrace-shim: %v\n%s", err, out)
	}
}

// TestInstallForOneself: who is not root installs below a directory of their own. Settings of root's daemon are root's.
func TestInstallForOneself(t *testing.T) {
	tree := newInstallTree(t)
	tree.write("bin/headrace", "#!/bin/sh\necho completion\n", 0o755)
	tree.write("bin/headrace-shim", "", 0o755)
	prefix := filepath.Join(t.TempDir(), "home")
	if err := errors.Join(os.Mkdir(prefix, 0o755), os.Chmod(filepath.Dir(filepath.Dir(prefix)), 0o755)); err != nil {
		t.Fatal(err)
	}
	var who *syscall.SysProcAttr
	if os.Geteuid() == 0 {
		const nobody = 65534
		if err := os.Chown(prefix, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		who = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	make := func(target string) string {
		t.Helper()
		cmd := exec.Command("make", "GO=false", "MVN=false", target, "PREFIX="+prefix)
		cmd.Dir, cmd.SysProcAttr = tree.dir, who
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
		return string(out)
	}
	if out := make("install"); !strings.Contains(out, "/etc/headrace/headrace.conf is left out") || !strings.Contains(out, "\ninstalled") {
		t.Errorf("make install says\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(prefix, "bin/headrace")); err != nil {
		t.Error(err)
	}
	make("uninstall")
	if _, err := os.Stat(filepath.Join(prefix, "bin/headrace")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after make uninstall: %v", err)
	}
}

// TestUnitsThatExclude: systemd stops and starts units side by side that have no order, and these want the same directory.
func TestUnitsThatExclude(t *testing.T) {
	units, err := filepath.Glob("systemd/*.service")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, u := range units {
		text, err := os.ReadFile(u)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if other, ok := strings.CutPrefix(line, "Conflicts="); ok {
				found = true
				if !strings.Contains(string(text), "\nAfter="+other) {
					t.Errorf("%s has no After=%s", u, other)
				}
			}
		}
	}
	if !found {
		t.Error("no units exclude each other")
	}
}

// installTree is a source tree with nothing in it that could be built, and a root
// to install below.
type installTree struct {
	*testing.T
	dir, dest string
}

func newInstallTree(t *testing.T) *installTree {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make")
	}
	tree := &installTree{T: t, dir: t.TempDir(), dest: filepath.Join(t.TempDir(), "a root")}
	if err := os.CopyFS(filepath.Join(tree.dir, "systemd"), os.DirFS("systemd")); err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	tree.write("Makefile", string(makefile), 0o644)
	return tree
}

func (tree *installTree) write(name, text string, mode os.FileMode) {
	tree.Helper()
	path := filepath.Join(tree.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tree.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		tree.Fatal(err)
	}
}

// make runs a target where there is neither Go nor Maven, as for root under sudo, and as a root that hides its files.
func (tree *installTree) make(target string) (string, error) {
	cmd := exec.Command("sh", "-c", `umask 077; exec make "$@"`, "make", "GO=false", "MVN=false", target, "DESTDIR="+tree.dest, "PREFIX=/opt/x")
	cmd.Dir = tree.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// settingsFile is where settings go, whatever the prefix, seen from the prefix.
const settingsFile = "../../etc/headrace/headrace.conf"

// keepsSettings: settings that somebody has changed survive both.
func (tree *installTree) keepsSettings() {
	tree.Helper()
	path := filepath.Join(tree.dest, "etc/headrace/headrace.conf")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tree.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("[daemon]\nslots = 3\n"), 0o644); err != nil {
		tree.Fatal(err)
	}
	for _, target := range []string{"install", "uninstall"} {
		if out, err := tree.make(target); err != nil {
			tree.Fatalf("make %s: %v\n%s", target, err, out)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "[daemon]\nslots = 3\n" {
		tree.Errorf("settings are %q, %v", text, err)
	}
}

// check compares the files below the prefix with want.
func (tree *installTree) check(want []string) {
	tree.Helper()
	var got []string
	filepath.WalkDir(tree.dest, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == tree.dest {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode().Perm(); mode != 0o755 && (mode != 0o644 || e.IsDir()) {
			tree.Errorf("%s has the mode %o", path, mode)
		}
		if e.IsDir() {
			return nil
		}
		name, err := filepath.Rel(filepath.Join(tree.dest, "opt/x"), path)
		if err != nil {
			return err
		}
		if !isCompletion(name) || want == nil {
			got = append(got, name)
		}
		if strings.HasSuffix(name, ".service") {
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), "\nExecStart=/opt/x/bin/headrace ") {
				tree.Errorf("%s does not start /opt/x/bin/headrace (%v):\n%s", name, err, text)
			}
		}
		return nil
	})
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		tree.Errorf("installed %q\nwant      %q", got, want)
	}
}

func isCompletion(name string) bool {
	return strings.Contains(name, "completion") || strings.Contains(name, "site-functions")
}
