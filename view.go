package headrace

import "time"

// A View is everything a policy may know when it decides. It is a value: the
// policy never changes it, and whoever built it may throw it away.
type View struct {
	Nodes []NodeView
	// Tasks that have not ended, in order of submission.
	Tasks []TaskView
	// Needs are the different amounts of counted resources, such as GPUs, that tasks need,
	// each as long as NodeView.Counted. TaskView.Need refers to them.
	Needs [][]float64
}

// NodeView is one machine: what it has in total, and how fast it can move
// memory. What is in use follows from the tasks.
type NodeView struct {
	ID NodeID
	// CPUs is the number of slots.
	CPUs float64
	// Memory is the budget for the resident memory of all tasks, running and
	// suspended together.
	Memory int64
	// Counted is how much it has of each counted resource, in an order that is the same in
	// all of the view; nil: nothing.
	Counted []float64
	// SwapFree is what may still be paged out. Zero means: nothing may.
	SwapFree int64
	// SwapOut and SwapIn are the measured paging bandwidths.
	SwapOut, SwapIn float64
	// Stores hold checkpoints, in the order they were configured.
	Stores []StoreView
	// Net is the bandwidth to other nodes; zero when there are none.
	Net float64
	// Disk is the bandwidth at which tasks read their inputs from its disks; zero: not known.
	// Where it is known of no node, what is in memory changes no price.
	Disk float64
}

// StoreView is one directory that holds checkpoints.
type StoreView struct {
	Name string
	// Write and Read are the measured bandwidths of a whole dump or restore to
	// and from this store.
	Write, Read float64
	// DumpOverhead and RestoreOverhead are the measured times that do not depend
	// on the size.
	DumpOverhead, RestoreOverhead time.Duration
	// Free is the room left beside what dumps under way, and those that wait, are to write.
	Free int64
	// Queue is how long a dump that is asked for now waits for others, if it is done for a user
	// who is not among Queues: one dump or restore at a time per device (checkpoint-preemption,
	// section 4.1), and those of users in turn.
	Queue time.Duration
	// Queues is that for the users of whom some wait, or who have had more of the device than others.
	Queues []UserQueue
}

// UserQueue is how long a dump waits that is done for a user.
type UserQueue struct {
	User uint32
	Wait time.Duration
}

// QueueOf returns how long a dump waits that is asked for now and done for a user.
func (s *StoreView) QueueOf(user uint32) time.Duration {
	for i := range s.Queues {
		if s.Queues[i].User == user {
			return s.Queues[i].Wait
		}
	}
	return s.Queue
}

// Busy returns how long all take that are under way or wait.
func (s *StoreView) Busy() time.Duration {
	most := s.Queue
	for i := range s.Queues {
		most = max(most, s.Queues[i].Wait)
	}
	return most
}

// Owner says whose a task is.
type Owner struct {
	User uint32
	// Beyond: the task is more than its owner's share, and Priority therefore one less than what it
	// was handed in with. It stays in the band of that.
	Beyond bool
	// Barred: a limit of its owner keeps it from running now. Unlike one that is held it leaves for
	// others while it is suspended: nobody is to want for the memory of who may not run.
	Barred bool
}

// TaskView is one task that has not ended.
type TaskView struct {
	ID   TaskID
	Job  JobID
	Node NodeID // where its processes or its checkpoint are, or will be when Starting; else empty
	Owner
	Priority Priority
	State    TaskState
	// Need is one more than an index into View.Needs; 0: nothing. A task holds what it
	// needs from its start until its processes are gone, also while it is suspended.
	Need int32

	// CPUs and MemoryRequest are what was asked for; MemoryRequest is zero when
	// the user did not say.
	CPUs          float64
	MemoryRequest int64
	// Input is the files that the task will read itself.
	Input InputView

	// Resident, Swapped and Dirty are measured. Dirty is the number of bytes
	// that a checkpoint would have to write, at most Resident+Swapped.
	Resident, Swapped, Dirty int64

	// Waiting is how long the task has been in the queue, before it ran for the first
	// time and whenever it had to leave; zero while it runs.
	Waiting time.Duration
	// Room is the node of the last order that made room for this task (Order.For), or
	// kept room for it (Order.To), until it starts, or nothing is done for it any more; else
	// empty. What was freed for a task is not given to others.
	Room NodeID
	// Waited is what Waiting was when it was last started or brought back: a task
	// that came to run because it had waited long is not pushed aside at once, and one
	// that is keeps its age.
	Waited time.Duration
	// Running is how long it has run since it was last started or brought back.
	Running time.Duration
	// Starting, bringing back (State Pending, Suspended or Checkpointed) and
	// leaving (State Running, or Suspended on its way to a checkpoint) are
	// transitions in progress. A task that is leaving still holds what it has.
	Starting, Leaving bool
	// LeavingBy says how a task that is leaving does so, and thereby what it will
	// free: by Suspend all but its resident memory, by anything else everything.
	LeavingBy Mechanism
	// Gang is the same number, not 0, for tasks that run only together, such as the ranks of
	// an MPI job: one decision starts, brings back or preempts them all. All of them that have
	// not ended must be in the view. They have to have NoCheckpoint: what passes between them
	// cannot be written.
	Gang int32
	// PagingOut is the part of Resident that was ordered to swap and is not there
	// yet. A suspended task is no longer leaving once all its threads have
	// stopped, even if its memory is still on the way out.
	PagingOut int64

	Progress    Progress
	Preemptions int

	// Checkpoint is the newest committed one, nil without. A task that runs again
	// keeps its last checkpoint.
	Checkpoint *CheckpointView
	// NoSuspend and NoCheckpoint say why the mechanism is out of the question
	// for this task; empty when it is possible as far as is known.
	NoSuspend, NoCheckpoint string
	// NoKill is the greatest priority of tasks for which it is not killed, though it may
	// leave for them in another way; 0: there are none.
	NoKill Priority
	// NoVictims: it waits, and gets what is free or becomes so, but nobody is made to leave for
	// it: others have left for it in vain.
	NoVictims bool
	// Held tasks were suspended, checkpointed or held back by a user: only a user
	// brings them back.
	Held bool
}

// InputView is what is known of the files that a task has declared as its input.
// The zero value means: it has declared none, or they are dealt out to it and
// whoever deals them goes by what is in memory.
type InputView struct {
	// Bytes is the size of all of them.
	Bytes int64
	// Resident is how much of it is in the page cache of the node that the task
	// would run on, for whatever reason, as it was last measured. It counts only
	// when At is empty.
	Resident int64
	// At is where its files are, when there are several nodes to choose from: one
	// entry for each node that has any of them, in any order.
	At []InputAt
	// FromDisk and Cold are for a task that has begun, of what it has read since its start or
	// its last checkpoint: how much had to come from a disk, the time for which is part of
	// Progress.Wall, and how much of all of it is not in the page cache of its node now.
	FromDisk, Cold int64
}

// InputAt is what a node has of a task's input, in bytes, as it was last measured.
type InputAt struct {
	Node NodeID
	// Local lies on the node's own disks, Resident is in its page cache.
	Local, Resident int64
}

// Progress is the work that would be lost by a kill, and what is left.
type Progress struct {
	// CPU and Wall are the work since the start or the last checkpoint.
	CPU, Wall time.Duration
	// TotalWall is the running time since the start, over all incarnations.
	TotalWall time.Duration
	// Lost is the running time that kills and losses have thrown away so far; it
	// is not part of TotalWall.
	Lost time.Duration
	// Share is the part done, 0 to 1; negative when unknown.
	Share float64
	// Promised is the earliest end that the task has told by its share so far, as a
	// TotalWall; zero: none. One that has outlived it says little by its share.
	Promised time.Duration
}

// CheckpointView is a committed checkpoint.
type CheckpointView struct {
	Store string
	// Bytes must be read to bring the task back, over the whole chain.
	Bytes int64
}

// Verb is what an Order does.
type Verb uint8

const (
	// OrderStart starts a pending task from the beginning.
	OrderStart Verb = iota
	// OrderResume continues a suspended task.
	OrderResume
	// OrderRestore brings a checkpointed task back.
	OrderRestore
	// OrderPreempt makes a task leave by Order.Mechanism (never Wait).
	OrderPreempt
	// OrderPageOut writes memory of a suspended task to swap.
	OrderPageOut
)

var verbNames = [...]string{"start", "resume", "restore", "preempt", "pageout"}

// String returns the lower-case name of the verb.
func (v Verb) String() string { return verbNames[v] }

// An Order is one thing to do. It is a value; carrying it out, and finding out
// that it is no longer possible, is the business of whoever asked.
type Order struct {
	Verb Verb
	Task TaskID
	Node NodeID

	// Mechanism and Store are set for OrderPreempt; Store only for Checkpoint.
	Mechanism Mechanism
	Store     string
	// PageOut is how much of the task's memory to write to swap, for OrderPageOut
	// and for OrderPreempt by Suspend; zero for none.
	PageOut int64
	// For is the task that this order makes room for.
	For TaskID
	// To is where a suspended task goes on from its checkpoint, or begins again, when it
	// leaves its node to do so: room is kept for it there.
	To NodeID

	// Delay and Waste are what the policy expected: the delay of For, and the
	// work thrown away, in task time.
	Delay, Waste time.Duration
	// Reason is one line for a person.
	Reason string
}
