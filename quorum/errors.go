package quorum

import (
	"errors"
	"fmt"
)

var (
	// ErrUncertain: the command may take effect, or may have. Who asks again must make sure
	// that it takes effect once.
	ErrUncertain = errors.New("quorum: leadership was lost before an answer")
	// ErrBusy: too much is waiting, or a change of members has not ended. Nothing was done.
	ErrBusy = errors.New("quorum: busy")
	// ErrTooLarge: the proposal is too long.
	ErrTooLarge = errors.New("quorum: the proposal is too large")
	// ErrNoGroup: the group is not on this node.
	ErrNoGroup = errors.New("quorum: no such group here")
	// ErrStopped: the node has ended, or what it writes may not be durable. It says nothing
	// any more, and is to be started again.
	ErrStopped = errors.New("quorum: the node has stopped")
	// ErrChange: the change of members makes no sense.
	ErrChange = errors.New("quorum: no possible change of members")
)

// NotLeader refuses what only a leader does. Nothing was done.
type NotLeader struct {
	// Leader is who to ask, or zero if nobody is known.
	Leader Replica
}

func (e *NotLeader) Error() string {
	if e.Leader == 0 {
		return "quorum: the group has no leader"
	}
	return fmt.Sprintf("quorum: the leader is on node %d", e.Leader.Node())
}
