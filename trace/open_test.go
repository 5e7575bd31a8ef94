package trace

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"headrace/trace/google"
	"headrace/trace/input"
	"headrace/trace/swim"
	"headrace/trace/workload"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.tsv")
	bad := filepath.Join(dir, "bad.tsv")
	late := filepath.Join(dir, "late.csv")
	if err := errors.Join(os.WriteFile(late, []byte("job,submit_s,run_s\na,9e9,9e9\n"), 0o600), os.WriteFile(empty, nil, 0o600), os.WriteFile(bad, []byte("j\t3\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		source string
		o      OpenOptions
		says   string
	}{
		{"", OpenOptions{}, `trace "": want one of google2011:DIR, google2019:DIR`},
		{"swim:", OpenOptions{}, "want one of"},
		{"sw im:x", OpenOptions{}, "want one of"},
		{"swim:" + dir, OpenOptions{}, "is a directory, want a file"},
		{"swim:" + empty, OpenOptions{}, "no tasks: the trace, or its window, is empty"},
		{"swim:" + bad, OpenOptions{}, "bad.tsv: trace: line 1: 2 fields, want 6 to 9"},
		{"swim:" + dir + "/absent", OpenOptions{}, "no such file"},
		{"csv:" + empty, OpenOptions{}, "line 1: empty"},
		{"csv:" + late, OpenOptions{}, `late.csv: trace: line 2: run_s "9e9": too long after submit_s`},
		{"swim:facebook-day", OpenOptions{From: -1}, "want no negative values"},
		{"swim:facebook-day", OpenOptions{From: 1000 * time.Hour}, "no tasks"},
		{"swim:facebook-day", OpenOptions{MaxTasks: 1000}, "there are more than 1000 tasks: read a part of the trace (From, For), or raise MaxTasks if there is memory, 208 bytes for each"},
		{"google2011:x", OpenOptions{Google: google.Options{CPUs: -1}}, "want positive numbers"},
		{"synthetic:" + bad, OpenOptions{}, "bad.tsv"},
		{"synthetic:google-day", OpenOptions{Scale: -1}, "-1"},
	} {
		if w, err := Open(t.Context(), c.source, c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %+v: %v, %v; want %s", c.source, c.o, w != nil, err, c.says)
		}
	}
}

func TestOpenProgressAndCancel(t *testing.T) {
	name := filepath.Join(t.TempDir(), "t.tsv")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(f)
	const lines = 300_000
	for range lines {
		out.WriteString("j\t3\t1\t4\t5\t6\n")
	}
	if err := errors.Join(out.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	var last input.Progress
	calls := 0
	see := func(p input.Progress) {
		if p.Read < last.Read || p.Records < last.Records || p.Read > p.Total {
			t.Errorf("%+v after %+v", p, last)
		}
		last = p
		calls++
	}
	if _, err := DescribeSource(t.Context(), "swim:"+name, OpenOptions{Progress: see}); err != nil {
		t.Fatal(err)
	}
	if last.Read != last.Total || last.Total != 12*lines || last.Records != lines || calls < 4 {
		t.Errorf("%d calls, the last one %+v", calls, last)
	}
	last = input.Progress{}
	if _, err := Open(t.Context(), "google2011:"+googleTraceDir(t), OpenOptions{Progress: see}); err != nil || last.Records != 18 || last.Read > last.Total {
		t.Errorf("%+v, %v", last, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	last = input.Progress{}
	_, err = DescribeSource(ctx, "swim:"+name, OpenOptions{Progress: func(p input.Progress) {
		if see(p); p.Read > 1<<20 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || last.Records == lines {
		t.Errorf("%v after %+v", err, last)
	}
	for _, source := range []string{"swim:facebook-day", "synthetic:google-day"} {
		if _, err := Open(ctx, source, OpenOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// TestOpenNeedsLittleMemory holds a large workload, and counts what it took.
func TestOpenNeedsLittleMemory(t *testing.T) {
	if unsafe.Sizeof(workload.Task{}) != workload.TaskBytes {
		t.Errorf("a task has %d bytes", unsafe.Sizeof(workload.Task{}))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w := open(t, "swim:facebook-day", OpenOptions{})
	runtime.ReadMemStats(&after)
	n := uint64(len(w.Tasks))
	if all := (after.TotalAlloc - before.TotalAlloc) / n; n < 200_000 || all > 2*workload.TaskBytes+80 {
		t.Errorf("%d bytes were allocated for each of %d tasks", all, n)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := (after.HeapAlloc - before.HeapAlloc) / n; held > workload.TaskBytes+10 {
		t.Errorf("%d bytes are held for each of %d tasks", held, n)
	}
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkOpenFacebookDay(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Open(context.Background(), "swim:facebook-day", OpenOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestDescribeNeedsLittleMemory describes more than a million tasks.
func TestDescribeNeedsLittleMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d, err := DescribeSource(t.Context(), "swim:facebook-day", OpenOptions{MaxTasks: 1, Swim: swim.Options{Block: 16 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if all := after.TotalAlloc - before.TotalAlloc; d.Tasks < 1_000_000 || all > 8<<20 {
		t.Errorf("%d bytes were allocated for %d tasks", all, d.Tasks)
	}
}

// Samples of SWIM, below its package.
const (
	plainSample = "swim/testdata/FB-2009_samples_24_times_1hr_0_first50jobs.tsv"
	pathsSample = "swim/testdata/FB-2010_samples_24_times_1hr_withInputPaths_0_first60jobs.tsv"
)

func open(t *testing.T, source string, o OpenOptions) *workload.Workload {
	t.Helper()
	w, err := Open(t.Context(), source, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
