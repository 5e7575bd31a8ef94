package mend

import (
	"maps"
	"slices"
	"testing"
)

func TestAbandonedSessions(t *testing.T) {
	root := process{2, 0, 2}
	for name, c := range map[string]struct {
		list []process
		want []uint64
	}{
		"one session":          {[]process{root, {3, 2, 2}, {4, 3, 2}}, nil},
		"a leader":             {[]process{root, {3, 2, 3}, {4, 3, 3}}, nil},
		"an orphan of a group": {[]process{root, {3, 2, 3}, {5, 2, 3}}, nil},
		"daemons":              {[]process{root, {5, 2, 4}, {6, 5, 4}, {8, 2, 7}}, []uint64{4, 7}},
		"root not first":       {[]process{{5, 9, 4}, {9, 0, 9}}, []uint64{4}},
	} {
		got, abandoned := abandonedSessions(c.list)
		if got.parent != 0 || !slices.Equal(slices.Sorted(maps.Keys(abandoned)), c.want) {
			t.Errorf("%s: root %v, abandoned %v, want %v", name, got, abandoned, c.want)
		}
	}
}
