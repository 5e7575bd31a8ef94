package headrace.yarn.rm;

import headrace.client.ManagerClient;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.util.resource.Resources;
import org.slf4j.LoggerFactory;

/**
 * Has containers released that have waited for room on their own machine while there is some on another (delay
 * scheduling: os-assisted-preemption, V.A). The manager decides whether that is sooner. Called by the reconciler's thread.
 */
final class Releases {
    // An upload takes its time.
    private static final int PATIENT = 20;

    private final HeadraceScheduler scheduler;
    private final ManagerClient manager;
    private final Settings.Elsewhere elsewhere;
    private final Timing timing;
    private final ExecutorService caller = Executors.newSingleThreadExecutor(work -> {
        Thread thread = new Thread(work, "headrace-releases");
        thread.setDaemon(true);
        return thread;
    });
    private final Warnings warnings = new Warnings(LoggerFactory.getLogger(Releases.class),
        "Containers wait for room on their own machine");

    Releases(HeadraceScheduler scheduler, ManagerClient manager, Settings.Elsewhere elsewhere, Timing timing) {
        this.scheduler = scheduler;
        this.manager = manager;
        this.elsewhere = elsewhere;
        this.timing = timing;
    }

    /** Returns at once. What comes of it is told by the manager: the container is archived, or is not. */
    void consider(Suspension s, RMContainer container, long now) {
        long waited = now - s.asideMs;
        if (elsewhere.types().isEmpty() || waited < elsewhere.afterMs() || now < s.releaseMs
            || !asksAgain(container) || !roomElsewhere(container)) {
            return;
        }
        s.releaseMs = now + 2 * timing.retry();
        try {
            caller.execute(() -> call(s.id, waited / 1000.0));
        } catch (RejectedExecutionException e) {
            // stopping
        }
    }

    /** How many milliseconds a container is left that nothing is given to where it is, and that is not released by then. */
    long patience(RMContainer container) {
        return asksAgain(container) ? PATIENT * elsewhere.afterMs() : elsewhere.afterMs();
    }

    // As long as it has waited it is expected to wait on: nothing else is known.
    private void call(ContainerId id, double wait) {
        try {
            manager.release(id.toString(), wait);
            warnings.works();
        } catch (Throwable e) {
            if (!Thread.currentThread().isInterrupted()) {
                warnings.fails(e);
            }
        }
    }

    private boolean asksAgain(RMContainer container) {
        return elsewhere.asksAgain(scheduler.getRMContext().getRMApps()
            .get(container.getContainerId().getApplicationAttemptId().getApplicationId()));
    }

    private boolean roomElsewhere(RMContainer container) {
        Resource needed = container.getContainer().getResource();
        FiCaSchedulerNode own = scheduler.getNode(container.getContainer().getNodeId());
        return own != null && scheduler.getAllNodes().stream()
            .filter(node -> node != own && node.getPartition().equals(own.getPartition()))
            .filter(node -> node.getRMNode().getState() == NodeState.RUNNING && node.getReservedContainer() == null)
            .anyMatch(node -> Resources.fitsIn(scheduler.getResourceCalculator(), needed, node.getUnallocatedResource()));
    }

    void stop() {
        caller.shutdownNow();
    }
}
