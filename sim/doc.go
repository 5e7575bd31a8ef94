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
// A second checkpoint writes what has changed since the first; after MaxChain of
// them everything is written anew.
//
// # What is counted
//
// See Result. Waste is time of CPUs that were held and brought nothing to its end:
// running that a kill threw away, and standing still in dumps, restores and
// page-ins.
//
// # Contracts
//
// The same workload, configuration and version give the same Result, byte for byte,
// on every machine of one architecture. A run is one goroutine; several may run at once on one
// Workload, which they do not change. With Config.Check the engine verifies, as it
// goes, that no task is lost or in two places, that no resource is below zero or
// above what there is, and that work is conserved: at the end every task has run
// exactly as long as it had to, and all time of CPUs that was held is either
// useful or counted as waste.
package sim
