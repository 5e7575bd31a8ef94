package headrace.yarn.rm;

import java.util.AbstractSet;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.monitor.capacity.ProportionalCapacityPreemptionPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceScheduler;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * YARN's own preemption, which passes over containers that are put aside, and for a while over masters of such. Those that are about to be go on being
 * chosen, so that nobody else is for the same demand. To be named in
 * {@code yarn.resourcemanager.scheduler.monitor.policies}.
 */
public class HeadracePreemptionPolicy extends ProportionalCapacityPreemptionPolicy {
    private static final Logger LOG = LoggerFactory.getLogger(HeadracePreemptionPolicy.class);

    private HeadraceScheduler scheduler;

    @Override
    public void init(Configuration conf, RMContext context, ResourceScheduler resourceScheduler) {
        super.init(conf, context, resourceScheduler);
        if (resourceScheduler instanceof HeadraceScheduler headrace) {
            scheduler = headrace;
        } else {
            LOG.warn("YARN's preemption stays as it is: yarn.resourcemanager.scheduler.class must be {}",
                HeadraceScheduler.class.getName());
        }
    }

    @Override
    public synchronized void editSchedule() {
        if (scheduler == null) {
            super.editSchedule();
            return;
        }
        scheduler.round(() -> {
            scheduler.roundBegins();
            getToPreemptContainers().keySet().removeIf(c -> scheduler.reconsiders(c.getContainerId()));
            super.editSchedule();
        });
    }

    @Override
    public Set<ContainerId> getKillableContainers() {
        Set<ContainerId> killable = super.getKillableContainers();
        return scheduler == null ? killable : new Either(scheduler, killable == null ? Set.of() : killable);
    }

    // Asked for each container of the cluster, and only what it contains: not to be copied.
    private static final class Either extends AbstractSet<ContainerId> {
        private final HeadraceScheduler scheduler;
        private final Set<ContainerId> one;
        private final Set<ContainerId> other;

        Either(HeadraceScheduler scheduler, Set<ContainerId> other) {
            this.scheduler = scheduler;
            this.one = scheduler.demoted();
            this.other = other;
        }

        @Override
        public boolean contains(Object id) {
            return one.contains(id) || other.contains(id) || id instanceof ContainerId c && scheduler.passesOver(c);
        }

        @Override
        public Iterator<ContainerId> iterator() {
            Set<ContainerId> all = new HashSet<>(one);
            all.addAll(other);
            return all.iterator();
        }

        @Override
        public int size() {
            return (int) one.stream().filter(id -> !other.contains(id)).count() + other.size();
        }
    }
}
