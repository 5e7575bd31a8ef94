package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCountsARealRun(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"go.mod": "module sample\n\ngo 1.26\n",
		"good/good_test.go": `package good
import "testing"
func TestPlain(t *testing.T) {}
func TestSkipped(t *testing.T) { t.Skip("needs a unicorn") }
func TestParent(t *testing.T) {
	t.Run("a", func(t *testing.T) {})
	t.Run("b", func(t *testing.T) { t.Run("deep/er", func(t *testing.T) {}) })
}`,
		"bad/bad_test.go": `package bad
import "testing"
func TestPlain(t *testing.T) {}
func TestBroken(t *testing.T) { t.Error("two plus two is five") }
func TestOneOfTwo(t *testing.T) {
	t.Run("fine", func(t *testing.T) {})
	t.Run("wrong", func(t *testing.T) { t.Error("wrong indeed") })
}
func TestParentOnly(t *testing.T) {
	t.Run("fine", func(t *testing.T) {})
	t.Error("after the subtests")
}`,
		"broken/broken_test.go": "package broken\nvar x int = \"not a number\"\n",
		"exits/exits_test.go": `package exits
import ("os"; "testing")
func TestMain(m *testing.M) { os.Exit(3) }
func TestNever(t *testing.T) {}`,
		"none/none.go": "package none\n",
	}
	for name, body := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-json", "./...")
	cmd.Dir = dir
	raw, err := cmd.Output()
	if err == nil {
		t.Fatal("go test succeeded on a broken module")
	}
	out, ok := count(t, string(raw))
	if ok {
		t.Error("a run with failures counts as good")
	}
	// passed: good 3, bad 3; failed: bad 3, the build, the early exit.
	if want := "\n6 passed, 5 failed, 1 skipped\n"; !strings.HasSuffix(out, want) {
		t.Errorf("want it to end with %q, got:\n%s", want, out)
	}
	for _, want := range []string{"two plus two is five", "wrong indeed", "after the subtests", "needs a unicorn", "broken_test.go:2", "[no tests]"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

func TestInputThatProvesNothing(t *testing.T) {
	cases := map[string]string{
		"empty":            "",
		"not JSON":         "go: cannot find main module\n",
		"torn off":         `{"Action":"pass","Package":"a","Test":"TestA"}` + "\n" + `{"Action":"output","Package":"b","Output":"hello\n"}`,
		"only skipped":     `{"Action":"skip","Package":"a","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"a"}`,
		"failed, no tests": `{"Action":"fail","Package":"a"}`,
	}
	for name, in := range cases {
		t.Run(name, func(t *testing.T) {
			if out, ok := count(t, in); ok {
				t.Errorf("counts as good:\n%s", out)
			}
		})
	}
}

func TestAllGood(t *testing.T) {
	out, ok := count(t, `{"Action":"pass","Package":"a","Test":"TestA","Elapsed":0.1}
{"Action":"pass","Package":"a","Elapsed":0.2}
`)
	if !ok || !strings.HasSuffix(out, "1 passed, 0 failed, 0 skipped\n") {
		t.Errorf("ok=%v:\n%s", ok, out)
	}
}

func count(t *testing.T, in string) (string, bool) {
	t.Helper()
	var b strings.Builder
	c := newCounter(&b)
	if err := c.read(strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	ok := c.finish()
	return b.String(), ok
}
