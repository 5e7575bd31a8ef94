package rig

import "testing"

func TestAmount(t *testing.T) {
	if got := Amount(10, 1, 30, 2, 6); got != 110 {
		t.Errorf("%d, want 110", got)
	}
	if got := Amount(10, 1, 30, 2, 0.1); got != 10 {
		t.Errorf("for less than the small amount takes: %d, want 10", got)
	}
	if got := Amount(10, 2, 30, 1, 6); got != 30 {
		t.Errorf("from times that make no sense: %d, want 30", got)
	}
}
