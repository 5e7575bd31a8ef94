package headrace.yarn.rm;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerAppUtils;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.AbstractLeafQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.UsersManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What there is for a demoted container now.
 *
 * @param fits its node has room for it that is not kept for anybody
 * @param share its queue has less than it is guaranteed, also with the container
 * @param contested somebody who is more urgent waits, perhaps for this room
 * @param overtaken somebody waits who comes after it in its queue, and would have the next room before it
 * @param rivals somebody of another queue waits
 */
record Headroom(boolean fits, boolean share, boolean contested, boolean overtaken, boolean rivals) {
    private static final Logger LOG = LoggerFactory.getLogger(Headroom.class);
    private static final int MOST_URGENT = 11;
    static final Headroom NONE = new Headroom(false, false, false, false, false);

    static Headroom of(RMContainer container, HeadraceScheduler scheduler, List<Ask> asks) {
        Survey survey = stranded(container, scheduler) == null ? Survey.around(container, scheduler, asks) : null;
        return survey == null ? NONE : survey.room(container.getContainer().getResource());
    }

    /** Why the scheduler gives a container nothing where it is, whatever is free there; null if it may. */
    static String stranded(RMContainer container, HeadraceScheduler scheduler) {
        FiCaSchedulerNode node = scheduler.getNode(container.getContainer().getNodeId());
        FiCaSchedulerApp app = scheduler.getCurrentAttemptForContainer(container.getContainerId());
        if (node != null && node.getRMNode().getState() == NodeState.DECOMMISSIONING) {
            return "its node is being decommissioned";
        }
        boolean listed = node != null && app != null && !app.isStopped() && SchedulerAppUtils.isPlaceBlacklisted(app, node, LOG);
        return listed ? "its application takes nothing on its node any more" : null;
    }

    /**
     * For whom a container gives way: the highest priority, on Headrace's scale, of an application of its queue that
     * outranks its own and waits. 0 if there is none, or if another queue waits for what it is guaranteed.
     */
    static int claim(RMContainer container, HeadraceScheduler scheduler) {
        Survey survey = Survey.around(container, scheduler, List.of());
        return survey == null ? 0 : survey.claim();
    }

    /** Whether its queue, those above, and its user may have a container in addition, and these others, wherever that is. */
    static boolean permits(RMContainer container, HeadraceScheduler scheduler, List<RMContainer> others) {
        Survey survey = Survey.around(container, scheduler, List.of());
        return survey != null && survey.permits(container.getContainer().getResource(), others);
    }

    /** A priority of YARN, where more is more urgent, on Headrace's scale. */
    static int onOurScale(Priority of) {
        return of == null ? 0 : Math.max(0, Math.min(of.getPriority(), MOST_URGENT));
    }

    private record Survey(HeadraceScheduler scheduler, FiCaSchedulerNode node, FiCaSchedulerApp app, List<Ask> asks) {

        static Survey around(RMContainer container, HeadraceScheduler scheduler, List<Ask> asks) {
            FiCaSchedulerNode node = scheduler.getNode(container.getContainer().getNodeId());
            FiCaSchedulerApp app = scheduler.getCurrentAttemptForContainer(container.getContainerId());
            boolean there = node != null && node.getRMNode().getState() == NodeState.RUNNING && app != null && !app.isStopped();
            return there ? new Survey(scheduler, node, app, asks) : null;
        }

        int claim() {
            return underserved() ? 0 : waiting(other -> priority(other) > priority(app))
                .mapToInt(other -> onOurScale(other.getPriority())).max().orElse(0);
        }

        Headroom room(Resource needed) {
            boolean fits = node.getReservedContainer() == null
                && Resources.fitsIn(calculator(), needed, minus(node.getUnallocatedResource(), asked(a -> a.node() == node)));
            boolean keeping = asks.stream().anyMatch(a -> a.node() == node && a.reserve());
            boolean share = !keeping && guarantees(needed);
            return new Headroom(fits, share, outranked() || !share && underserved(), overtaken(), waitsElsewhere(queue -> true));
        }

        // As the scheduler has it: a user may have one container more than the limit.
        boolean permits(Resource needed, List<RMContainer> others) {
            AbstractLeafQueue own = app.getCSLeafQueue();
            Resource more = Resources.clone(needed);
            others.stream().filter(o -> {
                FiCaSchedulerApp of = scheduler.getCurrentAttemptForContainer(o.getContainerId());
                return of != null && of.getCSLeafQueue() == own;
            }).forEach(o -> Resources.addTo(more, o.getContainer().getResource()));
            for (CSQueue queue = own; queue != null; queue = queue.getParent()) {
                Resource limit = queue.getEffectiveMaxCapacity(node.getPartition());
                if (!Resources.fitsIn(calculator(), Resources.add(used(queue), more), limit)) {
                    return false;
                }
            }
            UsersManager.User user = own.getUser(app.getUser());
            Resource limit = own.getResourceLimitForActiveUsers(app.getUser(), scheduler.getClusterResource(), node.getPartition(),
                SchedulingMode.RESPECT_PARTITION_EXCLUSIVITY);
            return user == null || !Resources.greaterThan(calculator(), scheduler.getClusterResource(),
                Resources.add(user.getUsed(node.getPartition()), minus(more, needed)), limit);
        }

        private boolean guarantees(Resource needed) {
            AbstractLeafQueue own = app.getCSLeafQueue();
            Resource after = Resources.add(Resources.add(used(own), asked(a -> a.key().app().getCSLeafQueue() == own)), needed);
            return Resources.fitsIn(calculator(), after, own.getEffectiveCapacity(node.getPartition()));
        }

        // In its own queue, by the priority of applications.
        private boolean outranked() {
            return waits(other -> priority(other) > priority(app));
        }

        private boolean overtaken() {
            return waits(other -> priority(other) <= priority(app)
                && other.getApplicationId().compareTo(app.getApplicationId()) > 0);
        }

        // Whether one of these applications of its queue wants more than its containers that are put aside.
        private boolean waits(Predicate<FiCaSchedulerApp> which) {
            return waiting(which).findAny().isPresent();
        }

        private Stream<FiCaSchedulerApp> waiting(Predicate<FiCaSchedulerApp> which) {
            return app.getCSLeafQueue().getApplications().stream().filter(other -> other != app && which.test(other))
                .filter(other -> some(minus(other.getAppAttemptResourceUsage().getPending(node.getPartition()),
                    asked(a -> a.key().app() == other))));
        }

        private static int priority(FiCaSchedulerApp of) {
            return of.getPriority().getPriority();
        }

        // Elsewhere, by what the queues are guaranteed.
        private boolean underserved() {
            return waitsElsewhere(queue -> Resources.lessThan(calculator(), scheduler.getClusterResource(), used(queue),
                queue.getEffectiveCapacity(node.getPartition())));
        }

        private boolean waitsElsewhere(Predicate<AbstractLeafQueue> which) {
            return leaves(scheduler.getRootQueue(), new ArrayList<>()).stream()
                .filter(queue -> queue != app.getCSLeafQueue() && which.test(queue))
                .anyMatch(queue -> some(minus(queue.getQueueResourceUsage().getPending(node.getPartition()),
                    asked(a -> a.key().app().getCSLeafQueue() == queue))));
        }

        private static List<AbstractLeafQueue> leaves(CSQueue queue, List<AbstractLeafQueue> found) {
            if (queue instanceof AbstractLeafQueue leaf) {
                found.add(leaf);
            } else if (queue.getChildQueues() != null) {
                queue.getChildQueues().forEach(child -> leaves(child, found));
            }
            return found;
        }

        private Resource used(CSQueue queue) {
            return queue.getQueueResourceUsage().getUsed(node.getPartition());
        }

        // By asks of ours that the scheduler has not served.
        private Resource asked(Predicate<Ask> which) {
            Resource sum = Resources.clone(Resources.none());
            asks.stream().filter(which).forEach(a -> Resources.addTo(sum, a.resource()));
            return sum;
        }

        private static Resource minus(Resource all, Resource part) {
            return Resources.subtract(all, part);
        }

        private boolean some(Resource amount) {
            return calculator().isAnyMajorResourceAboveZero(amount);
        }

        private ResourceCalculator calculator() {
            return scheduler.getResourceCalculator();
        }
    }
}
