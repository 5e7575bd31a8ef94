package headrace_test

import (
	"encoding/json"
	"testing"

	. "headrace"
)

// TestOperations has all that is known of each operation. The names are in records
// on disk and in the protocol: they never change.
func TestOperations(t *testing.T) {
	all := []struct {
		op         Operation
		name       string
		bringsBack bool
		leavesBy   Mechanism
	}{
		{Idle, "", false, Wait},
		{Starting, "starting", true, Wait},
		{Suspending, "suspending", false, Suspend},
		{Resuming, "resuming", true, Wait},
		{Checkpointing, "checkpointing", false, Checkpoint},
		{Restoring, "restoring", true, Wait},
		{Killing, "killing", false, Kill},
		{Archiving, "archiving", false, Wait},
		{TakingBack, "taking back", false, Wait},
		{PagingOut, "paging out", false, Wait},
		{Attaching, "attaching", false, Wait},
		{Forgetting, "forgetting", false, Wait},
		{Dismissing, "dismissing its supervisor", false, Wait},
	}
	for i, c := range all {
		if int(c.op) != i || c.op.String() != c.name || c.op.BringsBack() != c.bringsBack || c.op.LeavesBy() != c.leavesBy {
			t.Errorf("operation %d: %d %q, brings back: %v, leaves by %v; want %+v", i, c.op, c.op, c.op.BringsBack(), c.op.LeavesBy(), c)
		}
		if got, err := ParseOperation(c.name); got != c.op || err != nil {
			t.Errorf("%q is read as %v, %v", c.name, got, err)
		}
		data, err := json.Marshal(c.op)
		if want, _ := json.Marshal(c.name); err != nil || string(data) != string(want) {
			t.Errorf("%v is written as %s, %v", c.op, data, err)
		}
		var back Operation
		if err := json.Unmarshal(data, &back); err != nil || back != c.op {
			t.Errorf("%s is read as %v, %v", data, back, err)
		}
	}
	none := Operation(len(all))
	if none.String() != "operation(13)" {
		t.Errorf("one more operation than there are: %q", none)
	}
	if data, err := json.Marshal(none); err == nil {
		t.Errorf("one more operation than there are is written as %s", data)
	}
	for _, s := range []string{"dancing", "Starting", "operation(13)"} {
		if o, err := ParseOperation(s); err == nil {
			t.Errorf("%q is read as %v", s, o)
		}
		if err := json.Unmarshal([]byte(`"`+s+`"`), new(Operation)); err == nil {
			t.Errorf("%q is read from a record", s)
		}
	}
}

func TestCommands(t *testing.T) {
	all := []struct {
		command Command
		name    string
		begins  Operation
		by      Mechanism // has this command; Wait: none has
	}{
		{NoCommand, "", Idle, Wait},
		{CommandSuspend, "suspend", Suspending, Suspend},
		{CommandCheckpoint, "checkpoint", Checkpointing, Checkpoint},
		{CommandResume, "resume", Resuming, Wait},
		{CommandArchive, "archive", Archiving, Wait},
		{CommandKill, "kill", Killing, Kill},
		{CommandForget, "forget", Forgetting, Wait},
	}
	for i, c := range all {
		if int(c.command) != i || c.command.String() != c.name || c.command.Operation() != c.begins {
			t.Errorf("command %d: %d %q begins %v; want %+v", i, c.command, c.command, c.command.Operation(), c)
		}
		if c.begins.LeavesBy() != c.by {
			t.Errorf("%v leaves by %v; want %v", c.command, c.begins.LeavesBy(), c.by)
		}
		// A mechanism is named like its command, but for Wait, which has none.
		if c.by != Wait && (c.by.Command() != c.command || c.by.String() != c.name) {
			t.Errorf("the command of %v is %v; want %v", c.by, c.by.Command(), c.command)
		}
	}
	if Wait.Command() != NoCommand {
		t.Errorf("to wait is to %v", Wait.Command())
	}
	if none := Command(len(all)); none.String() != "command(7)" {
		t.Errorf("one more command than there are: %q", none)
	}
}

func TestStates(t *testing.T) {
	for i, name := range []string{"pending", "running", "suspended", "checkpointed", "done", "failed", "killed", "lost"} {
		s := TaskState(i)
		if got, err := ParseTaskState(name); s.String() != name || got != s || err != nil {
			t.Errorf("state %d is %q; %q is read as %v, %v", i, s, name, got, err)
		}
	}
	if s := TaskState(8); s.String() != "state(8)" {
		t.Errorf("one more state than there are: %q", s)
	}
	if _, err := ParseTaskState(""); err == nil || err.Error() != `unknown task state ""` {
		t.Errorf("no state: %v", err)
	}
}
