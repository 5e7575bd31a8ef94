package headrace.yarn.rm;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.ContainerUpdateType;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.Token;
import org.apache.hadoop.yarn.api.records.UpdateContainerRequest;
import org.apache.hadoop.yarn.exceptions.YarnException;
import org.apache.hadoop.yarn.server.metrics.OpportunisticSchedulerMetrics;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEventType;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ContainerUpdates;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.QueueMetrics;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerUtils;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ContainerAllocationProposal;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.SchedulerContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.scheduler.OpportunisticContainerAllocator.ContainerIdGenerator;
import org.apache.hadoop.yarn.server.scheduler.OpportunisticContainerContext;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * What the scheduler has set aside for containers that do not run. Only the ResourceManager ever hears of the changes
 * made here: NodeManager and application master keep the container as it was.
 *
 * <p>A container's resources are freed by demoting it to OPPORTUNISTIC, and taken again by an ask of the scheduler that
 * is pinned to its node, which the scheduler serves in its own order. Changes happen under the scheduler's write lock;
 * nothing here waits or does I/O.
 */
final class SchedulerBooks {
    enum Outcome {
        DONE,
        /** It cannot be done now. */
        LATER,
        /** This container keeps its resources whatever happens. */
        NEVER,
        /** There is no such container any more. */
        GONE
    }

    /** A demoted container, and what it had before. Guarded by the scheduler's write lock. */
    private static final class Entry {
        final RMContainer container;
        final int version;
        final Token token;
        long refundedMs;
        boolean hidden;
        volatile Ask ask;

        Entry(RMContainer container, long nowMs) {
            this.container = container;
            this.version = container.getContainer().getVersion();
            this.token = container.getContainer().getContainerToken();
            this.refundedMs = nowMs;
        }
    }

    private final HeadraceScheduler scheduler;
    private final Map<ContainerId, Entry> entries = new ConcurrentHashMap<>();
    // When a node was last not reserved for an ask of ours that it has no room for.
    private final Map<NodeId, Long> refused = new ConcurrentHashMap<>();
    private final Answers answers = new Answers();

    SchedulerBooks(HeadraceScheduler scheduler) {
        this.scheduler = scheduler;
    }

    /** The containers whose resources are freed, among them those that are asked for again. Live, safe for all threads. */
    Set<ContainerId> demoted() {
        return entries.keySet();
    }

    /** Whether a container of the attempt is demoted. */
    boolean putsAside(ApplicationAttemptId attempt) {
        return entries.keySet().stream().anyMatch(id -> id.getApplicationAttemptId().equals(attempt));
    }

    /** What application masters hear of updates. */
    Answers answers() {
        return answers;
    }

    /** The asks that the scheduler has not served. */
    List<Ask> asks() {
        return entries.values().stream().map(e -> e.ask).filter(a -> a != null).toList();
    }

    /**
     * Why the container's resources cannot be freed without ending it; null: they can. Application masters keep theirs,
     * and so do containers in a partition that their queue only borrows: the queue keeps a list of these that cannot be
     * kept right.
     */
    String ineligible(RMContainer container) {
        FiCaSchedulerNode node = scheduler.getNode(container.getContainer().getNodeId());
        return node == null ? "its node is gone"
            : container.isAMContainer() ? "application masters are not suspended"
            : borrowed(container, node) ? "its queue only borrows the partition" : null;
    }

    /**
     * Whether this is not a container but what the scheduler makes for a moment to carry resources to one. It must not
     * be marked for preemption: its application would look for it after it has vanished.
     */
    boolean vanishes(RMContainer container) {
        SchedulerRequestKey key = container.getAllocatedSchedulerKey();
        return container.getState() == RMContainerState.NEW || key != null && key.getContainerToUpdate() != null;
    }

    private static boolean borrowed(RMContainer container, FiCaSchedulerNode node) {
        String label = container.getNodeLabelExpression();
        return (label == null || label.isEmpty()) && !node.getPartition().isEmpty();
    }

    boolean gone(ContainerId id) {
        RMContainer container = scheduler.getRMContainer(id);
        return container == null || container.completed();
    }

    /** Frees the container's resources in its node, queue, user, application and in all metrics. */
    Outcome demote(ContainerId id, long nowMs) {
        return scheduler.betweenRounds(() -> {
            RMContainer container = scheduler.getRMContainer(id);
            FiCaSchedulerApp app = scheduler.getCurrentAttemptForContainer(id);
            if (container == null || container.completed() || app == null || app.isStopped()) {
                return Outcome.GONE;
            }
            if (entries.containsKey(id)) {
                return Outcome.DONE;
            }
            if (container.getExecutionType() != ExecutionType.GUARANTEED) {
                return Outcome.NEVER; // was opportunistic from the beginning: it has no resources
            }
            if (container.getState() != RMContainerState.RUNNING || Ask.key(container, app).pending()) {
                return Outcome.LATER; // not seen by its node yet, or its master wants it changed
            }
            if (ineligible(container) != null) {
                return Outcome.NEVER;
            }
            Entry entry = new Entry(container, nowMs);
            answers.ours(id);
            entries.put(id, entry);
            answers.keep(app.getApplicationAttemptId(), inContext(app, () -> {
                update(app, container, ContainerUpdateType.DEMOTE_EXECUTION_TYPE);
                return app.pullNewlyDemotedContainers();
            }));
            if (container.getExecutionType() != ExecutionType.OPPORTUNISTIC) {
                entries.remove(id);
                answers.settled(id);
                return Outcome.LATER;
            }
            hide(entry);
            return Outcome.DONE;
        });
    }

    /**
     * Asks the scheduler for the resources of a demoted container.
     *
     * @param reserve the scheduler may keep the node for it when there is no room now
     * @return whether the ask is out
     */
    boolean ask(ContainerId id, boolean reserve) {
        return scheduler.exclusively(() -> {
            Entry entry = entries.get(id);
            FiCaSchedulerApp app = scheduler.getCurrentAttemptForContainer(id);
            FiCaSchedulerNode node = entry == null ? null : scheduler.getNode(entry.container.getContainer().getNodeId());
            if (node == null || app == null || app.isStopped() || entry.ask != null) {
                return false;
            }
            Ask ask = new Ask(Ask.key(entry.container, app), node, reserve);
            show(entry); // the scheduler must find it on its node from now on
            entry.ask = ask;
            update(app, entry.container, ContainerUpdateType.PROMOTE_EXECUTION_TYPE);
            if (!ask.key().pending()) {
                entry.ask = null;
                hide(entry);
                return false;
            }
            return true;
        });
    }

    /** Whether the scheduler has served the ask: the container is then what it was before its demotion. */
    boolean promoted(ContainerId id) {
        Entry asked = entries.get(id);
        boolean waits = asked == null || !isGuaranteed(asked) && (asked.ask == null || asked.ask.key().pending());
        return !waits && scheduler.exclusively(() -> { // nearly always it waits, and nobody is held up to see that
            Entry entry = entries.get(id);
            if (entry == null) {
                return false;
            }
            Ask ask = entry.ask;
            if (ask != null && !ask.key().pending() && !isGuaranteed(entry)) {
                FiCaSchedulerApp app = ask.key().app();
                answers.keep(app.getApplicationAttemptId(), inContext(app, app::pullNewlyPromotedContainers));
            }
            if (!isGuaranteed(entry)) {
                return false;
            }
            Container container = entry.container.getContainer();
            container.setVersion(entry.version);
            container.setContainerToken(entry.token);
            entries.remove(id);
            answers.settled(id);
            return true;
        });
    }

    private static boolean isGuaranteed(Entry entry) {
        return entry.container.getExecutionType() == ExecutionType.GUARANTEED;
    }

    /** Whether the ask has vanished without being served, as it does with the attempt of its application. */
    boolean lost(ContainerId id) {
        Entry entry = entries.get(id);
        Ask ask = entry == null ? null : entry.ask;
        return ask != null && !isGuaranteed(entry)
            && (ask.key().app().isStopped() || scheduler.getCurrentAttemptForContainer(id) != ask.key().app());
    }

    /** Takes the ask back, if it is not served yet. */
    void withdraw(ContainerId id) {
        scheduler.exclusively(() -> {
            Entry entry = entries.get(id);
            if (entry != null && entry.ask != null && !promoted(id)) {
                entry.ask.withdraw(scheduler);
                entry.ask = null;
                hide(entry);
            }
            return null;
        });
    }

    /** Forgets a container that has ended. */
    void forget(ContainerId id) {
        scheduler.exclusively(() -> {
            Entry entry = entries.remove(id);
            answers.settled(id);
            if (entry != null && entry.ask != null) {
                entry.ask.withdraw(scheduler);
            }
            return null;
        });
    }

    /** Ends the container as YARN's preemption does: its master sees PREEMPTED. */
    void kill(ContainerId id) {
        end(SchedulerUtils.createPreemptedContainerStatus(id, SchedulerUtils.PREEMPTED_CONTAINER));
    }

    /** Ends the container so that its master asks for another: it sees ABORTED, which counts as a failure of nobody's. */
    void release(ContainerId id) {
        end(SchedulerUtils.createAbnormalContainerStatus(id, "Container is released to go on on another machine"));
    }

    private void end(ContainerStatus status) {
        scheduler.exclusively(() -> {
            RMContainer container = scheduler.getRMContainer(status.getContainerId());
            if (container != null) {
                scheduler.completedContainer(container, status, RMContainerEventType.KILL);
            }
            return null;
        });
    }

    /**
     * Gives back to the applications the memory- and core-seconds that they are charged for demoted containers. To be
     * called every second or more often.
     *
     * @param nowMs by the clock that demote was called with
     * @param idle whether one does not run
     */
    void refund(long nowMs, Predicate<ContainerId> idle) {
        for (Entry entry : entries.values()) {
            long millis = (nowMs - entry.refundedMs) / 1000 * 1000; // YARN counts whole seconds
            entry.refundedMs += millis;
            RMApp app = scheduler.getRMContext().getRMApps()
                .get(entry.container.getContainerId().getApplicationAttemptId().getApplicationId());
            RMAppAttempt attempt = app == null ? null : app.getCurrentAppAttempt();
            boolean owed = !entry.container.completed() && !isGuaranteed(entry) && idle.test(entry.container.getContainerId());
            if (attempt != null && owed) {
                attempt.getRMAppAttemptMetrics()
                    .updateAggregateAppResourceUsage(entry.container.getContainer().getResource(), -millis);
            }
        }
    }

    /**
     * Has the scheduler find all containers of a node that it is about to remove, for it to end them.
     *
     * @return how many were not to be found
     */
    int reveal(NodeId node) {
        refused.remove(node);
        return scheduler.exclusively(() -> {
            List<Entry> hidden = entries.values().stream()
                .filter(e -> e.hidden && e.container.getContainer().getNodeId().equals(node)).toList();
            hidden.forEach(this::show);
            return hidden.size();
        });
    }

    /**
     * Discards the container that the scheduler makes to carry resources during an update, without the errors that
     * YARN logs when it does so itself.
     *
     * @return false: it is another one
     */
    boolean discards(RMContainer carrier) {
        ContainerId id = carrier.getContainerId();
        boolean guaranteed = carrier.getExecutionType() == ExecutionType.GUARANTEED;
        if (guaranteed && carrier.getState() == RMContainerState.NEW) {
            scheduler.completedContainer(carrier,
                SchedulerUtils.createAbnormalContainerStatus(id, SchedulerUtils.RELEASED_CONTAINER),
                RMContainerEventType.KILL);
            return true;
        }
        if (guaranteed || carrier.getState() != RMContainerState.ALLOCATED) {
            return false;
        }
        FiCaSchedulerApp app = scheduler.getCurrentAttemptForContainer(id);
        if (app != null && app.removeRMContainer(id)) {
            OpportunisticSchedulerMetrics.getMetrics().incrReleasedOppContainers(1);
        }
        FiCaSchedulerNode node = scheduler.getNode(carrier.getNodeId());
        if (node != null) {
            node.releaseContainer(id, false);
        }
        return true;
    }

    /** What moves an application to another queue, and says which. */
    interface Move {
        String run() throws YarnException;
    }

    /**
     * Has the scheduler move an application. It moves the metrics of all containers of the application, whether they use
     * resources or not; what is too much of that is undone. The caller holds the scheduler's write lock.
     */
    String move(ApplicationId application, Move work) throws YarnException {
        List<Entry> moved = entries.values().stream()
            .filter(e -> e.container.getContainerId().getApplicationAttemptId().getApplicationId().equals(application))
            .filter(e -> scheduler.getCurrentAttemptForContainer(e.container.getContainerId()) != null)
            .toList();
        moved.forEach(e -> withdraw(e.container.getContainerId()));
        Map<Entry, QueueMetrics> before = new HashMap<>();
        moved.forEach(e -> before.put(e, metrics(e)));
        String queue = work.run();
        for (Entry entry : moved) {
            if (entries.containsValue(entry) && metrics(entry) != before.get(entry)) {
                String label = entry.container.getNodeLabelExpression();
                String user = scheduler.getCurrentAttemptForContainer(entry.container.getContainerId()).getUser();
                Resource resource = entry.container.getContainer().getResource();
                before.get(entry).allocateResources(label, user, 1, resource, false);
                metrics(entry).releaseResources(label, user, 1, resource);
            }
        }
        return queue;
    }

    private QueueMetrics metrics(Entry entry) {
        return scheduler.getCurrentAttemptForContainer(entry.container.getContainerId()).getQueue().getMetrics();
    }

    // Some of YARN's selectors of victims go through the containers of a node whether they use resources or not. A
    // container that they find again and again would keep them from finding others.
    private void hide(Entry entry) {
        FiCaSchedulerNode node = scheduler.getNode(entry.container.getContainer().getNodeId());
        if (node != null && !entry.hidden) {
            node.releaseContainer(entry.container.getContainerId(), true);
            entry.hidden = true;
        }
    }

    private void show(Entry entry) {
        FiCaSchedulerNode node = scheduler.getNode(entry.container.getContainer().getNodeId());
        if (node != null && entry.hidden && !entry.container.completed()) {
            node.allocateContainer(entry.container);
            node.containerStarted(entry.container.getContainerId());
            scheduler.getRMContext().getAllocationTagsManager().addContainer(node.getNodeID(),
                entry.container.getContainerId(), entry.container.getAllocationTags()); // the node has taken them away
            entry.hidden = false;
        }
    }

    private void update(FiCaSchedulerApp app, RMContainer container, ContainerUpdateType type) {
        boolean demote = type == ContainerUpdateType.DEMOTE_EXECUTION_TYPE;
        UpdateContainerRequest request = UpdateContainerRequest.newInstance(container.getContainer().getVersion(),
            container.getContainerId(), type, null, demote ? ExecutionType.OPPORTUNISTIC : ExecutionType.GUARANTEED);
        ContainerUpdates updates = new ContainerUpdates();
        (demote ? updates.getDemotionRequests() : updates.getPromotionRequests()).add(request);
        scheduler.update(app, updates);
    }

    // Without opportunistic containers in the ResourceManager an application has no context for updates. It is given
    // one meanwhile only, so that nobody else carries them out.
    private static <T> T inContext(FiCaSchedulerApp app, Supplier<T> work) {
        app.getWriteLock().lock();
        OpportunisticContainerContext own = app.getOpportunisticContainerContext();
        try {
            if (own == null) {
                app.setOpportunisticContainerContext(contextOf(app));
            }
            return work.get();
        } finally {
            app.setOpportunisticContainerContext(own);
            app.getWriteLock().unlock();
        }
    }

    private static OpportunisticContainerContext contextOf(FiCaSchedulerApp app) {
        OpportunisticContainerContext context = new OpportunisticContainerContext();
        context.setContainerIdGenerator(new ContainerIdGenerator() {
            @Override
            public long generateContainerId() {
                return app.getAppSchedulingInfo().getNewContainerId();
            }
        });
        return context;
    }

    /**
     * Whether the scheduler must not carry a proposal out: it is for an ask of ours, but on another node of the same
     * host, or a reservation where none is wanted.
     */
    boolean refuses(ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request) {
        if (entries.isEmpty() || !request.anythingAllocatedOrReserved()) {
            return false;
        }
        ContainerAllocationProposal<FiCaSchedulerApp, FiCaSchedulerNode> proposal =
            request.getFirstAllocatedOrReservedContainer();
        SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> place = proposal.getAllocatedOrReservedContainer();
        ContainerId id = place.getSchedulerRequestKey().getContainerToUpdate();
        Entry entry = id == null ? null : entries.get(id);
        Ask ask = entry == null ? null : entry.ask;
        boolean refuse = ask != null && !ask.allows(place.getSchedulerNode(), place.isAllocated());
        if (refuse && place.getSchedulerNode() == ask.node()) {
            refused.put(ask.node().getNodeID(), Reconciler.clock());
        }
        return refuse;
    }

    /**
     * When the scheduler last wanted to reserve a node for an ask of ours and might not. It has given nothing to anybody
     * there then, although others may have use for what is free. 0: never.
     */
    long refusedMs(NodeId node) {
        return refused.getOrDefault(node, 0L);
    }
}
