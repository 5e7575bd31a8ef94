package solo

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"headrace"
	"headrace/internal/accounts"
	"headrace/policy"
	"headrace/wire"
)

// userFiles has the accounts of this process be those of files that a test writes: passwd, with root before it, group and subuid.
func userFiles(t *testing.T) (write func(passwd, group, subuid string)) {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	here := accounts.Here
	accounts.Here = accounts.New(dir, "")
	t.Cleanup(func() { accounts.Here = here })
	return func(passwd, group, subuid string) {
		for name, text := range map[string]string{"passwd": "root:x:0:0::/:/bin/sh\n" + passwd, "group": group, "subuid": subuid} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRightsOfTheDay: a task that has waited has the groups that its user has when it starts, and does not run as somebody
// else who has the number by then. One whose user nobody knows waits.
func TestRightsOfTheDay(t *testing.T) {
	write := userFiles(t)
	const bob = "bob:x:4001:4001::/:/bin/sh\n"
	write(bob, "payroll:x:5000:bob\nstaff:x:5001:bob\n", "")
	b := newBed(t, policy.Checkpoint)
	b.cfg.Slots = 4
	b.start()
	groups := func(id headrace.TaskID) (g []uint32) {
		b.world.with(id, func(th *thing) { g = th.spec.Groups })
		return g
	}
	resume := func(id headrace.TaskID, want connect.Code) {
		t.Helper()
		if _, err := b.tasks.Resume(b.ctx(), &wire.VerbRequest{Id: string(id)}); connect.CodeOf(err) != want {
			t.Errorf("resume: %v", err)
		}
	}
	waited, saved, renamed := b.run(headrace.Normal, as("bob"), held), b.run(headrace.Normal, as("bob")), b.run(headrace.Normal, as("bob"), held)
	b.awaitState(saved, headrace.Running)
	if _, err := b.tasks.Checkpoint(b.ctx(), &wire.VerbRequest{Id: string(saved)}); err != nil {
		t.Fatal(err)
	}

	write("", "", "")
	resume(waited, connect.CodeUnavailable)
	b.await(waited, "waiting for its user", func(w *wire.Task) bool { return strings.Contains(w.Reason, "until its user is known") })
	write(bob, "staff:x:5001:bob\n", "")
	b.awaitState(waited, headrace.Running)
	if got := groups(waited); !slices.Equal(got, []uint32{4001, 5001}) {
		t.Errorf("it was started with the groups %v", got)
	}

	if got, err := b.tasks.Restore(b.ctx(), &wire.VerbRequest{Id: string(saved)}); err == nil {
		t.Errorf("what has a group that its user has not was restored: %v", got)
	}
	if s := b.awaitState(saved, headrace.Checkpointed); !s.Held || !strings.Contains(s.Reason, "group 5000") {
		t.Errorf("it waits: %v", s)
	}
	write(bob, "payroll:x:5000:bob\nstaff:x:5001:bob\n", "")
	if _, err := b.tasks.Restore(b.ctx(), &wire.VerbRequest{Id: string(saved)}); err != nil {
		t.Errorf("with the group it had: %v", err)
	}

	write("alice:x:4001:4001::/:/bin/sh\n", "", "")
	resume(renamed, connect.CodeFailedPrecondition)
	if f := b.awaitState(renamed, headrace.Failed); !strings.Contains(f.Reason, "is alice now") {
		t.Errorf("another's by now: %v", f)
	}
	if got := groups(renamed); got != nil {
		t.Errorf("it was started as another, with the groups %v", got)
	}
}
