package headrace.yarn.rm;

import java.util.List;
import java.util.Set;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.exceptions.YarnException;
import org.apache.hadoop.yarn.server.api.protocolrecords.NMContainerStatus;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEventType;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ContainerUpdates;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.NodeRemovedSchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.ReleaseContainerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.SchedulerEvent;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The CapacityScheduler, whose preemption suspends and checkpoints. To be named in
 * {@code yarn.resourcemanager.scheduler.class}, together with {@link HeadracePreemptionPolicy}.
 */
public class HeadraceScheduler extends CapacityScheduler {
    private static final Logger LOG = LoggerFactory.getLogger(HeadraceScheduler.class);

    private final SchedulerBooks books = new SchedulerBooks(this);
    private final Plugin plugin = new Plugin(this, books);
    private final ReentrantLock round = new ReentrantLock();

    @Override
    public void serviceInit(Configuration conf) throws Exception {
        super.serviceInit(conf);
        plugin.init(conf);
    }

    @Override
    public void serviceStart() throws Exception {
        super.serviceStart();
        plugin.start();
    }

    @Override
    public void serviceStop() throws Exception {
        plugin.stop();
        super.serviceStop();
    }

    @Override
    public void markContainerForPreemption(ApplicationAttemptId attempt, RMContainer container) {
        Runnable stock = () -> super.markContainerForPreemption(attempt, container);
        if (!guarded(() -> plugin.takes(container, false, stock), false)) {
            stock.run();
        }
    }

    @Override
    public void markContainerForKillable(RMContainer container) {
        Runnable stock = () -> super.markContainerForKillable(container);
        if (!guarded(() -> plugin.takes(container, true, stock), false)) {
            stock.run();
        }
    }

    /** The NodeManager is told nothing of the updates made here. */
    @Override
    public boolean shouldContainersBeAutoUpdated() {
        return !plugin.active() && super.shouldContainersBeAutoUpdated();
    }

    @Override
    public Allocation allocate(ApplicationAttemptId attempt, List<ResourceRequest> ask, List<SchedulingRequest> requests,
            List<ContainerId> release, List<String> blacklistAdditions, List<String> blacklistRemovals,
            ContainerUpdates updates) {
        Allocation allocation =
            super.allocate(attempt, ask, requests, release, blacklistAdditions, blacklistRemovals, updates);
        return guarded(() -> books.answers().scrub(attempt, allocation), allocation);
    }

    @Override
    @SuppressWarnings({"rawtypes", "unchecked"})
    public boolean tryCommit(Resource cluster, ResourceCommitRequest proposal, boolean updatePending) {
        ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request = proposal;
        if (!guarded(() -> books.refuses(request), false)) {
            return super.tryCommit(cluster, proposal, updatePending);
        }
        if (!request.getContainersToAllocate().isEmpty()) {
            request.getFirstAllocatedOrReservedContainer().getAllocatedOrReservedContainer()
                .getSchedulerApplicationAttempt().decUnconfirmedRes(request.getTotalAllocatedResource());
        }
        return false;
    }

    @Override
    public void handle(SchedulerEvent event) {
        if (event instanceof NodeRemovedSchedulerEvent removed) {
            exclusively(() -> {
                guarded(() -> books.reveal(removed.getRemovedRMNode().getNodeID()), 0);
                super.handle(event);
                return null;
            });
            return;
        }
        if (plugin.active() && event instanceof ReleaseContainerEvent release
                && guarded(() -> books.discards(release.getContainer()), false)) {
            return;
        }
        super.handle(event);
    }

    @Override
    public void recoverContainersOnNode(List<NMContainerStatus> reports, RMNode node) {
        for (NMContainerStatus report : reports == null ? List.<NMContainerStatus>of() : reports) {
            int exit = report.getContainerExitStatus();
            report.setContainerExitStatus(guarded(() -> plugin.exitStatus(report.getContainerId(), exit), exit));
        }
        super.recoverContainersOnNode(reports, node);
    }

    @Override
    public void completedContainer(RMContainer container, ContainerStatus status, RMContainerEventType event) {
        int exit = status.getExitStatus();
        status.setExitStatus(guarded(() -> plugin.exitStatus(status.getContainerId(), exit), exit));
        super.completedContainer(container, status, event);
    }

    // Of all that ends containers only this is done without a lock; nothing may be demoted in the middle of it.
    @Override
    protected void releaseContainers(List<ContainerId> containers, SchedulerApplicationAttempt attempt) {
        if (containers.isEmpty() || !plugin.active()) {
            super.releaseContainers(containers, attempt);
            return;
        }
        readLock.lock();
        try {
            super.releaseContainers(containers, attempt);
        } finally {
            readLock.unlock();
        }
    }

    @Override
    public String moveApplication(ApplicationId application, String queue) throws YarnException {
        writeLock.lock();
        try {
            return books.move(application, () -> super.moveApplication(application, queue));
        } finally {
            writeLock.unlock();
        }
    }

    // What leaves a thread of the scheduler ends the ResourceManager, and an error may come at any time: a class is linked
    // when it is first used, and somebody may have written over the jar by then.
    private <T> T guarded(Supplier<T> ours, T otherwise) {
        try {
            return ours.get();
        } catch (Throwable e) {
            LOG.error("Headrace is passed over here", e);
            return otherwise;
        }
    }

    /** Tells the application of a container that it will be killed, as YARN does. */
    void warn(RMContainer container) {
        super.markContainerForPreemption(container.getContainerId().getApplicationAttemptId(), container);
    }

    /** Kills a container whose application has been warned for long, as YARN does. */
    void kill(RMContainer container) {
        super.markContainerForKillable(container);
    }

    /** The containers that {@link HeadracePreemptionPolicy} must not choose, because they use nothing. */
    Set<ContainerId> demoted() {
        return guarded(books::demoted, Set.of());
    }

    /** Called by {@link HeadracePreemptionPolicy} before it chooses. */
    void roundBegins() {
        guarded(() -> {
            plugin.roundBegins();
            return null;
        }, null);
    }

    /** Whether {@link HeadracePreemptionPolicy} must not choose a container although it uses resources. */
    boolean passesOver(ContainerId container) {
        return guarded(() -> plugin.passesOver(container), false);
    }

    /** Whether the preemption policy is to treat a container that it has chosen before as if it had not. */
    boolean reconsiders(ContainerId container) {
        return guarded(() -> plugin.reconsiders(container), false);
    }

    /**
     * Has a round of YARN's preemption run. Nobody is put aside in the middle of it: the policy would count the room of one who
     * is charged no more as still to be had, or not see him at all, and choose another one for the same demand.
     */
    void round(Runnable preemption) {
        round.lock();
        try {
            preemption.run();
        } finally {
            round.unlock();
        }
    }

    /** As {@link #exclusively}, and not in the middle of a round. */
    <T> T betweenRounds(Supplier<T> work) {
        round.lock();
        try {
            return exclusively(work);
        } finally {
            round.unlock();
        }
    }

    /** Whether somebody waits for the end of a round. For tests. */
    boolean roundIsAwaited() {
        return round.hasQueuedThreads();
    }

    <T> T exclusively(Supplier<T> work) {
        writeLock.lock();
        try {
            return work.get();
        } finally {
            writeLock.unlock();
        }
    }

    void update(SchedulerApplicationAttempt attempt, ContainerUpdates updates) {
        handleContainerUpdates(attempt, updates);
    }

    Timing timing() {
        return Timing.STANDARD;
    }

    /** For tests. */
    Plugin plugin() {
        return plugin;
    }
}
