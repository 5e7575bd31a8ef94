package checkpoint

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"headrace/internal/crash"
)

// exported reads what Export gives.
func exported(t *testing.T, im *Image) (names []string, files map[string][]byte) {
	t.Helper()
	files = make(map[string][]byte)
	err := im.Export(func(name string, f *os.File) error {
		b, err := io.ReadAll(f)
		names, files[name] = append(names, name), b
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, files
}

func importFiles(s *Store, t *testing.T, task string, names []string, files map[string][]byte) (*Image, error) {
	return s.Import(t.Context(), task, func(create func(string) (*os.File, error)) error {
		for _, name := range names {
			f, err := create(name)
			if err != nil {
				return err
			}
			_, err = f.Write(files[name])
			if err = errors.Join(err, f.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestExportImport: a chain that has moved to another store, under another name, is
// restored, and built on, as in its own.
func TestExportImport(t *testing.T) {
	for name, o := range map[string]Options{"plain": {}, "compressed": {Compress: true}} {
		t.Run(name, func(t *testing.T) {
			from, to := openStore(t, o), openStore(t, o)
			var im *Image
			for i := range 3 {
				im = checkpoint(t, from, "task", crashMemory(i+1), BeginOptions{})
			}
			if im.Chain != 3 {
				t.Fatalf("chain of %d", im.Chain)
			}
			names, files := exported(t, im)
			checkpoint(t, to, "other", crashMemory(7), BeginOptions{}) // is replaced
			got, err := importFiles(to, t, "other", names, files)
			if err != nil {
				t.Fatal(err)
			}
			if got.Task != "other" || got.Seq != 3 || got.Chain != 3 || got.Total != im.Total {
				t.Errorf("imported %+v", got)
			}
			if err := got.Verify(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			compareMemory(t, restored(t, got), crashMemory(3))
			images, err := to.Images("other")
			if err != nil || len(images) != 3 {
				t.Errorf("%d images, %v; want 3", len(images), err)
			}
			next := checkpoint(t, to, "other", crashMemory(4), BeginOptions{})
			if next.Parent != 3 {
				t.Errorf("the next one builds on %d, want 3", next.Parent)
			}
			compareMemory(t, restored(t, next), crashMemory(4))
		})
	}
}

func TestImportRefuses(t *testing.T) {
	from := openStore(t, Options{})
	checkpoint(t, from, "task", crashMemory(1), BeginOptions{})
	im := checkpoint(t, from, "task", crashMemory(2), BeginOptions{})
	names, files := exported(t, im)
	without := func(prefix string) []string {
		var list []string
		for _, n := range names {
			if !strings.HasPrefix(n, prefix) {
				list = append(list, n)
			}
		}
		return list
	}
	for _, c := range []struct {
		why   string
		names []string
		want  string
	}{
		{"nothing", nil, "no image"},
		{"no parent", without("000001/"), "its parent"},
		{"no manifest", without("000002/manifest"), "imported"},
		{"no inventory", without("000002/" + inventoryName), inventoryName},
		{"outside", []string{"../x"}, "not the name"},
		{"below", []string{"000001/a/b"}, "not the name"},
		{"dots", []string{"000001/.."}, "not the name"},
		{"link", []string{"000001/parent"}, "not the name"},
		{"number", []string{"1/x"}, "not the name"},
		{"twice", append(names[:1:1], names[0]), "exists"},
	} {
		t.Run(c.why, func(t *testing.T) {
			s := openStore(t, Options{})
			_, err := importFiles(s, t, "task", c.names, files)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want something about %q", err, c.want)
			}
			if images, err := s.Images("task"); err != nil || len(images) != 0 {
				t.Errorf("left: %v, %v", images, err)
			}
		})
	}
}

const importEnv = "CHECKPOINT_TEST_IMPORT"

// TestImportChild is what dies.
func TestImportChild(t *testing.T) {
	dir := os.Getenv(importEnv)
	if dir == "" {
		t.Skip("runs only as a child of TestImportCrash")
	}
	from, err := Open(filepath.Join(dir, "from"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	to, err := Open(filepath.Join(dir, "to"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	images, err := from.Images("task")
	if err != nil {
		t.Fatal(err)
	}
	names, files := exported(t, images[len(images)-1])
	if _, err := importFiles(to, t, "task", names, files); err != nil {
		t.Fatal(err)
	}
}

// TestImportCrash: a chain that is not there whole is never used, not even its
// older images, which are of an earlier state of the task.
func TestImportCrash(t *testing.T) {
	for _, point := range []string{"checkpoint.import", "checkpoint.import:2", "checkpoint.import:3"} {
		t.Run(point, func(t *testing.T) {
			dir := t.TempDir()
			from, err := Open(filepath.Join(dir, "from"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				checkpoint(t, from, "task", crashMemory(i+1), BeginOptions{})
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestImportChild$")
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), crash.Env+"="+point, importEnv+"="+dir)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the child ended with %v, not by SIGKILL: %s", err, out)
			}
			to, err := Open(filepath.Join(dir, "to"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			images, err := to.Images("task")
			if err != nil {
				t.Fatal(err)
			}
			for _, im := range images {
				if im.Err == nil {
					t.Errorf("checkpoint %d looks usable", im.Seq)
				}
			}
			all, err := from.Images("task")
			if err != nil {
				t.Fatal(err)
			}
			names, files := exported(t, all[2])
			im, err := importFiles(to, t, "task", names, files)
			if err != nil {
				t.Fatal(err)
			}
			compareMemory(t, restored(t, im), crashMemory(3))
		})
	}
}
