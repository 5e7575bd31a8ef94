package headrace.yarn.rm;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;

/**
 * What application masters hear of updates of containers: of their own all, of ours nothing. YARN carries out what there
 * is to update whenever anybody looks, a master with its heartbeat or we, and gives the result to whoever has looked.
 */
final class Answers {
    // A heartbeat that has found an update of ours is answered before that.
    private static final long HEARTBEAT_MS = 5000;
    private static final long NOT_SETTLED = Long.MAX_VALUE;

    // Ours, and until when.
    private final Map<ContainerId, Long> ours = new HashMap<>();
    // Updates that a master has asked for and that we have found.
    private final Map<ApplicationAttemptId, List<Container>> strays = new HashMap<>();

    /** From now on what happens to the container is our business. */
    synchronized void ours(ContainerId id) {
        ours.put(id, NOT_SETTLED);
    }

    /** All of that has happened. */
    synchronized void settled(ContainerId id) {
        long now = Reconciler.clock();
        ours.values().removeIf(until -> until < now);
        ours.computeIfPresent(id, (key, until) -> now + HEARTBEAT_MS);
    }

    /** Keeps of what we have found what is not ours. */
    synchronized void keep(ApplicationAttemptId attempt, List<Container> found) {
        for (Container container : found) {
            if (container != null && !ours.containsKey(container.getId())) {
                strays.computeIfAbsent(attempt, a -> new ArrayList<>()).add(container);
            }
        }
    }

    /** Takes out of the answer to a heartbeat what is ours, and adds what we have kept. */
    synchronized Allocation scrub(ApplicationAttemptId attempt, Allocation allocation) {
        List<Container> ups = allocation.getPromotedContainers();
        List<Container> downs = allocation.getDemotedContainers();
        if (ups == null || downs == null) {
            return allocation; // nothing is given out
        }
        ups.removeIf(c -> ours.containsKey(c.getId()));
        downs.removeIf(c -> ours.containsKey(c.getId()));
        List<Container> own = strays.remove(attempt);
        for (Container container : own == null ? List.<Container>of() : own) {
            (container.getExecutionType() == ExecutionType.GUARANTEED ? ups : downs).add(container);
        }
        return allocation;
    }
}
