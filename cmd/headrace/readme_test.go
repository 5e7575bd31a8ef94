package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestExampleOfREADME does what README shows of the simulator with tasks of one's own:
// it can be copied, and says the same.
func TestExampleOfREADME(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	const write, simulate = `    $ printf '%s\n' `, "    $ headrace "
	_, rest, found := strings.Cut(string(text), write)
	if !found {
		t.Fatalf("README has no line that begins with %q", write)
	}
	rows, rest, _ := strings.Cut(rest, " > tasks.csv\n")
	call, shown, found := strings.Cut(strings.TrimPrefix(rest, simulate), "\n")
	if !found || !strings.HasPrefix(rest, simulate) {
		t.Fatalf("after that README has %.80q", rest)
	}
	shown, _, _ = strings.Cut(shown, "\n    $ ")
	t.Chdir(t.TempDir())
	if err := os.WriteFile("tasks.csv", []byte(strings.Join(strings.Fields(rows), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	if code := execute(t.Context(), strings.Fields(call), os.Stdin, &out, &said); code != 0 {
		t.Fatalf("headrace %s: %d, %s", call, code, &said)
	}
	lines := 0
	for line := range strings.Lines(shown) {
		if line = strings.TrimSpace(line); line == "..." {
			continue
		}
		if lines++; !strings.Contains(out.String(), line+"\n") {
			t.Errorf("README shows\n%s\nwhich is not in\n%s", line, &out)
		}
	}
	if lines < 4 {
		t.Errorf("README shows %d lines", lines)
	}
}
