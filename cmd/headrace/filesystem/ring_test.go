package filesystem

import (
	"strings"
	"testing"

	"headrace/wire"
)

// TestNoRoom: of a node that has no room for what is to be there it is said what can be done.
func TestNoRoom(t *testing.T) {
	node := func(name string, room *wire.RingRoom) *wire.RingNode {
		return &wire.RingNode{Member: &wire.RingMember{Name: name, Host: "10.1.2.4", RpcPort: 8020}, Room: room}
	}
	r := ringOf(&wire.RingResponse{Nodes: []*wire.RingNode{node("aaaaaaaaaa", &wire.RingRoom{Homeless: 12, Remaining: 5e9}), node("b", nil)}})
	said := r.homeless()
	if len(said) != 1 || !strings.Contains(said[0], "node aaaaaaaa (10.1.2.4:8020): no room for 12 blocks") || !strings.Contains(said[0], "headrace dfs drain 10.1.2.4:8020") || !strings.Contains(said[0], "--new-disk") {
		t.Errorf("%q", said)
	}
}

// TestUnwritable: a directory that a node cannot write is named with what is said of it, on one line.
func TestUnwritable(t *testing.T) {
	r := ringOf(&wire.RingResponse{Nodes: []*wire.RingNode{{Member: &wire.RingMember{Name: "aaaaaaaaaa", Host: "10.1.2.4", RpcPort: 8020},
		Room: &wire.RingRoom{Unwritable: []*wire.RingDisk{{Dir: "/d\n", Cause: "the node ends: read-only file system: mount it again"}}}}, {}}})
	if said := r.unwritable(); len(said) != 1 || !strings.HasPrefix(said[0], "node aaaaaaaa (10.1.2.4:8020), directory /d") || strings.Contains(said[0], "\n") ||
		!strings.HasSuffix(said[0], "any more: the node ends: read-only file system: mount it again") {
		t.Errorf("%q", said)
	}
}

// TestDirectoryIsTold: of a directory of a disk that cannot be listed it is said that files of all paths may lack a copy.
func TestDirectoryIsTold(t *testing.T) {
	r := ringOf(&wire.RingResponse{Nodes: []*wire.RingNode{{Member: &wire.RingMember{Name: "aaaaaaaaaa"},
		Room: &wire.RingRoom{Gaps: 1, SomeGaps: []*wire.RingGap{{Dir: "/d", File: 7, From: -1, To: 1<<63 - 1, Cause: "input/output error"}}}}}})
	if said := r.gaps("/some/where"); len(said) != 1 || !strings.Contains(said[0], "blocks of all files in files/07") || !strings.Contains(said[0], "about one file of 256") {
		t.Errorf("%q", said)
	}
}
