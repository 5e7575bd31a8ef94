package solo

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/data/datatest"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/serve"
	"headrace/wire"
)

// awaitKept waits until all of a file is kept in memory for what is named, or none of it for
// nobody.
func (b *bed) awaitKept(path string, by ...string) {
	b.t.Helper()
	for i := range by {
		by[i] += " of " + serve.UserName(linux.Self().UID)
	}
	state := func() (string, bool) {
		n, got := b.calls().PinnedBy(path)
		return fmt.Sprintf("%d bytes for %q", n, got), slices.Equal(got, by) && (n > 0) == (len(by) > 0)
	}
	testkit.Await(b.t, fmt.Sprintf("%s kept for %q", path, by), func() bool { _, ok := state(); return ok }, func() string { s, _ := state(); return s })
}

// TestRealImageIsReadAhead: the image of a checkpointed task that comes next is in memory
// until it is restored, also when the kernel has dropped it; while a user holds the task it
// is not.
func TestRealImageIsReadAhead(t *testing.T) {
	datatest.NeedCachestat(t)
	m := newMachine(t, policy.Checkpoint)
	if !m.image {
		t.Skip("without root or CRIU there are no checkpoints")
	}
	m.launch()
	gated, goOn := m.gated(40)
	low := m.run(headrace.Low, gated)
	m.awaitState(low, headrace.Running)
	high := m.run(headrace.High, func(q *wire.RunRequest) { q.Argv = []string{"/bin/sleep", "600"} })
	m.awaitState(low, headrace.Checkpointed)
	m.awaitState(high, headrace.Running)
	pages, err := filepath.Glob(filepath.Join(m.cfg.StateDir, "checkpoints", string(low), "*", "pages-1.img"))
	if err != nil || len(pages) != 1 {
		t.Fatalf("pages in %q, %v", pages, err)
	}
	reader := "the restore of task " + string(low)
	for range 2 {
		testkit.DropFile(t, pages[0])
		m.awaitKept(pages[0], reader)
		if _, err := m.tasks.Suspend(m.ctx(), &wire.VerbRequest{Id: string(low)}); err != nil {
			t.Fatal(err)
		}
		m.awaitKept(pages[0])
		if _, err := m.tasks.Resume(m.ctx(), &wire.VerbRequest{Id: string(low)}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.DropFile(t, pages[0])
	m.awaitKept(pages[0], reader)
	if _, err := m.tasks.Kill(m.ctx(), &wire.VerbRequest{Id: string(high), Grace: 0.001}); err != nil {
		t.Fatal(err)
	}
	goOn()
	m.awaitState(low, headrace.Done)
	m.calls().AwaitRequests()
	m.wantCount(low, 40)
}

// TestRestIsReadAhead: a task that started at once and was made to leave has what it has not
// read yet kept in memory, whether it was suspended or checkpointed, and until it ends.
func TestRestIsReadAhead(t *testing.T) {
	datatest.NeedCachestat(t)
	for _, c := range []struct {
		policy policy.Name
		away   headrace.TaskState
	}{{policy.Suspend, headrace.Suspended}, {policy.Checkpoint, headrace.Checkpointed}} {
		t.Run(string(c.policy), func(t *testing.T) {
			b := newBed(t, c.policy)
			b.start()
			dir := testkit.OpenDir(t)
			first := testkit.ColdFile(t, dir, "a", datatest.FileSize, 0o644)
			second := testkit.ColdFile(t, dir, "b", datatest.FileSize, 0o644)
			testkit.DropFile(t, first)
			testkit.DropFile(t, second)
			var st unix.Stat_t
			if err := unix.Stat(first, &st); err != nil {
				t.Fatal(err)
			}
			low := b.run(headrace.Low, never, func(q *wire.RunRequest) { q.Input = &wire.Input{Paths: []string{dir}} })
			b.awaitState(low, headrace.Running)
			b.world.with(low, func(th *thing) {
				th.positions = map[linux.FileID]int64{{Dev: uint64(st.Dev), Ino: st.Ino}: st.Size}
			})
			b.awaitKept(second)
			high := b.run(headrace.High)
			b.awaitState(low, c.away)
			b.awaitKept(second, "task "+string(low))
			b.awaitKept(first)
			b.finish(high, 0)
			b.awaitState(low, headrace.Running)
			b.awaitKept(second, "task "+string(low))
			b.finish(low, 0)
			b.awaitState(low, headrace.Done)
			b.awaitKept(second)
		})
	}
}
