// Package sim runs a workload on a cluster that does not exist, under the very
// policies that run live: a virtual clock and nodes in place of daemons and the
// operating system (checkpoint-preemption, sections 3.3.2 and 4.2.1).
//
// # What is simulated
//
// Nodes have CPUs, memory, swap, one store for checkpoints and a network. Tasks
// come as the trace says, grow, change their memory, and end when they have run as
// long as they have to. At most once in Config.Interval, and only when something has
// changed, the engine makes a headrace.View of the cluster and gives it to
// policy.Decide, as a daemon does, and carries the orders out:
//
//	start       runs after Costs.Start
//	kill        leaves after Costs.Kill; begins again from its last checkpoint
//	suspend     stops after Costs.Stop; what was ordered out goes to swap, one
//	            node's page-outs one after the other
//	resume      goes on when its memory has been paged in
//	checkpoint  runs on until it is its turn: one dump or restore at a time on each
//	            store; then stands still for DumpOverhead + bytes/Write
//	restore     RestoreOverhead + bytes/Read when it is its turn; on another node
//	            bytes/Net before that
//
// The right to room that was made for a task (headrace.TaskView.Room) lapses once nobody leaves
// that node any more, as it does in solo. What dumps that wait will write is not free on
// their store.
//
// The turns are those that package disk gives to live daemons: restores go before dumps
// that wait, otherwise who asked first. But a store is a device of its own here, from
// which nobody reads files, so that it neither slows readers down nor keeps warming
// away.
//
// A second checkpoint writes what has changed since the first; after MaxChain of
// them everything is written anew.
//
// With Config.Capacity the scheduler is YARN's, as package capacity tells: it asks
// policy.GiveWay and policy.MoveOn, as the manager does.
//
// Tasks of a gang come into the queue together and get on only while all of them run. They
// and those that hold counted resources cannot be checkpointed.
//
// # Reading
//
// A task with an input reads it before it runs, and holds its CPUs meanwhile. See
// Reading. Disks are shared by all who read at the same time (processor sharing): one
// reader alone has all of a disk, several together have less between them, because
// it seeks. What has been read from a disk is in the page cache of its node: the
// blocks that were used last. Several tasks that want the same at the same time read
// it once.
//
// Where a task reads follows from what a client of HDFS knows: in the memory of its
// own node, from its own disk, or from a node that has a replica, over the network;
// and in the memory of the node that has warmed a block, where the network has more
// to give at the moment than its own disk. Disk and network work at the same time.
//
// Inputs are warmed by prefetch.Next and prefetch.DropRef, as by the daemon (ignem,
// section III): when a job is announced one replica of each of its blocks is wanted,
// the first. Each node reads one block at a time ahead, and only while nobody else
// reads from its disk. A block is kept until all tasks of all jobs that wanted it have
// read it, or have begun to read it from elsewhere.
//
// # What is counted
//
// See Result. Waste is time of CPUs that were held and brought nothing to its end:
// running and reading that a kill threw away, and standing still in dumps, restores
// and page-ins. Reading that was not in vain is counted by itself. A preemption counts when the
// task has left, not when it was ordered: one whose checkpoint is called off, because it has
// ended by its turn or the store is full, was never stopped.
//
// # Inside
//
// The engine goes from event to event. It knows the scheduler by one method (and when it
// is to be asked again, if that acts at times of its own), and below
// it stand, each with a state of its own: the clock; the roster of tasks, with the view
// of them; each node's pager and store; the tally, which counts; and files, when there
// are inputs: how tasks read them, over residency (what the scheduler is told of them),
// warming, and storage (disks, page caches and networks). None of these knows the engine.
//
// Between the roster and the scheduler stands the backlog: of waiting tasks that ask for
// the same it shows those in front, as many as something can be done for. So a decision
// takes as long as what runs and what differs, not as long as the queue; what is decided
// is the same (TestBacklog).
//
// # Contracts
//
// The same workload, configuration and version give the same Result, byte for byte,
// on every machine of one architecture. A run is one goroutine; several may run at once on one
// Workload, which they do not change. With Config.Check the engine verifies, as it
// goes, that no task is lost or in two places, that no resource is below zero or
// above what there is, and that work is conserved: at the end every task has run
// exactly as long as it had to, and all time of CPUs that was held is either
// useful, or counted as reading or as waste; that no node is idle for long while a task that
// fits waits; that nobody leaves in place of a less urgent task that could have; that page caches hold what they may, and
// every task has read each byte of its input once, but for what a kill has thrown
// away.
package sim
