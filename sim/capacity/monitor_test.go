package capacity

import (
	"testing"
	"time"

	"headrace"
)

// TestPictureOfTheQueue: a dump waits as long as one that is nobody's in particular, also for those that were decided about before.
func TestPictureOfTheQueue(t *testing.T) {
	v := headrace.NodeView{Stores: []headrace.StoreView{{Name: "s", Queue: 10 * time.Second, Queues: []headrace.UserQueue{{User: 0, Wait: time.Minute}}}}}
	scene := picture(&node{v: &v}, 0)
	scene.Dump("s", 0, 5*time.Second)
	if got := scene.Node.Stores[0].QueueOf(0); got != 65*time.Second {
		t.Errorf("the next one waits for %v, want 1m5s", got)
	}
	if s := &v.Stores[0]; s.Queue != 10*time.Second || len(s.Queues) != 1 {
		t.Errorf("what it is a picture of was changed: %+v", s)
	}
}
