package tracetest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headrace/trace/native"

	"headrace/trace/input"
	"headrace/trace/workload"
)

// Reader is the function by which a format is read.
type Reader = func(m *input.Meter, name string, g workload.Given, part workload.Part, to workload.Sink) (workload.About, error)

// Write writes files below a new directory, and returns that.
func Write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Open reads a file or directory. What is changed in memory is nothing, if given does not
// say otherwise.
func Open(t testing.TB, read Reader, name string, g workload.Given, part workload.Part) (*workload.Workload, error) {
	t.Helper()
	if g.Dirty == 0 {
		g.Dirty = -1
	}
	if part.Tasks == 0 {
		part.Tasks = 10_000
	}
	return workload.Gather(part, func(to workload.Sink) (workload.About, error) {
		return read(input.NewMeter(t.Context(), nil), name, g, part, to)
	})
}

// Text reads a file that has this text.
func Text(t testing.TB, read Reader, text string, g workload.Given) (*workload.Workload, error) {
	t.Helper()
	return Open(t, read, filepath.Join(Write(t, map[string]string{"file": text}), "file"), g, workload.Part{})
}

// Lines returns the tasks of a workload, a line for each, with what they refer to by name:
//
//	job/index at SUBMIT for RUN priority P, C cpus, M MiB[, USER][, N RESOURCE][, stage S[ after A]][, gang G]
func Lines(t testing.TB, w *workload.Workload) string {
	t.Helper()
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, k := range w.Tasks {
		fmt.Fprintf(&b, "%s/%d at %v for %v priority %d, %v cpus, %v MiB", w.Jobs[k.Job], k.Index, k.Submit, k.Run, int(k.Priority), k.CPUs, float64(k.Memory)/(1<<20))
		if k.User > 0 {
			fmt.Fprintf(&b, ", %s", w.Users[k.User-1])
		}
		if k.Need > 0 {
			for r, n := range w.Needs[k.Need-1] {
				if n > 0 {
					fmt.Fprintf(&b, ", %v %s", n, w.Resources[r])
				}
			}
		}
		if k.Stage > 0 {
			fmt.Fprintf(&b, ", stage %d", k.Stage-1)
			if after := w.Stages[k.Stage-1].After; len(after) > 0 {
				fmt.Fprintf(&b, " after %v", after)
			}
		}
		if k.Gang > 0 {
			fmt.Fprintf(&b, ", gang %d", k.Gang)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Same compares the tasks of a workload with what they are meant to be, in the form of
// Lines, and looks for notes.
func Same(t testing.TB, w *workload.Workload, want string, notes ...string) {
	t.Helper()
	want = strings.TrimLeft(want, "\n")
	if got := Lines(t, w); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	all := strings.Join(w.Notes, "\n")
	for _, n := range notes {
		if !strings.Contains(all, n) {
			t.Errorf("the notes\n%s\ndo not say %q", all, n)
		}
	}
}

// Refused reads texts that are wrong: each is meant to be refused with this error, at its
// beginning or after the name of the file.
func Refused(t *testing.T, read Reader, texts map[string]string) {
	t.Helper()
	for text, says := range texts {
		if _, err := Text(t, read, text, workload.Given{}); err == nil || !strings.Contains(err.Error(), "trace: "+says) {
			t.Errorf("%.200q: %v; want %s", text, err, says)
		}
	}
}

// Fuzz reads any text in a file: what is not refused keeps what a workload promises, and can
// be written as CSV. The lines of errors are in the file.
func Fuzz(f *testing.F, read Reader, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	name := filepath.Join(f.TempDir(), "file")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := Open(t, read, name, workload.Given{}, workload.Part{Names: true})
		var se *input.SyntaxError
		switch {
		case errors.As(err, &se):
			if se.Line < 1 || se.Line > strings.Count(text, "\n")+1 {
				t.Fatalf("%q: %v", text, err)
			}
		case err == nil:
			if err := cmp.Or(w.Check(), native.Write(io.Discard, w)); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}
