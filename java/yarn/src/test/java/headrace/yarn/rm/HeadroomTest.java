package headrace.yarn.rm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.ManagerClient;
import headrace.yarn.rm.Suspension.Phase;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerUpdateType;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.api.records.UpdateContainerRequest;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerImpl;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.QueueMetrics;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.constraint.AllocationTagsManager;
import org.junit.jupiter.api.Test;

/** When the scheduler is asked for the resources of a container, and what comes of it. */
class HeadroomTest extends OneApplication {
    private void hold(ContainerId id) throws Exception {
        manager.set(id, s -> {
            s.state = "suspended";
            s.held = true;
        });
        cluster.awaitPhase(id, Phase.PARKED);
    }

    @Test
    void anAskThatIsNotServedIsTakenBack() throws Exception {
        conf.setInt("yarn.scheduler.capacity.root.low.maximum-capacity", 50);
        ContainerId id = start(3).get(1);
        hold(id);
        ContainerId other = cluster.containers(am, node, 1).get(0); // the queue has all that it may have
        Accounts full = Accounts.of(cluster);
        manager.set(id, s -> s.held = false);
        for (int i = 0; i < 3; i++) {
            cluster.awaitPhase(id, Phase.ASKED);
            cluster.await("accounts as before", () -> Accounts.of(cluster).equals(full)); // it is soon asked for again
        }
        cluster.finish(am, node, other);
        cluster.awaitPhase(id, Phase.RUNNING);
        assertEquals(0, cluster.scheduler().getRootQueueMetrics().getPendingContainers());
    }

    @Test
    void aFullNodeIsNotAskedFor() throws Exception {
        ContainerId id = start(7).get(1);
        hold(id);
        ContainerId other = cluster.containers(am, node, 1).get(0);
        manager.set(id, s -> s.held = false);
        for (int i = 0; i < 60; i++) {
            cluster.beat();
            assertEquals(Phase.PARKED, cluster.scheduler().plugin().phase(id));
        }
        cluster.finish(am, node, other);
        cluster.awaitPhase(id, Phase.RUNNING);
    }

    @Test
    void whoComesAfterItInItsQueueDoesNotOvertakeIt() throws Exception {
        ContainerId id = start(6).get(1);
        MockAM younger = cluster.application("low", node);
        hold(id);
        ContainerId other = cluster.containers(am, node, 1).get(0);
        younger.allocate("*", TestCluster.GB, 1, new ArrayList<>());
        manager.set(id, s -> s.held = false);
        cluster.awaitPhase(id, Phase.ASKED);
        cluster.finish(am, node, other);
        cluster.awaitPhase(id, Phase.RUNNING);
        assertEquals(1, cluster.app(younger).getLiveContainers().size(), "the younger has had the room first");
    }

    @Test
    void whoStandsInLineHoldsNobodyUp() throws Exception {
        List<ContainerId> ids = start(7);
        MockAM younger = cluster.application("low", cluster.node("127.0.0.2:1002", 1));
        for (ContainerId id : ids.subList(0, 3)) {
            hold(id);
        }
        cluster.containers(am, node, 3);
        younger.allocate("*", TestCluster.GB, 1, new ArrayList<>());
        for (ContainerId id : ids.subList(0, 3)) {
            manager.set(id, s -> s.held = false);
            cluster.awaitPhase(id, Phase.ASKED);
        }
        TestScheduler scheduler = (TestScheduler) cluster.scheduler();
        int alone = scheduler.alone.get();
        int looks = scheduler.looks.get();
        cluster.await("many looks", () -> scheduler.looks.get() > looks + 200);
        assertEquals(alone, scheduler.alone.get());
        ids.subList(0, 3).forEach(id -> assertEquals(Phase.ASKED, cluster.scheduler().plugin().phase(id)));
    }

    /** It wants more than its node has free, what is free is enough for another queue, and YARN comes to it first. */
    @Test
    void whoStandsInLineDoesNotKeepRoomFromOtherQueues() throws Exception {
        TestCluster.queue(conf, "low", 20);
        TestCluster.queue(conf, "high", 80);
        cluster = new TestCluster(conf);
        node = cluster.node("127.0.0.1:1001", 12);
        MockAM high = cluster.application("high", node);
        cluster.containers(high, node, 11);
        node = cluster.node("127.0.0.2:1002", 10);
        am = cluster.application("low", node);
        ContainerId id = cluster.containers(am, node, 1, 4).get(0);
        MockAM younger = cluster.application("low", node);
        manager.set(id, s -> s.state = "running");
        hold(id);
        cluster.containers(high, node, 5);
        List<ResourceRequest> elsewhere = new ArrayList<>(); // for the node that is full
        for (String place : List.of("127.0.0.1", "/default-rack", "*")) {
            elsewhere.add(ResourceRequest.newInstance(Priority.newInstance(1), place, Resource.newInstance(TestCluster.GB, 1), 1,
                place.equals("127.0.0.1")));
        }
        younger.allocate(elsewhere, new ArrayList<>());
        manager.set(id, s -> s.held = false);
        cluster.node("127.0.0.3:1003", 2); // there must be room somewhere, or YARN reserves nothing
        cluster.awaitPhase(id, Phase.ASKED);
        high.allocate("*", 3 * TestCluster.GB, 1, new ArrayList<>());
        cluster.await("the other queue has what is free",
            () -> !high.allocate(new ArrayList<>(), new ArrayList<>()).getAllocatedContainers().isEmpty());
        cluster.awaitPhase(id, Phase.ASKED); // in line again
    }

    @Test
    void aQueueIsGivenBackItsShare() throws Exception {
        TestCluster.preempts(conf);
        TestCluster.queue(conf, "low", 50);
        TestCluster.queue(conf, "high", 50);
        conf.setBoolean("yarn.resourcemanager.monitor.capacity.preemption.select_based_on_reserved_containers", true);
        List<ContainerId> ids = start(2);
        ContainerId id = ids.get(1);
        hold(id);
        MockAM high = new Masters(cluster, node).start("high", 0);
        List<ContainerId> more = cluster.containers(high, node, 5);
        more.forEach(c -> manager.set(c, s -> s.state = "running"));
        manager.set(id, s -> s.held = false);
        cluster.awaitPhase(id, Phase.RUNNING);
        assertEquals(1, manager.asked().size(), manager.asked().toString());
        assertTrue(more.contains(ContainerId.fromString(manager.asked().get(0))));
        QueueMetrics m = cluster.scheduler().getRootQueueMetrics();
        cluster.await("nothing is reserved or pending", () -> m.getReservedMB() == 0 && m.getPendingMB() == 0);
    }

    @Test
    void anAskForAShareIsTakenBackWithItsReservation() throws Exception {
        conf.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 512);
        TestCluster.queue(conf, "low", 50);
        TestCluster.queue(conf, "high", 50);
        ContainerId id = start(2).get(1);
        hold(id);
        MockAM high = new Masters(cluster, node).start("high", 0);
        List<ContainerId> more = cluster.containers(high, node, 4);
        high.allocate("*", 512, 1, new ArrayList<>());
        cluster.await("512 MB are left, too little for one", () -> cluster.scheduler().getRootQueueMetrics().getAvailableMB() == 512);
        cluster.await("the master has its container",
            () -> !high.allocate(new ArrayList<>(), new ArrayList<>()).getAllocatedContainers().isEmpty());
        cluster.node("127.0.0.2:1002", 8); // there must be room somewhere, or YARN reserves nothing
        cluster.beat();
        Accounts full = Accounts.of(cluster);
        manager.set(id, s -> s.held = false);
        cluster.await("reserved", () -> cluster.scheduler().getRootQueueMetrics().getReservedContainers() == 1);
        assertEquals(Phase.ASKED, cluster.scheduler().plugin().phase(id));
        manager.set(id, s -> s.held = true);
        cluster.awaitPhase(id, Phase.PARKED);
        assertEquals(full, Accounts.of(cluster));
        manager.set(id, s -> s.held = false);
        cluster.await("reserved again", () -> cluster.scheduler().getRootQueueMetrics().getReservedContainers() == 1);
        cluster.finish(high, node, more.get(0));
        cluster.awaitPhase(id, Phase.RUNNING);
        assertEquals(0, cluster.scheduler().getRootQueueMetrics().getReservedContainers());
        assertEquals(0, cluster.scheduler().getRootQueueMetrics().getPendingContainers());
    }

    @Test
    void anotherNodeOfTheSameHostIsNotTaken() throws Exception {
        List<ContainerId> ids = start(2);
        MockNM other = cluster.node("127.0.0.1:1002", 8);
        cluster.beat();
        Accounts before = Accounts.of(cluster);
        ContainerId id = ids.get(0);
        hold(id);
        cluster.nodes.remove(node);
        manager.set(id, s -> s.held = false);
        for (int i = 0; i < 50; i++) {
            cluster.beat();
        }
        assertEquals(8 * TestCluster.GB, cluster.scheduler().getNode(other.getNodeId()).getUnallocatedResource().getMemorySize());
        cluster.nodes.add(node);
        cluster.awaitPhase(id, Phase.RUNNING);
        cluster.await("accounts as before", () -> Accounts.of(cluster).equals(before));
    }

    @Test
    void theMasterSeesNothingOfIt() throws Exception {
        ContainerId id = start(2).get(1);
        for (int i = 1; i <= 3; i++) {
            int resumed = manager.resumed().size();
            cluster.await("on again", () -> {
                if (manager.resumed().size() == resumed) {
                    cluster.preempt(am, id); // of no effect while it is being asked about
                }
                AllocateResponse response = am.allocate(new ArrayList<>(), new ArrayList<>());
                assertTrue(response.getUpdatedContainers().isEmpty(), response.toString());
                assertTrue(response.getUpdateErrors().isEmpty(), response.toString());
                assertTrue(response.getAllocatedContainers().isEmpty(), response.toString());
                assertTrue(response.getCompletedContainersStatuses().isEmpty(), response.toString());
                assertNull(response.getPreemptionMessage());
                return manager.resumed().size() > resumed && cluster.scheduler().plugin().phase(id) == Phase.RUNNING;
            });
        }
    }

    @Test
    void itsMasterCanChangeItAfterwards() throws Exception {
        ContainerId id = start(2).get(1);
        cluster.preempt(am, id);
        cluster.awaitPhase(id, Phase.RUNNING);
        AllocateResponse response = am.sendContainerResizingRequest(List.of(UpdateContainerRequest.newInstance(0, id,
            ContainerUpdateType.INCREASE_RESOURCE, Resource.newInstance(2 * TestCluster.GB, 1), null)));
        assertTrue(response.getUpdateErrors().isEmpty(), response.toString());
        List<Integer> versions = new ArrayList<>();
        cluster.await("larger", () -> {
            am.allocate(new ArrayList<>(), new ArrayList<>()).getUpdatedContainers()
                .forEach(u -> versions.add(u.getContainer().getVersion()));
            return !versions.isEmpty();
        });
        assertEquals(List.of(1), versions);
        assertEquals(2 * TestCluster.GB, cluster.container(id).getAllocatedResource().getMemorySize());
    }

    @Test
    void theManagerLearnsForWhomAContainerGivesWay() throws Exception {
        conf.setInt(YarnConfiguration.MAX_CLUSTER_LEVEL_APPLICATION_PRIORITY, 50);
        manager.decides("wait");
        ContainerId id = start(3).get(1);
        assertEquals(0, claim(id), "nobody waits");
        waits(cluster.application("low", node, 5, false));
        assertEquals(5, claim(id));
        waits(cluster.application("low", node, 50, false));
        assertEquals(11, claim(id), "the scale ends there");
        MockAM high = cluster.application("high", node, 2, false);
        waits(high);
        assertEquals(0, claim(id), "a queue waits for what it is guaranteed");
        cluster.await("it is told", () -> manager.applications().size() == 4);
        assertEquals(new ManagerClient.Application("root.high", 2), manager.applications().get(high.getApplicationAttemptId()
            .getApplicationId().toString()));
    }

    private static void waits(MockAM app) throws Exception {
        app.allocate("*", 8 * TestCluster.GB, 1, new ArrayList<>());
    }

    private int claim(ContainerId id) throws Exception {
        int before = manager.claims().size();
        cluster.await("the manager is asked", () -> {
            cluster.preempt(am, id); // of no effect while it is being asked about
            return manager.claims().size() >= before + 2; // one may have been under way
        });
        return manager.claims().get(before + 1);
    }

    @Test
    void placementConstraintsFindItAgain() throws Exception {
        ContainerId id = start(1).get(0);
        RMContainerImpl container = (RMContainerImpl) cluster.container(id);
        container.setAllocationTags(Set.of("db"));
        container.getContainer().setAllocationTags(Set.of("db"));
        AllocationTagsManager tags = cluster.rm.getRMContext().getAllocationTagsManager();
        tags.addContainer(node.getNodeId(), id, Set.of("db"));
        ApplicationId app = am.getApplicationAttemptId().getApplicationId();
        hold(id);
        assertEquals(0, tags.getNodeCardinality(node.getNodeId(), app, "db"));
        manager.set(id, s -> s.held = false);
        cluster.awaitPhase(id, Phase.RUNNING);
        assertEquals(1, tags.getNodeCardinality(node.getNodeId(), app, "db"));
    }

    @Test
    void timePutAsideIsNotCharged() throws Exception {
        ContainerId id = start(1).get(0);
        hold(id);
        assertCharged(1, "the master alone runs");
    }

    @Test
    void whatRunsAlthoughItIsPutAsideIsCharged() throws Exception {
        conf.setInt("yarn.scheduler.capacity.root.low.maximum-capacity", 50);
        ContainerId id = start(3).get(1);
        hold(id);
        cluster.containers(am, node, 1); // the queue has all that it may have
        manager.set(id, s -> {
            s.state = "running";
            s.held = false;
        });
        cluster.awaitPhase(id, Phase.ASKED);
        assertCharged(5, "four have resources, and one runs without");
    }

    /** What the application has been charged for, and between which times YARN has counted that. */
    private record Count(long megabyteSeconds, long after, long before) { }

    /**
     * YARN counts some time while it is asked, and what is put aside is given back a second at a time. The longer the span,
     * the less either is of it, however busy this machine is.
     */
    private void assertCharged(int containers, String why) throws Exception {
        Count from = nextCount();
        List<String> rates = new ArrayList<>();
        double low;
        double high;
        do {
            Count to = nextCount();
            double gigabyteNanos = (to.megabyteSeconds - from.megabyteSeconds) * 1e9 / TestCluster.GB;
            low = gigabyteNanos / (to.before - from.after);
            high = gigabyteNanos / (to.after - from.before);
            rates.add(low + " to " + high);
            assertTrue(rates.size() < 10, why + ": " + rates);
        } while (low < containers - 0.6 || high > containers + 0.6);
    }

    // YARN looks at what runs when it is asked, and every three seconds only; the figure grows when it does so.
    private Count nextCount() throws Exception {
        RMAppAttempt attempt = cluster.rm.getRMContext().getRMApps().get(am.getApplicationAttemptId().getApplicationId())
            .getCurrentAppAttempt();
        Count[] last = {new Count(Long.MAX_VALUE, 0, 0)};
        cluster.await("YARN counts", () -> {
            long after = System.nanoTime();
            long now = attempt.getRMAppAttemptMetrics().getAggregateAppResourceUsage().getMemorySeconds();
            boolean grown = now > last[0].megabyteSeconds;
            last[0] = new Count(now, after, System.nanoTime());
            return grown;
        });
        return last[0];
    }
}
