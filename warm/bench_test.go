package warm

import (
	"fmt"
	"testing"

	"headrace"
	"headrace/disk"
	"headrace/policy/prefetch"
)

// BenchmarkChoose is what each block costs beside its reading, by the number of
// requests that wait.
func BenchmarkChoose(b *testing.B) {
	for _, n := range []int{1, 10, 1000} {
		b.Run(fmt.Sprintf("requests=%d", n), func(b *testing.B) {
			w := &world{}
			e, err := New(Config{Cache: nullCache{}, Disks: &w.disks, Devices: w, Block: testBlock})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			e.mu.Lock()
			l := e.lane(disk.Device{ID: 1})
			l.running = true // by nobody
			for i := range n {
				q := Request{ID: RequestID(fmt.Sprint(i)), Job: headrace.JobID(fmt.Sprint(i)), Seq: uint64(i)}
				for k := range int32(100) {
					q.Files = append(q.Files, File{Path: fmt.Sprintf("/data/%d/%d", i, k), Size: 4096})
				}
				r, err := newRequest(q, testBlock)
				if err != nil {
					b.Fatal(err)
				}
				for k := range int32(100) {
					l.portion(r).add([]int32{k})
				}
			}
			e.mu.Unlock()
			b.ReportAllocs()
			for b.Loop() {
				if a := l.choose(); a.do != prefetch.Migrate {
					b.Fatal(a)
				}
			}
		})
	}
}
