package headrace.yarn.rm;

import java.util.List;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;

/** In a hurry. */
public class TestScheduler extends HeadraceScheduler {
    static final Timing HURRIED = new Timing(10, 20, 500, 50, 60, 500, 300, 600, 500, 500, 50, 3000);

    /** Whether YARN's preemption chooses what carries resources to a container as soon as it is there. */
    volatile boolean choosesCarriers;
    volatile int carriers;

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
        return HURRIED;
    }
}
