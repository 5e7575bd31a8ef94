package headrace.yarn.rm;

import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.QueueMetrics;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.AbstractLeafQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/** Everything that the scheduler keeps count of, to be compared. */
record Accounts(Map<String, String> values) {

    static Accounts of(TestCluster cluster) {
        Map<String, String> values = new TreeMap<>();
        HeadraceScheduler scheduler = cluster.scheduler();
        queue(values, scheduler.getRootQueue());
        for (FiCaSchedulerNode node : scheduler.getAllNodes()) {
            values.put("node " + node.getNodeID(), node.getUnallocatedResource() + " free, " + node.getAllocatedResource()
                + " used, " + node.getNumContainers() + " containers, reserved " + node.getReservedContainer() + ", runs "
                + node.getCopiedListOfRunningContainers().stream().map(c -> c.getContainerId().toString()).sorted().toList());
        }
        return new Accounts(values);
    }

    private static void queue(Map<String, String> values, CSQueue queue) {
        QueueMetrics m = queue.getMetrics();
        values.put("queue " + queue.getQueuePath(), "used " + queue.getQueueResourceUsage().getUsed()
            + " pending " + queue.getQueueResourceUsage().getPending()
            + " reserved " + queue.getQueueResourceUsage().getReserved()
            + " am " + queue.getQueueResourceUsage().getAMUsed()
            + " capacity " + queue.getUsedCapacity() + " absolute " + queue.getAbsoluteUsedCapacity());
        values.put("metrics " + queue.getQueuePath(), "allocated " + m.getAllocatedMB() + " MB " + m.getAllocatedVirtualCores()
            + " cores " + m.getAllocatedContainers() + " containers, pending " + m.getPendingMB() + " MB "
            + m.getPendingContainers() + " containers, reserved " + m.getReservedMB() + " MB " + m.getReservedContainers()
            + " containers, available " + m.getAvailableMB() + " MB");
        if (queue instanceof AbstractLeafQueue leaf) {
            leaf.getAllUsers().forEach(user -> values.put("user " + user + " in " + queue.getQueuePath(),
                leaf.getUser(user).getResourceUsage().getUsed().toString()));
            leaf.getAllApplications().forEach(app -> app(values, app));
        } else {
            queue.getChildQueues().forEach(child -> queue(values, child));
        }
    }

    private static void app(Map<String, String> values, FiCaSchedulerApp app) {
        ApplicationAttemptId id = app.getApplicationAttemptId();
        values.put("app " + id, "used " + app.getAppAttemptResourceUsage().getUsed() + " pending "
            + app.getAppAttemptResourceUsage().getPending() + " reserved " + app.getAppAttemptResourceUsage().getReserved()
            + " of " + app.getTotalPendingRequestsPerPartition());
        for (RMContainer c : app.getLiveContainers()) {
            values.put("container " + c.getContainerId(), c.getExecutionType() + " " + c.getState() + " version "
                + c.getContainer().getVersion() + " " + c.getAllocatedResource() + " token " + c.getContainer().getContainerToken());
        }
    }

    @Override
    public String toString() {
        return String.join("\n", values.entrySet().stream().map(e -> e.getKey() + ": " + e.getValue()).toList());
    }
}
