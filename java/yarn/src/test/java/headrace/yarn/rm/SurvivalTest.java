package headrace.yarn.rm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.yarn.rm.Suspension.Phase;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.server.api.protocolrecords.NMContainerStatus;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.TestRMRestart;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.QueueMetrics;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Parts of the cluster end, or start again, while containers are put aside. */
class SurvivalTest {
    @TempDir
    Path dir;
    private FakeManager manager;
    private Configuration conf;
    private TestCluster cluster;
    private MockNM node;
    private MockAM am;
    private List<ContainerId> ids;

    @BeforeEach
    void start() throws Exception {
        manager = new FakeManager(dir);
        conf = TestCluster.conf(manager);
        cluster = new TestCluster(conf);
        node = cluster.node("127.0.0.1:1001", 8);
    }

    private void run(boolean keepContainers) throws Exception {
        am = cluster.application("low", node, 0, keepContainers);
        ids = cluster.containers(am, node, 4);
        ids.forEach(id -> manager.set(id, s -> s.state = "running"));
    }

    private void park(ContainerId id) throws Exception {
        manager.set(id, s -> s.held = true);
        cluster.preempt(am, id);
        cluster.awaitPhase(id, Phase.PARKED);
    }

    @AfterEach
    void stop() {
        cluster.close();
        manager.close();
    }

    private String figures() {
        QueueMetrics m = cluster.scheduler().getRootQueueMetrics();
        return m.getAllocatedContainers() + " containers, " + m.getAllocatedMB() + " MB, pending " + m.getPendingMB()
            + " MB, reserved " + m.getReservedMB() + " MB, " + m.getAvailableMB() + " MB free, node "
            + cluster.scheduler().getNode(node.getNodeId()).getUnallocatedResource().getMemorySize();
    }

    @Test
    void anApplicationKilledWhileItsContainersArePutAsideLeavesNothing() throws Exception {
        String empty = figures();
        run(false);
        park(ids.get(0));
        park(ids.get(3));
        cluster.rm.killApp(am.getApplicationAttemptId().getApplicationId());
        cluster.rm.waitForState(am.getApplicationAttemptId().getApplicationId(), RMAppState.KILLED);
        for (ContainerId id : ids) {
            cluster.finish(am, node, id);
        }
        node.nodeHeartbeat(am.getApplicationAttemptId(), 1, ContainerState.COMPLETE);
        cluster.await("empty again", () -> figures().equals(empty));
        cluster.await("forgotten", () -> cluster.scheduler().demoted().isEmpty());
        assertEquals(null, cluster.scheduler().plugin().phase(ids.get(0)));
    }

    @Test
    void anApplicationKilledWhileRoomIsAskedForLeavesNothing() throws Exception {
        String empty = figures();
        run(false);
        ContainerId id = ids.get(3);
        park(id);
        int nodes = cluster.nodes.size();
        cluster.nodes.clear(); // no heartbeats, so that the ask is not served
        manager.set(id, s -> s.held = false);
        cluster.awaitPhase(id, Phase.ASKED);
        assertEquals(1, nodes);
        cluster.rm.killApp(am.getApplicationAttemptId().getApplicationId());
        cluster.rm.waitForState(am.getApplicationAttemptId().getApplicationId(), RMAppState.KILLED);
        cluster.nodes.add(node);
        for (ContainerId other : ids) {
            cluster.finish(am, node, other);
        }
        node.nodeHeartbeat(am.getApplicationAttemptId(), 1, ContainerState.COMPLETE);
        cluster.await("empty again", () -> figures().equals(empty));
    }

    @Test
    void aLostNodeTakesItsContainersWithIt() throws Exception {
        MockNM other = cluster.node("127.0.0.2:1002", 8);
        am = cluster.application("low", other);
        String before = figures();
        List<ContainerId> on = new ArrayList<>();
        am.allocate("127.0.0.1", TestCluster.GB, 3, new ArrayList<>());
        cluster.await("containers", () -> {
            am.allocate(new ArrayList<>(), new ArrayList<>()).getAllocatedContainers().forEach(c -> on.add(c.getId()));
            return on.size() == 3;
        });
        assertTrue(on.stream().allMatch(id -> cluster.container(id).getAllocatedNode().equals(node.getNodeId())));
        for (ContainerId id : on) {
            node.nodeHeartbeat(am.getApplicationAttemptId(), id.getContainerId(), ContainerState.RUNNING);
            manager.set(id, s -> s.state = "running");
        }
        cluster.rm.drainEvents();
        park(on.get(1));
        cluster.nodes.remove(node);
        cluster.rm.sendNodeLost(node);
        Set<ContainerId> ended = new TreeSet<>();
        cluster.await("the master hears of all", () -> {
            am.allocate(new ArrayList<>(), new ArrayList<>()).getCompletedContainersStatuses()
                .forEach(s -> ended.add(s.getContainerId()));
            return ended.size() == 3;
        });
        cluster.await("forgotten", () -> cluster.scheduler().demoted().isEmpty());
        QueueMetrics m = cluster.scheduler().getRootQueueMetrics();
        assertEquals(1, m.getAllocatedContainers(), before);
        assertEquals(TestCluster.GB, m.getAllocatedMB());
    }

    @Test
    void aResourceManagerThatStartsAgainFindsWhatIsPutAside() throws Exception {
        run(false);
        park(ids.get(1));
        manager.carriesOut(false);
        cluster.preempt(am, ids.get(2));
        cluster.awaitPhase(ids.get(2), Phase.ORDERED);

        TestCluster next = new TestCluster(conf, cluster);
        cluster.close();
        cluster = next;
        ApplicationId app = am.getApplicationAttemptId().getApplicationId();
        node.setResourceTrackerService(cluster.rm.getResourceTrackerService());
        List<NMContainerStatus> running = new ArrayList<>();
        running.add(TestRMRestart.createNMContainerStatus(am.getApplicationAttemptId(), 1, ContainerState.RUNNING));
        for (ContainerId id : ids) {
            running.add(TestRMRestart.createNMContainerStatus(am.getApplicationAttemptId(), (int) id.getContainerId(),
                ContainerState.RUNNING));
        }
        node.registerNode(running, List.of(app));
        cluster.nodes.add(node);
        am.setAMRMProtocol(cluster.rm.getApplicationMasterService(), cluster.rm.getRMContext());
        am.registerAppAttempt(false);
        cluster.awaitPhase(ids.get(1), Phase.PARKED);
        assertEquals(null, cluster.scheduler().plugin().phase(ids.get(2)));
        cluster.await("freed", () -> figures().startsWith("4 containers"));
        manager.set(ids.get(2), s -> {
            s.ordered = "";
            s.state = "suspended";
        });
        cluster.await("the other, too", () -> manager.resumed().contains(ids.get(2).toString())
            || cluster.scheduler().demoted().contains(ids.get(2)));
        manager.carriesOut(true);
        manager.set(ids.get(2), s -> s.ordered = "");
        manager.set(ids.get(1), s -> s.held = false);
        cluster.awaitPhase(ids.get(1), Phase.RUNNING);
        cluster.awaitPhase(ids.get(2), Phase.RUNNING);
        cluster.await("all accounted for", () -> cluster.scheduler().demoted().isEmpty()
            && cluster.scheduler().getRootQueueMetrics().getAllocatedContainers() == 5);
        assertEquals(0, cluster.scheduler().getRootQueueMetrics().getPendingMB());
    }

    @Test
    void aReleaseIsNotAFailureForAResourceManagerThatStartsAgain() throws Exception {
        run(false);
        conf.set(Settings.TYPES, "YARN");
        TestCluster next = new TestCluster(conf, cluster);
        cluster.close();
        cluster = next;
        node.setResourceTrackerService(cluster.rm.getResourceTrackerService());
        int ended = ContainerExitStatus.KILLED_BY_RESOURCEMANAGER;
        ApplicationAttemptId attempt = am.getApplicationAttemptId();
        NMContainerStatus before = TestRMRestart.createNMContainerStatus(attempt, (int) ids.get(0).getContainerId(),
            ContainerState.COMPLETE);
        before.setContainerExitStatus(ended);
        node.registerNode(List.of(
            TestRMRestart.createNMContainerStatus(attempt, 1, ContainerState.RUNNING), before,
            TestRMRestart.createNMContainerStatus(attempt, (int) ids.get(1).getContainerId(), ContainerState.RUNNING)),
            List.of(attempt.getApplicationId()));
        cluster.nodes.add(node);
        am.setAMRMProtocol(cluster.rm.getApplicationMasterService(), cluster.rm.getRMContext());
        am.registerAppAttempt(false);
        cluster.await("the container", () -> cluster.container(ids.get(1)) != null);
        node.nodeHeartbeat(Map.of(attempt.getApplicationId(), List.of(
            ContainerStatus.newInstance(ids.get(1), ContainerState.COMPLETE, "", ended))), true);
        Map<ContainerId, Integer> told = new TreeMap<>();
        cluster.await("the master hears of both", () -> {
            am.allocate(new ArrayList<>(), new ArrayList<>()).getCompletedContainersStatuses()
                .forEach(s -> told.put(s.getContainerId(), s.getExitStatus()));
            return told.size() == 2;
        });
        assertEquals(Map.of(ids.get(0), ContainerExitStatus.ABORTED, ids.get(1), ContainerExitStatus.ABORTED), told);
    }

    @Test
    void theManagerHearsWhenTheLastApplicationEnds() throws Exception {
        run(false);
        String app = am.getApplicationAttemptId().getApplicationId().toString();
        cluster.await("it is told of one", () -> manager.applications().keySet().equals(Set.of(app)));
        int before = manager.allApplications().size();
        TestCluster next = new TestCluster(conf, cluster);
        cluster.close();
        cluster = next;
        cluster.await("a ResourceManager that starts again to tell", () -> manager.allApplications().size() > before);
        for (Map<String, ?> told : manager.allApplications().subList(before, manager.allApplications().size())) {
            assertEquals(Set.of(app), told.keySet(), "an application whose master has not come back yet has not ended");
        }
        cluster.rm.killApp(am.getApplicationAttemptId().getApplicationId());
        cluster.await("it is told of none", () -> manager.applications().isEmpty());
    }

    @Test
    void theManagerHearsOnceWhichApplicationsHaveEndedAndAgainWhenItIsAnother() throws Exception {
        run(false);
        String app = am.getApplicationAttemptId().getApplicationId().toString();
        int before = manager.allApplications().size();
        node.nodeHeartbeat(am.getApplicationAttemptId(), 1, ContainerState.COMPLETE);
        RMApp running = cluster.rm.getRMContext().getRMApps().get(am.getApplicationAttemptId().getApplicationId());
        cluster.await("a second attempt", () -> running.getAppAttempts().size() == 2);
        TestCluster next = new TestCluster(conf, cluster);
        cluster.close();
        cluster = next;
        cluster.await("a ResourceManager that starts again to tell", () -> manager.allApplications().size() > before);
        assertEquals(List.of(), manager.ended(), "an application that is attempted again has not ended");
        cluster.rm.killApp(am.getApplicationAttemptId().getApplicationId());
        cluster.await("it is told of the end", () -> manager.ended().equals(List.of(app)));
        cluster.application("low", cluster.node("127.0.0.1:1001", 8)); // which is told, and the end not again
        cluster.await("it is told of another", () -> manager.applications().size() == 1);
        assertEquals(List.of(app), manager.ended());
        manager.restart();
        cluster.await("another manager is told as well", () -> manager.ended().equals(List.of(app)));
    }

    @Test
    void aContainerOutlivesTheAttemptThatItWasPutAsideIn() throws Exception {
        run(true);
        ContainerId id = ids.get(2);
        park(id);
        RMApp app = cluster.rm.getRMContext().getRMApps().get(am.getApplicationAttemptId().getApplicationId());
        node.nodeHeartbeat(am.getApplicationAttemptId(), 1, ContainerState.COMPLETE);
        cluster.await("a second attempt", () -> app.getAppAttempts().size() == 2);
        cluster.rm.waitForState(app.getApplicationId(), RMAppState.ACCEPTED);
        am = MockRM.launchAndRegisterAM(app, cluster.rm, node);
        manager.set(id, s -> s.held = false);
        cluster.awaitPhase(id, Phase.RUNNING);
        cluster.await("all accounted for", () -> cluster.scheduler().getRootQueueMetrics().getAllocatedContainers() == 5
            && cluster.app(am).getCurrentConsumption().getMemorySize() == 5 * TestCluster.GB);
        assertTrue(cluster.scheduler().demoted().isEmpty());
        assertEquals(0, cluster.scheduler().getRootQueueMetrics().getPendingMB());
    }

    @Test
    void aManagerThatStartsAgainIsBelieved() throws Exception {
        run(false);
        ContainerId id = ids.get(2);
        park(id);
        manager.restart();
        for (int i = 0; i < 30; i++) {
            cluster.beat();
        }
        assertTrue(manager.resumed().isEmpty());
        assertEquals(Phase.PARKED, cluster.scheduler().plugin().phase(id));
        manager.set(id, s -> s.state = "suspended");
        cluster.awaitPhase(id, Phase.RUNNING);
    }

    private interface Step {
        void run() throws Exception;
    }

    /** Parks a container and has each order to go on end with the manager, more often than a container may fail to go on. */
    private void resumesEndWith(ContainerId id, Step end) throws Exception {
        park(id);
        manager.carriesOut(false);
        manager.set(id, s -> s.held = false);
        for (int times = 1; times <= 7; times++) {
            int told = times;
            cluster.await("told " + told + " times", () -> manager.resumed().size() == told);
            assertEquals(Phase.RESUMING, cluster.scheduler().plugin().phase(id));
            end.run();
        }
    }

    @Test
    void aResumeThatEndsWithTheManagerIsNoFailure() throws Exception {
        run(false);
        ContainerId id = ids.get(2);
        resumesEndWith(id, () -> {
            int unheard = manager.unheard();
            manager.down(true);
            cluster.await("nobody there", () -> manager.unheard() > unheard);
            manager.set(id, s -> s.ordered = "");
            manager.down(false);
        });
        manager.carriesOut(true);
        manager.set(id, s -> s.state = "running");
        cluster.awaitPhase(id, Phase.RUNNING);
    }

    @Test
    void aManagerThatIsStartedAgainBetweenTwoCallsIsToldAll() throws Exception {
        run(false);
        String app = am.getApplicationAttemptId().getApplicationId().toString();
        cluster.await("the manager to hear of it", () -> manager.applications().containsKey(app));
        ContainerId id = ids.get(2);
        resumesEndWith(id, () -> {
            int before = manager.allApplications().size();
            manager.restart(() -> manager.set(id, s -> s.ordered = ""));
            cluster.await("all told again", () -> manager.allApplications().size() > before);
            assertEquals(Set.of(app), manager.applications().keySet());
        });
    }

    @Test
    void anApplicationMayBeMovedWhileItsContainersArePutAside() throws Exception {
        String empty = figures();
        run(false);
        park(ids.get(1));
        cluster.rm.drainEvents();
        cluster.scheduler().moveApplication(am.getApplicationAttemptId().getApplicationId(), "high");
        assertEquals(0, cluster.scheduler().getQueue("low").getMetrics().getAllocatedContainers());
        assertEquals(4, cluster.scheduler().getQueue("high").getMetrics().getAllocatedContainers());
        manager.set(ids.get(1), s -> s.held = false);
        cluster.awaitPhase(ids.get(1), Phase.RUNNING);
        assertEquals(5, cluster.scheduler().getQueue("high").getMetrics().getAllocatedContainers());
        cluster.rm.killApp(am.getApplicationAttemptId().getApplicationId());
        for (ContainerId id : ids) {
            cluster.finish(am, node, id);
        }
        node.nodeHeartbeat(am.getApplicationAttemptId(), 1, ContainerState.COMPLETE);
        cluster.await("empty again", () -> figures().equals(empty));
    }
}
