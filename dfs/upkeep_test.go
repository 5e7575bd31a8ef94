package dfs

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestNews: what fails again and again is told once a minute, what fails otherwise at once.
func TestNews(t *testing.T) {
	var n news
	now := time.Now()
	is := func(want bool, what, err string, after time.Duration) {
		t.Helper()
		if got := n.is(what, errors.New(err), now.Add(after)); got != want {
			t.Errorf("%s: %s after %v: %v", what, err, after, got)
		}
	}
	is(true, "delete at n1", "away", 0)
	is(false, "delete at n1", "away", time.Second)
	is(true, "delete at n2", "away", time.Second)
	is(true, "delete at n1", "full", 2*time.Second)
	is(true, "delete at n1", "away", 3*time.Second)
	is(true, "delete at n1", "away", 3*time.Second+oldNews)
	for i := range 2 * mostNews {
		n.is(fmt.Sprint(i), errors.New("away"), now)
	}
	if len(n.told) > mostNews {
		t.Errorf("%d are remembered", len(n.told))
	}
}
