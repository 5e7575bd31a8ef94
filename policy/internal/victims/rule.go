package victims

// Policy is a way of making room, of which package policy says what they do.
type Policy string

const (
	Wait       Policy = "wait"
	Kill       Policy = "kill"
	Suspend    Policy = "suspend"
	Checkpoint Policy = "checkpoint"
	Adaptive   Policy = "adaptive"
	Cost       Policy = "cost"
)

// Order says which of several victims goes first.
type Order string

// InTurn takes the victim that has waited least by then, the first of its priority that was
// submitted on a node last: so nobody leaves again and again for being small, and who has been
// there for longest is not kept for longer. Cost does so between victims that cost the same.
const InTurn Order = ""

const (
	CheapestCheckpoint  Order = "cheapest-checkpoint"
	SmallestMemory      Order = "smallest-memory"
	ClosestToCompletion Order = "closest-to-completion"
	LeastWork           Order = "least-work"
)

// Checkpoints reports whether the policy may turn a task into a checkpoint.
func (p Policy) Checkpoints() bool { return p != Wait && p != Kill }
