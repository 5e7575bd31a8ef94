package demo

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace/lab/labtest"
	"headrace/lab/trial"
)

func TestQuickDemo(t *testing.T) {
	tree := t.TempDir()
	var text strings.Builder
	for i := range 60000 {
		text.WriteString("the quick brown fox jumps over ")
		text.WriteString(time.Duration(i).String())
		text.WriteByte('\n')
	}
	if err := os.WriteFile(filepath.Join(tree, "a.txt"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var out bytes.Buffer
	o := Options{Size: 96 << 20, Text: tree, Dir: dir, Programs: labtest.BuiltPrograms(t), HTML: filepath.Join(dir, "out", "demo.html"),
		Output: trial.Output{Stdout: &out, Stderr: io.Discard}}
	if err := Show(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	labtest.LeftNothing(t, dir)
	for _, want := range []string{"wait", "kill", "suspend", "checkpoint", "cost", o.HTML, "The answer, the same every time: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "FAILED") {
		t.Error(out.String())
	}
	if page, err := os.ReadFile(o.HTML); err != nil || !bytes.Contains(page, []byte("<svg")) {
		t.Errorf("the page: %d bytes, %v", len(page), err)
	}
}

func TestDemoOptionsAreChecked(t *testing.T) {
	if err := Show(t.Context(), Options{Size: 3}); err == nil {
		t.Error("a demo of 3 bytes was accepted")
	}
}
