package workload

import "headrace"

// priorities and classes are how many there are.
const (
	Priorities = int(headrace.MaxPriority) + 1
	Classes    = 4
)
