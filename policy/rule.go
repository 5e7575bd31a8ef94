package policy

// rule is a way of making room, of which package policy says what they do.
type rule string

const (
	ruleWait       rule = "wait"
	ruleKill       rule = "kill"
	ruleSuspend    rule = "suspend"
	ruleCheckpoint rule = "checkpoint"
	ruleAdaptive   rule = "adaptive"
	ruleCost       rule = "cost"
)

// byOrder says which of several victims goes first.
type byOrder string

const (
	byCheapestCheckpoint  byOrder = "cheapest-checkpoint"
	bySmallestMemory      byOrder = "smallest-memory"
	byClosestToCompletion byOrder = "closest-to-completion"
	byLeastWork           byOrder = "least-work"
)
