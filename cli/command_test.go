package cli

import "testing"

// TestBeforeForce: what is to be done is done once, and not if that was taken back.
func TestBeforeForce(t *testing.T) {
	done := map[string]int{}
	var forget func()
	forget = BeforeForce(func() { done["a"]++; forget() })
	BeforeForce(func() { done["b"]++ })()
	beforeForce()
	beforeForce()
	if done["a"] != 1 || done["b"] != 0 {
		t.Errorf("done: %v", done)
	}
}
