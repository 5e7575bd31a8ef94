package google

import "testing"

func BenchmarkGoogleFold(b *testing.B) {
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		f := NewFold(Options{}, 0, 0)
		events := func(yield func(Event, error) bool) {
			for i := range 200_000 {
				for k, kind := range []Kind{Submit, Schedule, Finish} {
					e := at(i/10+k, kind, int64(i/50), 0)
					e.Task, e.Machine = int32(i%50), int64(i%12000+1)
					if !yield(e, nil) {
						return
					}
				}
			}
		}
		for range f.Tasks(events) {
			n++
		}
	}
	b.ReportMetric(float64(3*n)/b.Elapsed().Seconds(), "events/s")
}
