package convert

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"headrace"
	"headrace/wire"
)

// TestNumbers: what the enums are called is what the vocabulary calls it.
func TestNumbers(t *testing.T) {
	check := func(e protoreflect.Enum, first int, all ...fmt.Stringer) {
		t.Helper()
		values := e.Descriptor().Values()
		if values.Len() != first+len(all) {
			t.Errorf("%s has %d values, the vocabulary %d from %d", e.Descriptor().Name(), values.Len(), len(all), first)
			return
		}
		for i, want := range all {
			v := values.Get(first + i)
			name := strings.ToLower(strings.ReplaceAll(string(v.Name()), "_", " "))
			if !strings.HasSuffix(name, " "+want.String()) || int(v.Number()) != first+i {
				t.Errorf("%s is %d in the protocol; %v is %d", v.Name(), v.Number(), want, first+i)
			}
		}
	}
	check(wire.TaskState(0), 1, headrace.Pending, headrace.Running, headrace.Suspended, headrace.Checkpointed,
		headrace.Done, headrace.Failed, headrace.Killed, headrace.Lost)
	check(wire.Operation(0), 1, headrace.Starting, headrace.Suspending, headrace.Resuming, headrace.Checkpointing, headrace.Restoring,
		headrace.Killing, headrace.Archiving, headrace.TakingBack, headrace.PagingOut, headrace.Attaching, headrace.Forgetting, headrace.Dismissing)
	check(wire.Command(0), 1, headrace.CommandSuspend, headrace.CommandCheckpoint, headrace.CommandResume, headrace.CommandArchive,
		headrace.CommandKill, headrace.CommandForget)
	check(wire.Mechanism(0), 1, headrace.Wait, headrace.Suspend, headrace.Checkpoint, headrace.Kill)
}

// TestBothForms: every message has number and name, is understood by either alone, and
// by the number when they differ.
func TestBothForms(t *testing.T) {
	for s := headrace.Pending; s <= headrace.Lost; s++ {
		for o := headrace.Idle; o <= headrace.Dismissing; o++ {
			both := &wire.Task{}
			SetState(both, s, o)
			if both.State != s.String() || both.Doing != o.String() {
				t.Fatalf("%v, %v for older versions: %q, %q", s, o, both.State, both.Doing)
			}
			for _, m := range []*wire.Task{
				both, {State: both.State, Doing: both.Doing}, {TaskState: both.TaskState, Operation: both.Operation},
				{TaskState: both.TaskState, Operation: both.Operation, State: "lost", Doing: cond(o != headrace.Idle, "killing")},
			} {
				c := ContainerMessage(m)
				if c.TaskState != both.TaskState || c.Operation != both.Operation {
					t.Errorf("%v becomes %v", m, c)
				}
				for _, m := range []interface {
					stated
					operated
				}{m, c} {
					if got, err := State(m); got != s || err != nil || Operation(m) != o || StateName(m) != s.String() || Doing(m) != o.String() {
						t.Errorf("%v is %v (%v), %v", m, got, err, Operation(m))
					}
				}
			}
		}
	}
	for _, c := range headrace.NodeCommands {
		order, shown := &wire.NodeOrder{}, &wire.Container{}
		SetCommand(order, c)
		SetOrdered(shown, c)
		if shown.Ordered != c.String() || Ordered(shown) != c.String() || Ordered(&wire.Container{Ordered: shown.Ordered}) != c.String() {
			t.Errorf("%v for older versions: %v", c, shown)
		}
		if got, err := Command(order); got != c || err != nil {
			t.Errorf("%v is %v, %v", order, got, err)
		}
	}
	for by := headrace.Wait; by <= headrace.Kill; by++ {
		d := SetMechanism(&wire.PreemptDecision{}, by)
		if MechanismName(d) != by.String() {
			t.Errorf("%v is %v", by, d)
		}
	}
	old := &wire.Task{History: []*wire.Event{{State: "running"}, {State: "trouble"}, {State: "suspending"}, {State: "suspended"}}}
	now := &wire.Task{}
	for _, e := range old.History {
		m := &wire.Event{}
		SetEvent(m, e.State)
		now.History = append(now.History, m)
	}
	want := "pending  running  pending suspending suspended "
	for _, m := range []*wire.Task{old, now} {
		var got []string
		for _, e := range History(m) {
			got = append(got, e.State.String()+" "+e.Began.String())
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%v is %q, want %q", m.History, text, want)
		}
	}
}

func cond(is bool, s string) string {
	if is {
		return s
	}
	return ""
}

// TestUnknown: what a newer version says is shown and has no consequences.
func TestUnknown(t *testing.T) {
	m := &wire.Task{TaskState: 99, Operation: 99, State: "asleep", Doing: "dreaming"}
	if _, err := State(m); err == nil || Operation(m) != headrace.Idle || StateName(m) != "asleep" || Doing(m) != "dreaming" {
		t.Errorf("%v: %v, %s, %s", m, Operation(m), StateName(m), Doing(m))
	}
	m.State, m.Doing = "", ""
	if StateName(m) != "99" || Doing(m) != "99" || In(m, headrace.Pending) || Final(m) {
		t.Errorf("%v: %s, %s", m, StateName(m), Doing(m))
	}
	if c := ContainerMessage(m); c.Operation != 99 {
		t.Errorf("%v is passed on as %v", m, c)
	}
	if c, err := Command(&wire.NodeOrder{Command: 99}); err == nil {
		t.Errorf("an order that is not known is %v", c)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]headrace.Operation{"": headrace.Idle, "restoring": headrace.Restoring, "dancing": headrace.Idle} {
		if got := Operation(&wire.Task{Doing: name}); got != want {
			t.Errorf("%q is %v; want %v", name, got, want)
		}
	}
	for _, c := range []headrace.Command{headrace.NoCommand, headrace.CommandKill, headrace.CommandForget} {
		if got, err := Command(&wire.NodeOrder{Command: wire.Command(c)}); err == nil {
			t.Errorf("%v is the order %v", c, got)
		}
	}
	for name, final := range map[string]bool{"": false, "running": false, "checkpointed": false, "done": true, "lost": true, "dancing": false} {
		if got := Final(&wire.Task{State: name}); got != final {
			t.Errorf("the state %q is final: %v", name, got)
		}
	}
	aside := &wire.Task{State: "suspended"}
	if !In(aside, headrace.Checkpointed, headrace.Suspended) || In(aside, headrace.Running) || In(&wire.Task{State: "dancing"}, headrace.Pending) {
		t.Error("which state a task is in is told wrongly")
	}
}
