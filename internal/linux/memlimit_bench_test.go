package linux

import "testing"

// BenchmarkOwnMemory: what it takes to look how much memory is left, each time anew and by who asks often.
func BenchmarkOwnMemory(b *testing.B) {
	b.Run("anew", func(b *testing.B) {
		for b.Loop() {
			if _, err := ownCgroupMemory("/"); err != nil {
				b.Fatal(err)
			}
		}
	})
	var own OwnMemory
	b.Run("often", func(b *testing.B) {
		for b.Loop() {
			if _, err := own.Cgroup(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
