package sim

import (
	"testing"

	"headrace/policy"
	"headrace/trace"
)

// Tasks simulated in a second of a day like Google's, under each policy. For figures
// to be compared: -cpu 1.
func BenchmarkGoogleDay(b *testing.B) {
	w, err := trace.Open(b.Context(), "synthetic:google-day", trace.OpenOptions{Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []policy.Name{policy.Kill, policy.Suspend, policy.Checkpoint, policy.Adaptive, policy.Cost} {
		b.Run(string(name), func(b *testing.B) {
			c := DefaultConfig()
			c.Nodes, c.Node.CPUs, c.Node.Memory, c.Node.Swap = w.Cluster.Nodes, w.Cluster.CPUs, w.Cluster.Memory, w.Cluster.Memory
			c.Policy.Policy = name
			m := DefaultMeasurements()
			if err := m.Apply(&c, "ssd"); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := Run(b.Context(), w, c, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(w.Tasks)*b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}
