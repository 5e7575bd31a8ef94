package dfs

import "headrace/dfs/names"

type (
	// Member is a node as others reach it.
	Member = names.Member
	// View is what a node knows of the ring: never changed, replaced as a whole.
	View = names.View
	// NotLeader is the error of Propose, Query, ChangeRing and Admit on a node that does not lead. Nothing was done.
	NotLeader = names.NotLeader
)

var (
	// ErrClosed is the error of a node that was closed.
	ErrClosed = names.ErrClosed
	// ErrUncertain: a command may take effect, or may have. Who asks again under the same client and call gets
	// the answer of the first time.
	ErrUncertain = names.ErrUncertain
	// ErrOld is the error of a node that does not understand the version in force.
	ErrOld = names.ErrOld
)
