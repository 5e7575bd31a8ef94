package request

import (
	"strings"
	"testing"

	"headrace/serve"
	"headrace/wire"
)

// TestNameOfALongProgram: the name of a task that has been given none is not longer than one that is.
func TestNameOfALongProgram(t *testing.T) {
	for _, program := range []string{strings.Repeat("x", 100<<10), "/bin/" + strings.Repeat("é", 200), "/bin/true"} {
		got, err := Run(&wire.RunRequest{Argv: []string{program}}, serve.Caller{}, Bounds{Slots: 1, Memory: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		if name := got.Record.Name; serve.CheckLabel("name", name) != nil || name == "" || !strings.Contains(program, name) {
			t.Errorf("the name of %.10s... has %d bytes: %.40q", program, len(name), name)
		}
	}
}
