package workload

import (
	"testing"
	"unsafe"
)

func TestRates(t *testing.T) {
	p := Preempted{Tasks: 8, Preempted: 2, Preemptions: 5, Scheduled: 20}
	if p.Rate() != 0.25 || (Preempted{}).Rate() != 0 {
		t.Errorf("%v", p.Rate())
	}
}

func TestTaskIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Task{}); size > 104 {
		t.Errorf("a task takes %d bytes", size)
	}
}
