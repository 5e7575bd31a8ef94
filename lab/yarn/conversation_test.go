package yarn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who waits for steps of a job, or for containers that give way to it, is told at once that it has come to its end.
func TestJobIsOver(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	must(0, os.WriteFile(out, []byte(`{"event":"submitted","job":"runs"}
{"event":"submitted","job":"broken"}
{"event":"broken","job":"broken","reason":"it is still ACCEPTED"}
{"event":"finished","job":"finished"}
`), 0o600))(t)
	all := &jobs{Masters: &Masters{&conversation{run: &Run{out: out}, jobs: map[string][]Event{}}}}
	for name, want := range map[string]string{"runs": "", "broken": "job broken: it is over: broken it is still ACCEPTED", "finished": "job finished: it is over: finished"} {
		err := (&job{jobs: all, name: name}).over()
		if (err == nil) != (want == "") || err != nil && strings.TrimSpace(err.Error()) != want {
			t.Errorf("the job that %s: %v, want %q", name, err, want)
		}
	}
}
