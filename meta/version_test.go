package meta

import (
	"strings"
	"testing"
)

// TestEncodeFor: a command is written as those know it who read the log, and refused when they do not know its operation.
func TestEncodeFor(t *testing.T) {
	for _, c := range []struct {
		op   Op
		most byte
		want byte // 0: refused
	}{
		{&Survey{Path: "/"}, Newest, version7}, {&Survey{Path: "/"}, version6, version6}, {&Survey{Path: "/"}, version3, 0},
		{&RemoveCachePool{Name: "p"}, version6, version5}, {&RemoveCachePool{Name: "p"}, version4, 0},
		{&RenewLeases{}, version5, version5}, {&Fsync{Path: "/f"}, Newest, version1},
	} {
		b, err := Command{Caller: root, Op: c.op}.EncodeFor(c.most)
		if c.want == 0 {
			if err == nil || !strings.Contains(err.Error(), "headrace dfs raise") {
				t.Errorf("%T for version %d: %v", c.op, c.most, err)
			}
			continue
		}
		if err != nil || b[0] != c.want {
			t.Errorf("%T for version %d: %v, %v", c.op, c.most, b, err)
			continue
		}
		if again, err := DecodeCommand(b); err != nil || again.rules() != c.want {
			t.Errorf("%T for version %d is read as %d, %v", c.op, c.most, again.rules(), err)
		}
	}
}
