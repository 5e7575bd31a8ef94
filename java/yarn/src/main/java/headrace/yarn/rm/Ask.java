package headrace.yarn.rm;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.ExecutionTypeRequest;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * An ask of the scheduler for the resources that a demoted container had, on its node.
 *
 * @param reserve the scheduler may keep the node for it
 */
record Ask(Key key, FiCaSchedulerNode node, boolean reserve) {

    /** Under what the scheduler has noted updates of a container in an attempt of its application. */
    record Key(FiCaSchedulerApp app, RMContainer container, SchedulerRequestKey request) {

        /** Whether an update is noted that is not served. */
        boolean pending() {
            return app.getOutstandingAsksCount(request) > 0;
        }
    }

    static Key key(RMContainer container, FiCaSchedulerApp app) {
        SchedulerRequestKey allocated = container.getAllocatedSchedulerKey();
        return new Key(app, container, new SchedulerRequestKey(
            allocated.getPriority(), allocated.getAllocationRequestId(), container.getContainerId()));
    }

    Resource resource() {
        return key.container().getContainer().getResource();
    }

    boolean allows(FiCaSchedulerNode place, boolean allocated) {
        return place == node && (allocated || reserve);
    }

    /** The caller holds the scheduler's write lock, and has seen that the ask is not served. */
    void withdraw(HeadraceScheduler scheduler) {
        FiCaSchedulerApp app = key.app();
        for (RMContainer reserved : app.getReservedContainers()) {
            if (key.request().equals(reserved.getReservedSchedulerKey())) {
                scheduler.killReservedContainer(reserved);
            }
        }
        app.getWriteLock().lock();
        try {
            if (!app.isStopped() && key.pending()) {
                app.getAppSchedulingInfo().updateResourceRequests(Map.of(key.request(), nothing()), false);
            }
            app.getUpdateContext().removeFromOutstandingUpdate(key.request(), key.container().getContainer());
        } finally {
            app.getWriteLock().unlock();
        }
    }

    private Map<String, ResourceRequest> nothing() {
        Container container = key.container().getContainer();
        Map<String, ResourceRequest> requests = new HashMap<>();
        for (String place : List.of(container.getNodeId().getHost(), node.getRackName(), ResourceRequest.ANY)) {
            requests.put(place, ResourceRequest.newBuilder()
                .resourceName(place)
                .numContainers(0)
                .relaxLocality(false)
                .priority(container.getPriority())
                .allocationRequestId(key.request().getAllocationRequestId())
                .capability(container.getResource())
                .nodeLabelExpression(key.container().getNodeLabelExpression())
                .executionTypeRequest(ExecutionTypeRequest.newInstance(ExecutionType.GUARANTEED, true))
                .build());
        }
        return requests;
    }
}
