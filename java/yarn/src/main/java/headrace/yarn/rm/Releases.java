package headrace.yarn.rm;

import headrace.client.ManagerClient;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Predicate;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.util.resource.Resources;
import org.slf4j.LoggerFactory;

/**
 * Has containers released that have waited for room on their own machine while there is some on another (delay
 * scheduling: os-assisted-preemption, V.A), as many as have room there and as their queues and users may have. The manager
 * decides whether that is sooner. Called by the reconciler's thread.
 */
final class Releases {
    // An upload takes its time.
    private static final int PATIENT = 20;
    private static final int SENT_WITHIN = 10;

    private final HeadraceScheduler scheduler;
    private final ManagerClient manager;
    private final Settings.Elsewhere elsewhere;
    private final Timing timing;
    private final ExecutorService caller = Executors.newSingleThreadExecutor(work -> {
        Thread thread = new Thread(work, "headrace-releases");
        thread.setDaemon(true);
        return thread;
    });
    private final Map<ContainerId, Leaving> leaving = new ConcurrentHashMap<>();
    private final Warnings warnings = new Warnings(LoggerFactory.getLogger(Releases.class),
        "Containers wait for room on their own machine");

    /**
     * A container that is to have the room that is elsewhere.
     *
     * @param leftAt when it has been given up, since when its application asks anew, as {@link RMContainer} has it; 0: not yet
     * @param untilMs when others may have it at the latest
     */
    private record Leaving(RMContainer container, long leftAt, long untilMs) {
    }

    Releases(HeadraceScheduler scheduler, ManagerClient manager, Settings.Elsewhere elsewhere, Timing timing) {
        this.scheduler = scheduler;
        this.manager = manager;
        this.elsewhere = elsewhere;
        this.timing = timing;
    }

    /**
     * Returns at once. What comes of it is told by the manager: the container is archived, or is not.
     *
     * @param stranded it can go on elsewhere only, whoever has the room there
     */
    void consider(Suspension s, RMContainer container, boolean stranded, long now) {
        long waited = now - s.asideMs;
        if (elsewhere.types().isEmpty() || waited < elsewhere.afterMs() || now < s.releaseMs || !asksAgain(container)) {
            return;
        }
        leaving.remove(s.id);
        List<RMContainer> others = stranded ? List.of() : leaving.values().stream().map(Leaving::container).toList();
        if (!roomElsewhere(container, others) || !stranded && !Headroom.permits(container, scheduler, others)) {
            return;
        }
        leaving.put(s.id, new Leaving(container, 0, now + SENT_WITHIN * timing.soon()));
        s.releaseMs = now + 2 * timing.retry();
        try {
            caller.execute(() -> call(s.id, waited / 1000.0));
        } catch (RejectedExecutionException e) {
            // stopping
        }
    }

    /** A container has been given up. The room elsewhere is its application's, until that has got a container, but not for long. */
    void left(ContainerId id, long now) {
        leaving.computeIfPresent(id, (key, l) -> new Leaving(l.container(), System.currentTimeMillis(), now + timing.soon()));
    }

    /** Others may have the room of those that do not leave any more. */
    void tidy(Predicate<ContainerId> waits, long now) {
        leaving.values().removeIf(l -> now > l.untilMs() || (l.leftAt() == 0 ? !waits.test(l.container().getContainerId()) : served(l)));
    }

    private boolean served(Leaving l) {
        FiCaSchedulerApp app = scheduler.getCurrentAttemptForContainer(l.container().getContainerId());
        return app == null || app.getLiveContainers().stream().anyMatch(c -> c.getCreationTime() >= l.leftAt());
    }

    /** How many milliseconds a container is left that nothing is given to where it is, and that is not released by then. */
    long patience(RMContainer container) {
        return asksAgain(container) ? PATIENT * elsewhere.afterMs() : elsewhere.afterMs();
    }

    // As long as it has waited it is expected to wait on: nothing else is known.
    private void call(ContainerId id, double wait) {
        try {
            if (!manager.release(id.toString(), wait)) {
                leaving.remove(id);
            }
            warnings.works();
        } catch (Throwable e) {
            leaving.remove(id);
            if (!Thread.currentThread().isInterrupted()) {
                warnings.fails(e);
            }
        }
    }

    private boolean asksAgain(RMContainer container) {
        return elsewhere.asksAgain(scheduler.getRMContext().getRMApps()
            .get(container.getContainerId().getApplicationAttemptId().getApplicationId()));
    }

    // What is left when each of the others has taken the first place that it fits in.
    private boolean roomElsewhere(RMContainer container, List<RMContainer> others) {
        FiCaSchedulerNode own = scheduler.getNode(container.getContainer().getNodeId());
        if (own == null) {
            return false;
        }
        List<Resource> free = scheduler.getAllNodes().stream()
            .filter(node -> node != own && node.getPartition().equals(own.getPartition()))
            .filter(node -> node.getRMNode().getState() == NodeState.RUNNING && node.getReservedContainer() == null)
            .map(node -> Resources.clone(node.getUnallocatedResource())).toList();
        for (RMContainer other : others) {
            Resource taken = other.getContainer().getResource();
            free.stream().filter(f -> fits(taken, f)).findFirst().ifPresent(f -> Resources.subtractFrom(f, taken));
        }
        return free.stream().anyMatch(f -> fits(container.getContainer().getResource(), f));
    }

    private boolean fits(Resource needed, Resource free) {
        return Resources.fitsIn(scheduler.getResourceCalculator(), needed, free);
    }

    void stop() {
        caller.shutdownNow();
    }
}
