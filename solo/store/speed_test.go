package store

import (
	"testing"
	"time"

	"headrace/solo/journal"
)

func TestLearning(t *testing.T) {
	s := &Store{Measure: journal.Measure{Write: 1e9, Read: 1e9, DumpOverhead: 100 * time.Millisecond}}
	for range 30 {
		s.LearnDump(200e6, 200e6, 2*time.Second)
	}
	if s.Write < 100e6 || s.Write > 110e6 {
		t.Errorf("after dumps of 200 MB in 2 s the bandwidth is %.0f", s.Write)
	}
	before := s.Write
	s.LearnDump(1e6, 2e9, time.Second) // an incremental one says nothing about it
	if s.Write != before {
		t.Error("a small part of a large memory changed the bandwidth")
	}
	for range 30 {
		s.LearnDump(1e6, 1e6, 300*time.Millisecond)
	}
	if s.DumpOverhead < 280*time.Millisecond || s.DumpOverhead > 300*time.Millisecond {
		t.Errorf("overhead %v after small dumps of 300 ms", s.DumpOverhead)
	}
}
