package headrace.yarn.rm;

import headrace.client.Container;
import java.util.Optional;
import org.apache.hadoop.yarn.api.records.ContainerId;

/**
 * A container of YARN as the manager knows it.
 *
 * @param busy something is ordered or being done; what comes of it is not known yet
 * @param held a person has suspended it and decides when it goes on
 * @param away nothing is heard of its node; the rest is what was true last
 * @param archived its checkpoint waits where other machines find it
 * @param keeps a person has suspended it, and it is to keep its resources: it counts as running
 */
record RemoteContainer(ContainerId id, Container.State state, boolean busy, boolean held, boolean away, boolean archived,
        boolean keeps, String reason) {

    /** Returns nothing for a container of another scheduler. */
    static Optional<RemoteContainer> of(Container c) {
        if (!c.scheduler().equals("yarn")) {
            return Optional.empty();
        }
        try {
            return Optional.of(new RemoteContainer(ContainerId.fromString(c.id()), c.state(), c.busy(), c.held(),
                c.away(), c.archived(), c.keepsRoom(), c.reason()));
        } catch (IllegalArgumentException e) {
            return Optional.empty(); // not a name of YARN's
        }
    }

    /** Does not run, will not by itself, and needs no resources: suspended, or checkpointed durably. */
    boolean parked() {
        return !busy && state.aside() && !keeps;
    }

    boolean running() {
        return !busy && (state == Container.State.RUNNING || keeps);
    }
}
