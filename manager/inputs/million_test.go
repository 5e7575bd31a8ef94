package inputs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"headrace/residency"
	"headrace/warm/master"
	"headrace/wire"
)

// TestMillionBlocks: whoever registers as many blocks as an application may, then others instead,
// and then stays away does not keep others waiting for long.
func TestMillionBlocks(t *testing.T) {
	in, _, _, _ := warmTwo(t)
	inTurns(t, in, func() error {
		for _, n := range []int64{499_999, 50_000} {
			q := &wire.FollowRequest{User: "mallory", Application: "flood",
				Add: []*wire.FollowedBlocks{followed(n, n, "a.example", "b.example")}}
			if _, err := in.Follow(t.Context(), q); err != nil {
				return fmt.Errorf("%d blocks: %w", n, err)
			}
		}
		q := &wire.FollowRequest{User: "mallory", Application: "more", Add: []*wire.FollowedBlocks{followed(0, 500_001)}}
		if _, err := in.Follow(t.Context(), q); connect.CodeOf(err) != connect.CodeResourceExhausted {
			return fmt.Errorf("more than an application may have: %w", err)
		}
		in.forget(residency.App{Owner: "mallory", Name: "flood"})
		in.forget(residency.App{Owner: "mallory", Name: "more"})
		return nil
	})
	if left := in.memory.Totals(); left.Interests != 0 {
		t.Errorf("%+v is left", left)
	}
}

// TestLargeJob: whoever asks where the blocks of a large job are, and ends it, does not keep others waiting for long.
func TestLargeJob(t *testing.T) {
	in := newInputs(t, Config{})
	const blocks = 200_000
	node := newNode(t, in, "a")
	node.budget = 1 << 40
	node.settle()
	job := master.Job{Facts: master.Facts{Name: master.Name{Owner: "mallory", Job: "j"}}, Files: []master.File{{Name: "f", Blocks: blocksOf(0, blocks, "a.example")}}}
	in.mu.Lock()
	err := in.master.Migrate(job, time.Now())
	in.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for range blocks/50_000 + 1 {
		in.look(time.Now())
	}
	inTurns(t, in, func() error {
		for range 5 {
			res, err := in.Places(t.Context(), &wire.PlacesRequest{User: "mallory", Job: "j", Paths: []string{"f"}})
			if err != nil || len(res.Files) != 1 || len(res.Files[0].Hosts) != blocks || res.Files[0].Hosts[blocks-1] != "a.example" {
				return fmt.Errorf("%d files, %w", len(res.GetFiles()), err)
			}
		}
		_, err := in.Cool(t.Context(), &wire.CoolInputsRequest{User: "mallory", Jobs: []string{"j"}})
		in.tidy()
		return err
	})
	if left := in.master.Totals(); left.Blocks+left.Jobs != 0 || left.Queued != 0 {
		t.Errorf("%+v is left", left)
	}
}

// TestLargeJobComes: whoever has a large job taken in, anew and once more, does not keep others waiting for long.
func TestLargeJobComes(t *testing.T) {
	in := newInputs(t, Config{})
	const blocks = 499_999
	job := master.Job{Facts: master.Facts{Name: master.Name{Owner: "mallory", Job: "j"}}, Files: []master.File{{Name: "f", Blocks: blocksOf(0, blocks, "a.example", "b.example")}}}
	inTurns(t, in, func() error { return errors.Join(migrate(in, job), migrate(in, job)) })
	if is := in.master.Totals(); is.Blocks != blocks || is.Jobs != 1 {
		t.Errorf("%+v is there", is)
	}
}

// TestPlacesInTurn: of one user one question about places is answered at a time.
func TestPlacesInTurn(t *testing.T) {
	in := newInputs(t, Config{})
	end, err := in.places.Begin(t.Context(), "mallory")
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = in.Places(gone, &wire.PlacesRequest{User: "mallory", Job: "j", Paths: []string{"f"}})
	wantCode(t, "another", err, connect.CodeCanceled)
	_, err = in.Places(t.Context(), &wire.PlacesRequest{User: "alice", Job: "j", Paths: []string{"f"}})
	wantCode(t, "one of another user", err, connect.CodeNotFound)
	end()
	_, err = in.Places(t.Context(), &wire.PlacesRequest{User: "mallory", Job: "j", Paths: []string{"f"}})
	wantCode(t, "the next", err, connect.CodeNotFound)
}

// inTurns does something and checks that others get their turn in it: that the mutex is never held for much of the work. That is counted
// in time of the processor, on one thread, so that it does not depend on what else the machine does.
func inTurns(t *testing.T, in *Inputs, do func() error) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	since, longest := used(t), time.Duration(0)
	in.mu.Lock()
	in.mu.taken = func() { since = used(t) }
	in.mu.given = func() { longest = max(longest, used(t)-since) }
	in.mu.Unlock()
	start := used(t)
	if err := do(); err != nil {
		t.Error(err)
	}
	all := used(t) - start
	in.mu.Lock()
	in.mu.taken, in.mu.given = nil, nil
	in.mu.Unlock()
	if longest > all/8 { // in one piece it is more than a third
		t.Errorf("others have waited for %v of %v of work", longest, all)
	} else {
		t.Logf("others have waited for %v of %v of work", longest, all)
	}
}

// used is for how long a processor has worked on this thread.
func used(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Error(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
