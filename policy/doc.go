// Package policy decides which tasks run where, and which make room for more
// urgent ones and how. It is pure: Decide maps a headrace.View to
// headrace.Orders, and daemons and simulators call the same function. There is
// no clock, no I/O, no goroutine and no state from one call to the next. All
// functions may be called concurrently.
//
// The packages inside are, from the bottom: books, price, victims, queue, fleet. What to
// read into memory is decided in package prefetch.
//
// A Planner decides the same and keeps its memory, for those who decide thousands of
// times. What makes either fast on large clusters changes no decision: nodes are
// opened only when somebody must leave there, what a node would take is asked once
// for all tasks that are alike, until something changes on it, and what is known not
// to be cheaper is not added up.
// A view may leave out tasks that are like one in it that nothing is done for, and ask with
// marks whether that holds for them as well (Planner.DecideFirst).
//
// # Queue
//
// Tasks that wait are served by aged priority, then those that have been begun
// (suspended or checkpointed) before those that have not, then in order of
// submission. The aged priority is the task's own plus one step for each
// Config.Ageing that it has waited, all of its waits together, at most the highest of
// its band (headrace.Priority.Top). Ageing gives a place in the queue, not a right to
// preempt: victims are always of lower priority than the task they make room for, both
// as submitted.
//
// A task that is more than its owner's share (TaskView.Beyond) is shown with one step less, and stays in
// its band: where that step leads out of it, it stands behind all of its own priority, and before whatever
// has risen in the band below.
//
// What is promised against starvation is a bound for each band: before a task at the top of
// its band begins none of the band that is submitted later, and the first that finds no room
// has room kept for it (see Placement): those behind it get only what it does not need, or what others
// that run and are less urgent than they are leave for them, which they come back to as tasks that have been begun; but for
// those with its aged priority that came in the first quarter of its wait, less ten minutes, and at most an hour after it. So
// a task of priority p that came at time s is the first at the latest when all tasks of its
// band that came before s + (top - p) * Ageing have got their service, and those that took
// the place of one of these; and nobody passes it at the latest when, besides, those have that came in
// that hour. With Wait nobody takes a place. Between bands
// nothing is promised: the lower one gets what the higher ones leave.
//
// Among the tasks of a job that have not been begun those go first whose input is
// in memory, the largest share first (quartet, section 4.2). Where there are several
// nodes (InputView.At), it depends on where there is room, and is decided anew at each
// place that the job has in the queue. It goes to a task with some of its input in
// memory on a node on which it fits then; else to one whose input is in memory on no
// node; else to the first. So nobody reads from a disk what a node will have room to read from
// memory, as long as the job has something else to do. The places of a job stay its
// own, and no task is passed for longer than a step of ageing by those that come after
// it. Config.NoResidencyOrder turns it off: tasks stay in order of submission.
//
// A task that was started after a wait is protected from those to which its aged
// priority would not have yielded, which are of its own band: for Config.MinRun or a
// tenth of its wait, whichever is longer, plus the running time that kills have cost it.
// What such a task may run in a row thus grows each time that it is killed, so
// that it ends in the end. A task that was preempted before runs
// at least Config.MinRun before it is preempted again, by whomsoever.
//
// # Placement
//
// A task goes to the first node, in the order of the view, with enough CPUs and
// enough of the memory budget. A task needs the memory it has requested or what
// was measured, whichever is more; one of which nothing is known goes by CPUs
// alone. Running tasks, tasks that are starting and tasks that are leaving hold
// what they have; suspended ones hold their resident memory. A task is never
// started on what another still holds, but for what is on its way to swap.
//
// A task that has not been begun and fits on several nodes goes to the one that has
// the most of its input in memory, then to the one with the most of it on its own
// disks, then to the first (quartet, section 4.2: memory-local, else node-local, else
// anywhere). It does not wait for such a node while it fits on another. With
// Config.NoResidencyOrder what is in memory does not count, what is on disk does.
// Nodes on which others must leave are chosen by what that costs (see the cost model).
//
// A task that will fit once those that are leaving are gone waits for them, and
// nobody else leaves for it, unless they are being checkpointed and Cost finds it cheaper that
// others leave, on whichever node. Room that was made for a task by preemption is its
// own until it starts (TaskView.Room), even if others stand before it by then. If nobody
// leaves any more and it has not come to run, whoever builds the view forgets that. Where that room is
// made by dumps, a task that has not been begun starts elsewhere when there is room left in its turn.
// When nothing can be done for a task, what is free is kept for it on the node
// where the least is missing; what is missing there can only become less. Nodes come last where it
// would have to wait for one that had run for an hour before it came, or says that it runs for
// another: a service would keep it waiting for ever. Where
// suspended tasks hold it, and not what runs, none is kept before these have had their turn, as they have to run first:
// on the node where the least is missing they have it before tasks that were not begun, but not before those for whom
// they would have to leave again. What is left when all of them are back is kept.
// Those behind it that may pass it (see Queue) have their turn before, unless it depends on one node.
// That is done for the first such task that could go anywhere, for the first suspended one
// that could be moved, and for one on each node that can do neither; what it does not need,
// and all other nodes, are open to the tasks behind it, and so is what those of them that
// may preempt make room for. On the node of every suspended task it would leave
// processors idle for as long as the task it left for stays.
//
// A suspended task comes back on its own node. When that has no room and another node
// has, it is checkpointed and goes on there, with room kept for it, if that is expected
// to be sooner (Order.To); Cost kills it instead if it has run for less than its
// checkpoint would take to be sent and read, or if it cannot be checkpointed, is of no gang and has been
// suspended for as long as it will do again. Until its checkpoint is written that room is kept only from
// those that are not more urgent: nobody is there who could leave for these. A checkpointed one comes back
// where checkpoint-preemption's algorithm 2 says: on its own node, or elsewhere
// when that is sooner and both nodes have a network (NodeView.Net). On its own node it is brought back
// when its user has no more than one restore ahead there, or less than ten seconds of them; until
// then its room is kept, and who is more urgent may take that.
//
// A task for which others have left in vain (TaskView.NoVictims) gets what is free or on its way,
// and room is kept for it as for others, but nobody leaves for it.
//
// A task that is not killed for some priorities (TaskView.NoKill) leaves for those by
// another mechanism or not at all, whatever the policy.
//
// Tasks that are held are never started, brought back or preempted. Memory of one
// that is suspended may be paged out; it stays as it is otherwise. Those that are barred (TaskView.Barred) are not
// brought back either, but leave while they are suspended as those that wait do.
//
// # Counted resources
//
// Of what is counted beside processors and memory, such as GPUs (TaskView.Need), a task
// holds what it needs from its start until its processes are gone, also while it is
// suspended. So for whom needs it only a kill, a checkpoint of who can be written, or waiting
// helps; Cost kills also who is suspended for it. Policies that never kill wait.
//
// With Cost it waits where that is cheaper than the plan that has others leave: where, by when
// its wait, from its beginning, would cost as much, as many rooms are expected to be free in the mean, because any of
// those that run have ended, as it and those before it that wait so need, but for half a one.
// Each that runs has ended within t with a chance of t/(t+remaining); what takes several of a node,
// by the chance that all of them have. Room is kept for it as for others (see Placement).
// Who needs nothing that is counted starts on a node that has nothing, if it fits on one.
//
// # Gangs
//
// Tasks that run only together (TaskView.Gang) are decided about as one, at the place in the
// queue of the first of them. All that wait start or come back in one decision, or none does;
// the largest is placed first, each as a task by itself would be. Where all are alike they are
// placed whenever that is possible; where they differ, in 95 of 100 small cases
// (TestGangAgainstOracle). If they do not fit, they wait for those that are leaving; else
// others leave, for each of them in turn, until all fit; where that is not possible for
// one, or it would wait, it is done for none. A second of delay counts for all that wait. For the first that finds no
// room it is kept, as for a task by itself, on as many nodes as it needs; that of its tasks for which
// nobody had to leave is not bound to a node until they start.
//
// A gang that runs leaves as a whole and by one mechanism: what it frees on a node is what all
// its tasks there hold, what a kill wastes the work of all. It may leave when all of it may,
// and is as urgent as its most urgent task. It is suspended or killed, never checkpointed.
// While it is suspended its memory stays (books.Stays). Cost also kills one that is
// suspended, as a whole, for the memory and the devices that it holds.
//
// # Memory
//
// When memory is missing, suspended tasks are paged out by exactly what is
// missing, those first that will come back last. The guard: whatever stays
// resident and what comes must fit in the memory budget and the swap that may
// still be used, which is what is free, less what was ordered out and is not
// there yet, less a tenth of what tasks may use. No plan violates it. Swap whose
// bandwidth is not known counts for nothing.
//
// A suspended task that finds no room though nothing else runs, is about to or is leaving on
// its node comes back if what it has requested fits: what it has beyond was there before. Else
// two that have grown would wait for each other's memory for ever.
//
// A node over its budget has suspended tasks paged out even if nobody waits. Where
// swap has no room, Suspend and Cost turn suspended tasks into checkpoints; for
// an urgent task only less urgent ones.
//
// # Policies
//
// Wait, Kill, Suspend and Checkpoint use their mechanism for victims in the
// victim order (least urgent first whatever the order), as many as are needed,
// on the node where fewest are. Suspend and Checkpoint fall back on each other
// and never kill.
//
// No policy bounds how many tasks look for victims in a decision: a big urgent job
// makes room for all of its tasks at once.
//
// Adaptive is checkpoint-preemption's algorithm 1 (section 4.1) as written: among
// candidates sorted by the victim order alone, each is checkpointed if its
// progress exceeds size/bw_write + size/bw_read + queue_time, else killed. It
// does not know suspension, fixed costs of a dump, or tasks that cannot be
// checkpointed; it kills those.
//
// # The cost model
//
// Cost weighs every mechanism for every task that could make room, alone and in
// sets, on every node, and takes what costs least:
//
//	cost = delay * W(urgent) + sum over victims of waste * W(victim)
//	W(priority) = 2^(priority / 6)
//
// Delay is the expected time, in seconds, until the urgent task can start; waste
// is the time, in seconds, by which a victim's own completion moves back through
// the mechanism. The cost thus is the weighted sum of the response times of all
// tasks concerned, but for two parts. What does not depend on the choice is left
// out. So is the running time of the urgent task, by which every preempted
// victim is delayed and which waiting would spare it: that the urgent task goes
// first is what its priority asks for. Only the ratio of weights matters to a
// pair of tasks: 2^(gap/6), 2 for high against low. Of what costs the same the less
// urgent leaves, on whichever node; then a task by itself rather than a gang; then whom
// Config.VictimOrder names. Without one they take turns: who has waited least leaves, all of
// its waits together, and of those of one priority on a node the first submitted last, because
// that is who would end last of all.
//
//	mechanism   delay                                   waste
//	kill        200 ms                                  Progress.Wall + reread + restore of the last checkpoint
//	suspend     100 ms + out/SwapOut / 2                out/SwapOut + out/SwapIn
//	checkpoint  queue + dump                            dump + RestoreOverhead + (old + new)/Read
//	wait        remaining                               0
//
// where
//
//	out       bytes that have to be paged out, of this or another suspended task
//	dump      DumpOverhead + new/Write
//	new       Dirty; with a last checkpoint in another store, all of the memory
//	old       bytes of the last checkpoint if it is in the same store
//	queue     StoreView.QueueOf the urgent task's owner, and dumps and restores ordered in the same decision
//	restore   RestoreOverhead + bytes/Read, zero without a checkpoint
//	reread    (Cold - FromDisk)/Disk of its input, zero where Disk is not known: what a task
//	          found in memory and would have to read now is lost besides, what it had to read
//	          and would find now is not lost. Progress.Wall + reread is at least zero
//	remaining TotalWall * (1-Share)/Share when the share done is known, but at least
//	          TotalWall - Promised, by which it is late; else the time it has run (the
//	          residual life of heavy-tailed lifetimes, Harchol-Balter and Downey 1997),
//	          at least one second
//
// Where it is known where the input of the urgent task is in memory (InputView.At), and how
// fast nodes read (NodeView.Disk), a plan on a node costs besides what the urgent task will
// have to read there:
//
//	cost + (Bytes - Resident)/Disk * W(urgent)
//
// so that a victim's slot is worth more where the newcomer's input is warm. That decides between
// nodes; on one node it is the same for all plans. With Config.NoResidencyOrder it counts for nothing.
//
// In a set, delays overlap except that dumps to one store and page-outs follow
// each other; wastes add up. Waiting is weighed for less urgent tasks that may
// be preempted and for all tasks that say how much of them is done. When a set
// that waits is cheapest, nothing is ordered; Explain tells. Where it waits only for tasks that
// could not be preempted it is a reason to keep room, for as few as with others (see Placement).
//
// Single victims are compared exhaustively. Sets of several are looked for on the
// four nodes where the least is missing, of those where enough may leave: all sets where there are at most 2000
// on a node, otherwise by greedy choice, which on small random instances finds the
// best set in 17 cases of 20 (TestCostAgainstOracle); of more than 16 victims it takes several
// at a time. Of more than eight stores on a
// node the first eight are weighed.
//
// # Tasks of another scheduler
//
// GiveWay decides how a task leaves that its own scheduler has chosen. Its view has
// one task that may leave, one that stands for what is to come, and the same policies.
package policy
