package vfs

import (
	"testing"
)

func TestKeptFree(t *testing.T) {
	for size, want := range map[int64]int64{0: 0, 100e9: 5e9, 200e9: 10e9, 20e12: 10e9} {
		if got := KeptFree(size); got != want {
			t.Errorf("of %d bytes %d are kept free, want %d", size, got, want)
		}
	}
}

func TestSpareSpace(t *testing.T) {
	dir := t.TempDir()
	free, size, err := Space(dir)
	if err != nil || size <= 0 || free < 0 || free > size {
		t.Fatalf("%d bytes of %d are free, %v", free, size, err)
	}
	spare, err := SpareSpace(dir)
	if err != nil || spare > free || spare < 0 || spare == free && free > 0 {
		t.Errorf("%d of %d may be taken, %v", spare, free, err)
	}
	if _, err := SpareSpace(dir + "/none"); err == nil {
		t.Error("what is not there has room")
	}
}
