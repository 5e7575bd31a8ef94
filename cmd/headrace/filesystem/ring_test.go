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
