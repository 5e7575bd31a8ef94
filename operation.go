package headrace

import "fmt"

// Operation is what is being done to a task at the moment. Its name is what people
// and other programs see, and what a daemon records.
type Operation uint8

const (
	// Idle: nothing is being done to it.
	Idle Operation = iota
	// Starting runs a pending task from the beginning.
	Starting
	// Suspending stops its processes.
	Suspending
	// Resuming continues a suspended task.
	Resuming
	// Checkpointing writes its processes to storage and ends them.
	Checkpointing
	// Restoring brings a checkpointed task back.
	Restoring
	// Killing ends its processes.
	Killing
	// Archiving puts its checkpoint where other machines find it.
	Archiving
	// TakingBack makes sure that no other machine has its checkpoint.
	TakingBack
	// PagingOut writes memory of a suspended task to swap.
	PagingOut
	// Attaching looks for its supervisor, which does not answer.
	Attaching
	// Forgetting removes all that is kept of an ended task.
	Forgetting
	// Dismissing ends its supervisor, which has no processes any more.
	Dismissing
)

var operationNames = [...]string{
	"", "starting", "suspending", "resuming", "checkpointing", "restoring", "killing", "archiving", "taking back",
	"paging out", "attaching", "forgetting", "dismissing its supervisor",
}

// String returns the name of the operation; that of Idle is empty.
func (o Operation) String() string { return nameOf(operationNames[:], o, "operation") }

// ParseOperation returns the inverse of Operation.String.
func ParseOperation(s string) (Operation, error) {
	return named[Operation](operationNames[:], s, "operation")
}

// MarshalText writes the name, for records.
func (o Operation) MarshalText() ([]byte, error) {
	if int(o) >= len(operationNames) {
		return nil, fmt.Errorf("there is no %v", o)
	}
	return []byte(o.String()), nil
}

// UnmarshalText reads the name.
func (o *Operation) UnmarshalText(text []byte) (err error) {
	*o, err = ParseOperation(string(text))
	return err
}

// BringsBack reports whether the task runs when the operation is done. It holds its
// slot from the beginning of the operation.
func (o Operation) BringsBack() bool { return o == Starting || o == Resuming || o == Restoring }

// LeavesBy returns how the operation makes the task leave its slot; Wait: it does not.
func (o Operation) LeavesBy() Mechanism {
	switch o {
	case Suspending:
		return Suspend
	case Checkpointing:
		return Checkpoint
	case Killing:
		return Kill
	}
	return Wait
}

// Command is what a person or a scheduler asks of a task.
type Command uint8

const (
	// NoCommand asks for nothing.
	NoCommand Command = iota
	// CommandSuspend stops the task's processes.
	CommandSuspend
	// CommandCheckpoint writes it to storage and ends its processes.
	CommandCheckpoint
	// CommandResume has it go on, from its checkpoint if it has no processes.
	CommandResume
	// CommandArchive puts its checkpoint where other machines find it.
	CommandArchive
	// CommandKill ends it for good.
	CommandKill
	// CommandForget removes all that is kept of it when it has ended.
	CommandForget
)

var commandNames = [...]string{"", "suspend", "checkpoint", "resume", "archive", "kill", "forget"}

// NodeCommands are the commands that a manager gives to nodes. Other schedulers kill
// their containers themselves.
var NodeCommands = [...]Command{CommandSuspend, CommandCheckpoint, CommandResume, CommandArchive}

// String returns the lower-case name of the command; that of NoCommand is empty.
func (c Command) String() string { return nameOf(commandNames[:], c, "command") }

// Operation returns what the command begins. To resume a task that is checkpointed is
// to restore it, with the same consequences for its slot.
func (c Command) Operation() Operation {
	return [...]Operation{
		NoCommand: Idle, CommandSuspend: Suspending, CommandCheckpoint: Checkpointing, CommandResume: Resuming,
		CommandArchive: Archiving, CommandKill: Killing, CommandForget: Forgetting,
	}[c]
}

// Command returns what makes a task leave by the mechanism; that of Wait is NoCommand.
func (m Mechanism) Command() Command {
	return [...]Command{Wait: NoCommand, Suspend: CommandSuspend, Checkpoint: CommandCheckpoint, Kill: CommandKill}[m]
}

// nameOf returns the name of a value, or what it is and its number where it has none.
func nameOf[T ~uint8](names []string, v T, what string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", what, uint8(v))
}

// named returns the value with a name.
func named[T ~uint8](names []string, s, what string) (T, error) {
	for i, n := range names {
		if n == s {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q", what, s)
}
