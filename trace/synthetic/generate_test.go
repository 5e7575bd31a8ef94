package synthetic

import (
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"testing"
	"time"

	"headrace/trace/workload"
)

// near reports whether got is want but for a share of it.
func near(got, want, share float64) bool { return math.Abs(got-want) <= share*math.Abs(want) }

func generate(t *testing.T, d Day, seed uint64, scale float64) *workload.Workload {
	t.Helper()
	w, err := d.Generate(seed, scale)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// bandSums are what the tasks of a band come to.
type bandSums struct {
	jobs, tasks            int
	cores, coreHours       float64
	memory                 float64
	priorities, classTasks [12]int
}

func sumBands(w *workload.Workload) map[string]*bandSums {
	sums := map[string]*bandSums{}
	for _, name := range dayBands {
		sums[name] = &bandSums{}
	}
	last := int32(-1)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		s := sums[t.Priority.Band()]
		if t.Job != last {
			last = t.Job
			s.jobs++
		}
		s.tasks++
		s.cores += float64(t.CPUs)
		s.coreHours += float64(t.CPUs) * t.Run.Hours()
		s.memory += float64(t.Memory)
		s.priorities[t.Priority]++
		s.classTasks[t.Class]++
	}
	return sums
}

// TestGenerateMeetsItsParameters generates days of several sizes and counts.
func TestGenerateMeetsItsParameters(t *testing.T) {
	d := GoogleDay()
	for _, c := range []struct {
		seed  uint64
		scale float64
		// of sums, and of shares: few jobs cannot be divided finely
		tolerance, shares float64
	}{{1, 1, 0.001, 0.001}, {2, 1, 0.001, 0.001}, {3, 0.1, 0.001, 0.005}, {4, 0.01, 0.01, 0.1}} {
		t.Run(fmt.Sprintf("seed %d scale %v", c.seed, c.scale), func(t *testing.T) {
			w := generate(t, d, c.seed, c.scale)
			if len(w.Jobs) != int(float64(d.Jobs)*c.scale) || len(w.Tasks) != int(float64(d.Tasks)*c.scale) {
				t.Errorf("%d jobs, %d tasks", len(w.Jobs), len(w.Tasks))
			}
			if want := int(float64(d.Cluster.Nodes) * c.scale); w.Cluster.Nodes != want || w.Cluster.CPUs != d.Cluster.CPUs {
				t.Errorf("cluster %+v, want %d nodes", w.Cluster, want)
			}
			sums := sumBands(w)
			for i := range d.Bands {
				b, s := &d.Bands[i], sums[dayBands[i]]
				if want := b.Tasks * float64(d.Tasks) * c.scale; math.Abs(float64(s.tasks)-want) > 1 {
					t.Errorf("%s: %d tasks, want %v", b.Name, s.tasks, want)
				}
				if want := b.Jobs * float64(d.Jobs) * c.scale; math.Abs(float64(s.jobs)-want) > 1 {
					t.Errorf("%s: %d jobs, want %v", b.Name, s.jobs, want)
				}
				if want := b.Cores * c.scale; !near(s.cores, want, c.tolerance) {
					t.Errorf("%s: %v cores, want %v", b.Name, s.cores, want)
				}
				if want := b.CoreHours * c.scale; !near(s.coreHours, want, c.tolerance) {
					t.Errorf("%s: %v core-hours, want %v", b.Name, s.coreHours, want)
				}
				if want := b.Memory.Mean * float64(s.tasks); !near(s.memory, want, c.tolerance) {
					t.Errorf("%s: %v bytes, want %v", b.Name, s.memory, want)
				}
				for p, share := range b.Priorities {
					if got := s.priorities[int(dayFirst[i])+p]; math.Abs(float64(got)-share*float64(s.tasks)) > 2+c.shares*float64(s.tasks) {
						t.Errorf("%s: priority %d: %d of %d tasks, want a share of %v", b.Name, int(dayFirst[i])+p, got, s.tasks, share)
					}
				}
				for class, share := range b.Classes {
					if got := s.classTasks[class]; math.Abs(float64(got)-share*float64(s.tasks)) > 2+c.shares*float64(s.tasks) {
						t.Errorf("%s: class %d: %d of %d tasks, want a share of %v", b.Name, class, got, s.tasks, share)
					}
				}
			}
		})
	}
}

// TestGenerateOrder checks what Workload promises.
func TestGenerateOrder(t *testing.T) {
	d := GoogleDay()
	w := generate(t, d, 5, 0.1)
	job, index, submit := int32(-1), int32(0), time.Duration(0)
	for i := range w.Tasks {
		k := &w.Tasks[i]
		if k.Submit < submit {
			t.Fatalf("task %d: submitted at %v, after one at %v", i, k.Submit, submit)
		}
		if k.Job == job {
			index++
		} else {
			job, index = job+1, 0
		}
		if k.Job != job || k.Index != index {
			t.Fatalf("task %d: %d of job %d, want %d of job %d", i, k.Index, k.Job, index, job)
		}
		if submit = k.Submit; submit < 0 || submit >= 24*time.Hour || k.Run <= 0 || !(k.CPUs > 0) || k.Memory <= 0 || !(k.Grow >= 0) || !(k.Dirty >= 0) {
			t.Fatalf("task %d: %+v", i, *k)
		}
	}
	if int(job) != len(w.Jobs)-1 {
		t.Errorf("the last task is of job %d, of %d", job, len(w.Jobs))
	}
	if w.Jobs[0] != "job-00001" || w.Jobs[len(w.Jobs)-1] != fmt.Sprintf("job-%05d", len(w.Jobs)) {
		t.Errorf("jobs %s to %s", w.Jobs[0], w.Jobs[len(w.Jobs)-1])
	}
}

// fingerprint returns a hash of all that a generator decides.
func fingerprint(w *workload.Workload) uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, w.Name, w.Jobs, w.Cluster)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		fmt.Fprintln(h, t.Job, t.Index, int64(t.Submit), int64(t.Run), int(t.Priority), t.Class, t.CPUs, t.Memory, t.Grow, t.Dirty)
	}
	return h.Sum64()
}

// TestGenerateIsRepeatable has the hash of a small day. It changes with the
// generator and its parameters, and must not change with the machine.
func TestGenerateIsRepeatable(t *testing.T) {
	const want = uint64(0x96171bc2fa7d43c1)
	d := GoogleDay()
	first := fingerprint(generate(t, d, 7, 0.02))
	if first != want {
		t.Errorf("hash %#x, want %#x", first, want)
	}
	if again := fingerprint(generate(t, d, 7, 0.02)); again != first {
		t.Errorf("the same seed gave %#x and %#x", first, again)
	}
	if other := fingerprint(generate(t, d, 8, 0.02)); other == first {
		t.Error("another seed gave the same workload")
	}
}

func TestGenerateRefuses(t *testing.T) {
	for _, scale := range []float64{0, -1, math.NaN(), math.Inf(1), 1000} {
		if _, err := GoogleDay().Generate(1, scale); err == nil || !strings.Contains(err.Error(), "scale") {
			t.Errorf("scale %v: %v", scale, err)
		}
	}
	if _, err := GoogleDay().Generate(1, 1e-5); err == nil || !strings.Contains(err.Error(), "take a larger scale") {
		t.Errorf("scale 1e-5: %v", err)
	}
	if _, err := (Day{}).Generate(1, 1); err == nil {
		t.Error("an empty day: no error")
	}
}

func BenchmarkGenerate(b *testing.B) {
	d := GoogleDay()
	for _, scale := range []float64{1, 10} {
		b.Run(fmt.Sprintf("scale=%v", scale), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Generate(7, scale); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
