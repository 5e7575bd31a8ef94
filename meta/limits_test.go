package meta

import (
	"fmt"
	"strings"
	"testing"
)

// TestNamesOfWho: names of users and groups are bounded, as they are kept with each file, and inherited.
func TestNamesOfWho(t *testing.T) {
	b := newBench(t)
	b.mkdir("/d")
	long := strings.Repeat("x", MostWho+1)
	b.refused(root, &SetOwner{Path: "/d", Owner: long}, "IllegalArgumentException", "the name of a user or group has 256 bytes")
	b.refused(root, &SetOwner{Path: "/d", Group: long}, "IllegalArgumentException", "the name of a user or group has 256 bytes")
	b.refused(root, &ChangeACL{Path: "/d", How: ModifyACL, Entries: []ACLEntry{{Default: true, Type: User, Name: long, Access: All}}}, "IllegalArgumentException", "the name of a user or group has 256 bytes")
	b.must(root, &ChangeACL{Path: "/d", How: ModifyACL, Entries: []ACLEntry{{Default: true, Type: User, Name: long[1:], Access: All}}})
	b.must(root, &SetOwner{Path: "/d", Owner: long[1:]})
}

// TestLooksRememberNothing: who counts or asks all that is below a directory has not all of it in memory.
func TestLooksRememberNothing(t *testing.T) {
	b := newBench(t)
	for i := range 20 {
		b.mkdir(fmt.Sprintf("/d/%d", i))
		for k := range 10 {
			b.write(root, b.open(root, fmt.Sprintf("/d/%d/f%d", i, k)).ID, 10)
		}
	}
	b.must(root, &SetOwner{Path: "/d", Owner: "alice"})
	s := open(newDraft(b.v), b.now, alice)
	way, err := s.resolve("/d", toRead)
	if err != nil {
		t.Fatal(err)
	}
	before := len(s.loaded)
	sum := &Summary{}
	if err := s.sum(way.last(), "/d", sum); err != nil || sum.Files != 200 || sum.Directories != 21 {
		t.Errorf("%+v, %v", sum, err)
	}
	if err := s.permitBelow(way.last(), "/d", Read, false); err != nil {
		t.Error(err)
	}
	if u := s.usage(way.last()); u.names != 221 {
		t.Errorf("%+v", u)
	}
	if n := len(s.loaded) - before; n > 0 {
		t.Errorf("%d files and directories are remembered", n)
	}
}
