package fileset

import "testing"

func TestChanged(t *testing.T) {
	was := Identity{Dev: 1, Ino: 2, Size: 10, Mtime: 5}
	for _, c := range []struct {
		now  Identity
		want bool
	}{
		{was, false}, {Identity{1, 2, 11, 6}, false}, {Identity{1, 2, 9, 5}, true},
		{Identity{1, 2, 10, 6}, true}, {Identity{1, 3, 10, 5}, true}, {Identity{2, 2, 10, 5}, true},
	} {
		if got := was.Changed(c.now); (got != "") != c.want {
			t.Errorf("%v: %q", c.now, got)
		}
	}
}
