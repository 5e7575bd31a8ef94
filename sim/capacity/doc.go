// Package capacity decides as YARN does with Headrace's plug-in: the CapacityScheduler
// gives room and chooses who gives way, policy.Scene says how, as in the manager, and
// what was put aside goes on as the plug-in of the ResourceManager has it go on.
//
// # YARN
//
// All queues are below the root; a task goes to the one that takes its priority, which
// is that of its application within the queue. Jobs are applications, tasks containers.
//
// A node gives room away when its heartbeat comes. Of two queues the one that has less
// of what it is guaranteed goes first, or the one of higher priority if both have less
// or both have more; within a queue the application of the highest priority, then the
// first. A task that does not fit on a node, though the cluster has as much, has the
// node kept for it.
//
// At intervals it is computed what each queue ought to have
// (ProportionalCapacityPreemptionPolicy): what it uses up to its guarantee, and of the
// rest what it asks for, by guarantees. Who has more gives back: the applications of
// the lowest priority first, then the last, of each the newest containers. Within a
// queue those of lower priority make room for those of higher priority, if IntraQueue
// is set. A look takes back PerRound at most, and no container that is more than is left of
// that. A container is warned, and killed when it is still chosen Warning later.
//
// Not simulated: users and their limits, labels, hierarchies of queues, the containers
// of application masters, and where in the cluster a task would rather run.
//
// # Headrace
//
// What YARN has chosen gives way as policy.GiveWay says, and is asked about again in the
// next round when it is to wait. A kill has the warning. With the policy wait nobody is
// chosen: it is YARN without preemption.
//
// A container that is put aside frees its room. It goes on by itself, on its node, as
// the package headrace.yarn.rm says: it stays aside for a while, then asks for its room
// in its queue's order when there is some that nobody more urgent wants, or when its
// queue has less than its guarantee. One that has waited for Config.Elsewhere goes on
// elsewhere if policy.MoveOn finds that sooner: its checkpoint crosses the network
// twice.
//
// Nodes hold no more memory than they have. What the kernel would write to swap by
// itself, because what comes needs the memory of what is suspended, is ordered here.
package capacity
