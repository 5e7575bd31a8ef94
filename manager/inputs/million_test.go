package inputs

import (
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"headrace/residency"
	"headrace/wire"
)

// TestMillionBlocks: whoever registers as many blocks as an application may, then others instead,
// and then stays away does not keep root waiting for the list of jobs.
func TestMillionBlocks(t *testing.T) {
	in, _, _, _ := warmTwo(t)
	ended := make(chan error, 1)
	start, began := used(t), time.Now()
	go func() {
		for _, n := range []int64{499_999, 50_000} {
			q := &wire.FollowRequest{User: "mallory", Application: "flood",
				Add: []*wire.FollowedBlocks{followed(n, n, "a.example", "b.example")}}
			if _, err := in.Follow(t.Context(), q); err != nil {
				ended <- fmt.Errorf("%d blocks: %w", n, err)
				return
			}
		}
		q := &wire.FollowRequest{User: "mallory", Application: "more", Add: []*wire.FollowedBlocks{followed(0, 500_001)}}
		if _, err := in.Follow(t.Context(), q); connect.CodeOf(err) != connect.CodeResourceExhausted {
			ended <- fmt.Errorf("more than an application may have: %w", err)
			return
		}
		in.forget(residency.App{Owner: "mallory", Name: "flood"})
		in.forget(residency.App{Owner: "mallory", Name: "more"})
		ended <- nil
	}()
	var worked, longest time.Duration
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			// 1 s is promised; the race detector takes several times as long. Done in one piece, root has waited for more than a third of it. A wait for what takes no
			// work shows in the time, of which a busy machine takes as much from all.
			all, took := used(t)-start, time.Since(began)
			if worked > 3*time.Second || worked > all/8 || longest > took/2 {
				t.Errorf("root has waited for the list of jobs while %v of %v were worked, and for %v of %v", worked, all, longest, took)
			} else {
				t.Logf("root has waited while %v of %v were worked, and for %v of %v", worked, all, longest, took)
			}
			if left := in.memory.Totals(); left.Interests != 0 {
				t.Errorf("%+v is left", left)
			}
			return
		default:
		}
		before, asked := used(t), time.Now()
		if _, err := in.Inputs(t.Context(), &wire.InputsRequest{User: "root"}); err != nil {
			t.Fatal(err)
		}
		worked, longest = max(worked, used(t)-before), max(longest, time.Since(asked))
	}
}

// used is the time that processors have worked for this process: who waits for what is done here waits at least half as long on two of them, and what
// else the machine does is not in it.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
