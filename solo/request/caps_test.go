package request

import (
	"math"
	"os"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"headrace/serve"
	"headrace/wire"
)

// TestCaps: what a task may use is what its caller wants, and never more than the
// calling process has.
func TestCaps(t *testing.T) {
	var own unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &own); err != nil {
		t.Fatal(err)
	}
	me := serve.Caller{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), PID: os.Getpid()}
	unseen := serve.Caller{UID: me.UID + 1, GID: me.GID} // in another pid namespace
	most := Bounds{PIDs: 100}
	limit := func(name string, soft, hard uint64) []*wire.ResourceLimit {
		return []*wire.ResourceLimit{{Resource: name, Soft: soft, Hard: hard}}
	}
	for _, by := range []serve.Caller{me, unseen} {
		for _, c := range []struct {
			soft, hard         uint64
			wantSoft, wantHard uint64
		}{
			{100, 200, 100, 200},
			{100, math.MaxUint64, 100, own.Max},
			{math.MaxUint64, math.MaxUint64, own.Max, own.Max},
		} {
			var got Task
			if err := got.fillCaps(&wire.RunRequest{Limits: limit("nofile", c.soft, c.hard)}, by, most); err != nil {
				t.Fatal(err)
			}
			for _, l := range got.Spec.Limits {
				if l.Resource == unix.RLIMIT_NOFILE && (l.Soft != c.wantSoft || l.Hard != c.wantHard) {
					t.Errorf("%+v of %+v: %+v", c, by, l)
				}
			}
			if len(got.Spec.Limits) < 10 {
				t.Errorf("only %d limits: what the caller has is missing", len(got.Spec.Limits))
			}
		}
	}
	for nice, want := range map[int32]int{0: 0, 7: 7, 19: 19, -5: 0} {
		var got Task
		if err := got.fillCaps(&wire.RunRequest{Nice: proto.Int32(nice)}, unseen, most); err != nil {
			t.Fatal(err)
		}
		if *got.Spec.Nice != want {
			t.Errorf("an ordinary user asks for niceness %d and gets %d, want %d", nice, *got.Spec.Nice, want)
		}
	}
	for _, q := range []*wire.RunRequest{
		{Limits: limit("nonsense", 1, 1)}, {Limits: limit("nofile", 2, 1)}, {Limits: limit("", 1, 1)},
		{Nice: proto.Int32(20)}, {Nice: proto.Int32(-21)}, {Pids: -1}, {Pids: 101},
		{IoWeight: 101}, {IoWeight: 10001},
	} {
		if err := new(Task).fillCaps(q, unseen, most); err == nil {
			t.Errorf("%v was accepted", q)
		}
	}
	for weight, by := range map[uint32]serve.Caller{1: unseen, 100: unseen, 10000: me} {
		var got Task
		if err := got.fillCaps(&wire.RunRequest{IoWeight: weight}, by, most); err != nil || got.Record.IOWeight != int(weight) {
			t.Errorf("an I/O weight of %d becomes %d, %v", weight, got.Record.IOWeight, err)
		}
	}
	for what, pid := range map[string]int{"another user's process now": os.Getpid(), "gone": 1 << 30} {
		if err := new(Task).fillCaps(&wire.RunRequest{}, serve.Caller{UID: me.UID + 1, GID: me.GID, PID: pid}, most); err == nil {
			t.Errorf("the limits of a caller who is %s were taken for the daemon's", what)
		}
	}
	if err := new(Task).fillCaps(&wire.RunRequest{IoWeight: 10001}, me, most); err == nil {
		t.Error("an I/O weight of 10001 was accepted")
	}
}
