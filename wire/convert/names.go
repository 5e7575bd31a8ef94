package convert

import (
	"cmp"
	"fmt"
	"slices"

	"headrace"
	"headrace/wire"
)

// Enums of the protocol have the numbers of the vocabulary, in TaskState and Mechanism
// after one for what is not told. Beside each stands its name, for one version more:
// what makes a message fills in both, what reads one goes by the name without a number.

type stated interface {
	GetTaskState() wire.TaskState
	GetState() string
}

type operated interface {
	GetOperation() wire.Operation
	GetDoing() string
}

// State returns that of a task or a container.
func State(m stated) (headrace.TaskState, error) {
	switch n := m.GetTaskState(); {
	case n == 0:
		return headrace.ParseTaskState(m.GetState())
	case n < 0 || n > wire.TaskState(headrace.Lost)+1:
		return 0, fmt.Errorf("unknown task state %d", n)
	default:
		return headrace.TaskState(n - 1), nil
	}
}

// StateName returns the state of a task or a container for people, also one that this
// version does not know.
func StateName(m stated) string {
	s, err := State(m)
	if err != nil {
		return cmp.Or(m.GetState(), m.GetTaskState().String())
	}
	return s.String()
}

// In reports whether a task or a container is in one of the states.
func In(m stated, states ...headrace.TaskState) bool {
	s, err := State(m)
	return err == nil && slices.Contains(states, s)
}

// Final reports whether a task has ended for good.
func Final(m stated) bool {
	s, err := State(m)
	return err == nil && s.Final()
}

// Operation returns what is being done to a task or a container; Idle if this version
// does not know it.
func Operation(m operated) headrace.Operation { return operation(m.GetOperation(), m.GetDoing()) }

func operation(n wire.Operation, name string) headrace.Operation {
	if n >= 0 && n <= wire.Operation(headrace.Dismissing) && n != 0 {
		return headrace.Operation(n)
	}
	if o, err := headrace.ParseOperation(name); n == 0 && err == nil {
		return o
	}
	return headrace.Idle
}

// Doing returns what is being done to a task or a container for people, also what this
// version does not know; empty: nothing.
func Doing(m operated) string {
	if o := Operation(m); o != headrace.Idle || m.GetOperation() == 0 {
		return cmp.Or(o.String(), m.GetDoing())
	}
	return cmp.Or(m.GetDoing(), m.GetOperation().String())
}

// SetState fills in the state of a task and what is being done to it.
func SetState(m *wire.Task, s headrace.TaskState, o headrace.Operation) {
	m.TaskState, m.State, m.Operation, m.Doing = wire.TaskState(s)+1, s.String(), wire.Operation(o), o.String()
}

// SetEvent fills in what happened: the name of a state, of an operation, or another word.
func SetEvent(m *wire.Event, what string) {
	m.State, m.Operation = what, wire.Operation(operation(0, what))
	if s, err := headrace.ParseTaskState(what); err == nil {
		m.TaskState = wire.TaskState(s) + 1
	}
}

// SetOrdered fills in what a container has been ordered.
func SetOrdered(m *wire.Container, c headrace.Command) {
	m.Command, m.Ordered = wire.Command(c), c.String()
}

// Ordered returns what a container has been ordered, for people; empty: nothing.
func Ordered(m *wire.Container) string {
	if m.Command == 0 {
		return m.Ordered
	}
	return headrace.Command(m.Command).String()
}

// SetCommand fills in what a node is to do.
func SetCommand(m *wire.NodeOrder, c headrace.Command) {
	m.Command = wire.Command(c)
}

// Command returns the command that a node is given.
func Command(m *wire.NodeOrder) (headrace.Command, error) {
	for _, c := range headrace.NodeCommands {
		if m.Command == wire.Command(c) {
			return c, nil
		}
	}
	return headrace.NoCommand, fmt.Errorf("%v is no order for a node", m.Command)
}

// MechanismName returns how a container gives way, for people; empty: that is not
// known.
func MechanismName(m *wire.PreemptDecision) string {
	if m.By == 0 {
		return ""
	}
	return headrace.Mechanism(m.By - 1).String()
}

// SetMechanism fills in how a container gives way.
func SetMechanism(m *wire.PreemptDecision, by headrace.Mechanism) *wire.PreemptDecision {
	m.By = wire.Mechanism(by) + 1
	return m
}
