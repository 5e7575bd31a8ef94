package trace

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"headrace/trace/native"
	"headrace/trace/synthetic"
	"headrace/trace/workload"
)

// A generated workload, which this package did not collect, comes back as it was.
func TestCSVRoundTripOfADay(t *testing.T) {
	w, err := synthetic.GoogleDay().Generate(1, 0.02)
	if err != nil {
		t.Fatal(err)
	}
	got, err := reread(t, w)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Tasks, w.Tasks) || !slices.Equal(got.Jobs, w.Jobs) {
		t.Error("another one")
	}
}

// So does one of every kind of trace.
func TestCSVRoundTripOfTraces(t *testing.T) {
	for _, source := range []string{"swim:" + plainSample, "swim:" + pathsSample, "yarn:yarn/testdata", "google2011:" + googleTraceDir(t)} {
		w := open(t, source, OpenOptions{})
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
		got, err := reread(t, w)
		if err != nil {
			t.Fatal(err)
		}
		got.Name, got.Cluster, got.Outcome, got.Notes = w.Name, w.Cluster, w.Outcome, w.Notes
		if !reflect.DeepEqual(got, w) {
			t.Errorf("%s: another one", source)
		}
	}
}

// reread returns what Open makes of a workload that WriteCSV has written.
func reread(t *testing.T, w *workload.Workload) (*workload.Workload, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "w.csv")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(native.Write(f, w), f.Close()); err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), "csv:"+name, OpenOptions{})
}
