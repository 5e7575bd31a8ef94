package headrace.yarn.rm;

import headrace.yarn.Unlinkable;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;

/** In a hurry. */
public class TestScheduler extends HeadraceScheduler {
    static final Timing HURRIED = hurried(3_600_000, 3_600_000);

    /** Setting: how long nothing may be heard of an order, in milliseconds. */
    static final String SILENT_MS = "headrace.test.silent-ms";

    /** Setting: what soon is, in milliseconds. */
    static final String SOON_MS = "headrace.test.soon-ms";

    /** Whether YARN's preemption chooses what carries resources to a container as soon as it is there. */
    volatile boolean choosesCarriers;
    volatile int carriers;

    /** How often the reconciler is still to fail when it looks an application up. */
    final AtomicInteger failures = new AtomicInteger();

    /** The thread in which a look at a container needs a class that cannot be linked, and how often it has. */
    volatile String unlinkable = "";
    final AtomicInteger errors = new AtomicInteger();

    /** How often the reconciler has looked a container up. */
    final AtomicInteger rounds = new AtomicInteger();

    /** How often the reconciler has looked an application up, and how often it has kept everybody else out. */
    final AtomicInteger looks = new AtomicInteger();
    final AtomicInteger alone = new AtomicInteger();

    /** How many rounds of YARN's preemption have begun. */
    final AtomicInteger policyRounds = new AtomicInteger();

    private static Timing hurried(long soon, long silent) {
        return new Timing(10, 20, 500, 50, 60, soon, 300, 600, silent, silent, 50, 3000, 20_000);
    }

    private static boolean reconciler() {
        return Thread.currentThread().getName().equals("headrace-reconciler");
    }

    @Override
    <T> T exclusively(Supplier<T> work) {
        if (reconciler()) {
            alone.incrementAndGet();
        }
        return super.exclusively(work);
    }

    @Override
    public FiCaSchedulerApp getCurrentAttemptForContainer(ContainerId id) {
        if (reconciler()) {
            looks.incrementAndGet();
        }
        if (reconciler() && failures.getAndUpdate(left -> Math.max(0, left - 1)) > 0) {
            throw new IllegalStateException("a test");
        }
        return super.getCurrentAttemptForContainer(id);
    }

    @Override
    public RMContainer getRMContainer(ContainerId id) {
        if (unlinkable != null && Thread.currentThread().getName().equals(unlinkable)) { // null: super's constructor
            errors.incrementAndGet();
            Unlinkable.use();
        }
        if (rounds != null && reconciler()) {
            rounds.incrementAndGet();
        }
        return super.getRMContainer(id);
    }

    @Override
    void roundBegins() {
        policyRounds.incrementAndGet();
        super.roundBegins();
    }

    @Override
    @SuppressWarnings("rawtypes")
    public boolean tryCommit(Resource cluster, ResourceCommitRequest proposal, boolean updatePending) {
        boolean done = super.tryCommit(cluster, proposal, updatePending);
        if (done && choosesCarriers) {
            getSchedulerApplications().values().forEach(app -> choose(app.getCurrentAppAttempt()));
        }
        return done;
    }

    private void choose(SchedulerApplicationAttempt attempt) {
        List<RMContainer> live = List.copyOf(attempt.getLiveContainers());
        for (RMContainer container : live) {
            if (container.getAllocatedSchedulerKey().getContainerToUpdate() != null) {
                carriers++;
                markContainerForPreemption(attempt.getApplicationAttemptId(), container);
                markContainerForKillable(container);
            }
        }
    }

    @Override
    Timing timing() {
        long soon = getConfig().getLong(SOON_MS, HURRIED.soon());
        long silent = getConfig().getLong(SILENT_MS, HURRIED.silent());
        return hurried(soon, silent);
    }
}
