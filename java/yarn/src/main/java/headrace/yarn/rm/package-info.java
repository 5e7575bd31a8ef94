/**
 * The plug-in of the ResourceManager: YARN's own preemption suspends or checkpoints instead of killing.
 *
 * <p>YARN chooses the victims ({@link headrace.yarn.rm.HeadracePreemptionPolicy}); the manager says how each of them
 * gives way and has it done ({@link headrace.yarn.rm.Victims}); what it then says that the containers are doing
 * ({@link headrace.yarn.rm.Watch}) is the truth that the ResourceManager is brought in line with
 * ({@link headrace.yarn.rm.Reconciler}). Resources are freed and taken again in the scheduler's books only
 * ({@link headrace.yarn.rm.SchedulerBooks}): for the NodeManager, and for the application master, the container just runs.
 * Where the operator asks for it, victims are exchanged for containers that are alike to YARN and cost less
 * ({@link headrace.yarn.rm.Cheapest}).
 *
 * <p>One container in the ResourceManager, with the execution type that the scheduler has for it:
 *
 * <pre>
 *            YARN chooses it; the manager answers suspend or checkpoint
 *   (none) ------------------------------------------------------------> ORDERED      GUARANTEED
 *     |                          it fails, or nothing is heard of it       |
 *     | <------------------------------------------------------------------+
 *     |  it is suspended or checkpointed already                           | it is suspended, or checkpointed durably:
 *     |  (by a person, and there is room for another in its place;         | demoted, its resources are free
 *     |  after a restart of the ResourceManager)                           |
 *     +----------------------------------------------------------------> PARKED       OPPORTUNISTIC
 *                                                                          |    ^
 *                       not held by a person, parked for a while, and:     |    | not served in time, or held
 *                       room on its node that nobody more urgent wants,    |    | meanwhile: the ask is withdrawn
 *                       or its queue has less than it is guaranteed        v    |
 *                                                                        ASKED        OPPORTUNISTIC, pinned ask pending
 *                                                                          |
 *                                                                          | served by the scheduler, in its own order
 *                                     five attempts fail: killed as        v
 *                                     YARN kills (PREEMPTED)   &lt;------- RESUMING     GUARANTEED; Resume is called
 *                                                                          |
 *                                                                          | it runs
 *                                                                          v
 *                                                                        RUNNING      GUARANTEED; remembered for a while
 * </pre>
 *
 * <p>In all phases but RUNNING what YARN's preemption wants of the container is ignored. In ORDERED its policy goes on
 * choosing it, so that nobody else is chosen for the same demand; from PARKED on it is passed over. A container that
 * ends, or whose node or application does, is forgotten in every phase. One that runs although it is PARKED (root
 * has seen to that, or its node has heard of no manager) is asked for at once, its node may be kept for it, and it is charged.
 *
 * <p>An ask for room that is there may not reserve the node, else it would stand in the way of others; it is withdrawn
 * after some seconds. So may one not that stands in line because others of its queue, who have come later, would have the
 * next room first; it stays, but where it keeps what is free from other queues it is withdrawn for a while, again and
 * again. An ask of a queue that has less than its guarantee may, as any other pending demand of that queue
 * may. Since it is pinned, clusters with several nodes should have YARN choose victims where the reservation is:
 * {@code yarn.resourcemanager.monitor.capacity.preemption.select_based_on_reserved_containers}.
 *
 * <p>Threads: the dispatcher and those of the scheduler only put victims into a queue and look things up. The manager is
 * called by threads of the plug-in, without a lock. Changes in the scheduler are made by the reconciler's thread under the
 * scheduler's write lock.
 *
 * <p>Never suspended: application masters, and containers in a partition that their queue only borrows.
 */
package headrace.yarn.rm;
