package headrace.yarn.rm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.yarn.rm.Suspension.Phase;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A container whose machine stays full while another has room. */
class ReleaseTest extends OneApplication {
    private ContainerId id;

    /** A container of low is parked, and its node is full again. */
    private void start(String types) throws Exception {
        conf.set(Settings.TYPES, types);
        id = start(3).get(2);
        park("high", id);
    }

    /** Containers are parked, and an application in the queue takes all that their node has then. */
    private void park(String queue, ContainerId... parked) throws Exception {
        manager.decides("checkpoint");
        for (ContainerId p : parked) {
            manager.set(p, s -> s.held = true); // until its room is taken
            cluster.preempt(am, p);
            cluster.awaitPhase(p, Phase.PARKED);
        }
        MockAM other = cluster.application(queue, node);
        cluster.containers(other, node, 3 + parked.length).forEach(c -> manager.set(c, s -> s.state = "running"));
        for (ContainerId p : parked) {
            manager.set(p, s -> s.held = false);
        }
    }

    @BeforeEach
    void atOnce() {
        conf.set(Settings.TYPES, "YARN");
        conf.setLong(Settings.AFTER_MS, 0);
        conf.setLong(TestScheduler.SOON_MS, 500);
    }

    private void beats() throws Exception {
        for (int i = 0; i < 60; i++) {
            cluster.beat();
        }
    }

    private String type() {
        return cluster.rm.getRMContext().getRMApps().get(am.getApplicationAttemptId().getApplicationId())
            .getApplicationType();
    }

    @Test
    void goesOnElsewhere() throws Exception {
        start("YARN,DISTRIBUTED");
        assertEquals("YARN", type());
        for (int i = 0; i < 20; i++) {
            cluster.beat();
        }
        assertEquals(List.of(), manager.released(), "there is no other machine");

        cluster.node("127.0.0.2:1001", 2);
        cluster.await("the wish to release it", () -> manager.released().contains(id.toString()));
        assertEquals(Phase.PARKED, cluster.scheduler().plugin().phase(id));

        manager.set(id, s -> s.archived = true);
        List<ContainerStatus> ended = new ArrayList<>();
        cluster.await("its end", () -> {
            ended.addAll(am.allocate(new ArrayList<>(), new ArrayList<>()).getCompletedContainersStatuses());
            return !ended.isEmpty();
        });
        assertEquals(id, ended.get(0).getContainerId());
        assertEquals(ContainerExitStatus.ABORTED, ended.get(0).getExitStatus());
        cluster.await("nothing left", () -> cluster.scheduler().demoted().isEmpty() && cluster.container(id) == null);
        assertEquals(3 * TestCluster.GB, cluster.app(am).getCurrentConsumption().getMemorySize());
    }

    @Test
    void asManyLeaveAsThereIsRoomFor() throws Exception {
        start(3);
        park("high", ids.get(1), ids.get(2));
        cluster.node("127.0.0.2:1001", 1);
        cluster.await("the wish to release one", () -> !manager.released().isEmpty());
        beats();
        Set<String> first = Set.copyOf(manager.released());
        assertEquals(1, first.size(), "there is room for one");
        ContainerId leaves = ContainerId.fromString(first.iterator().next());
        manager.set(leaves, s -> s.archived = true);
        cluster.await("its end", () -> cluster.container(leaves) == null);
        cluster.await("the other's turn, as nobody has asked for the room", () -> Set.copyOf(manager.released()).size() == 2);
    }

    @Test
    void othersLeaveOnceItsApplicationHasGoneOn() throws Exception {
        conf.setLong(TestScheduler.SOON_MS, 3_600_000);
        start(3);
        park("high", ids.get(1), ids.get(2));
        MockNM second = cluster.node("127.0.0.2:1001", 1);
        cluster.await("the wish to release one", () -> !manager.released().isEmpty());
        ContainerId leaves = ContainerId.fromString(manager.released().get(0));
        manager.set(leaves, s -> s.archived = true);
        cluster.await("its end", () -> cluster.container(leaves) == null);
        cluster.containers(am, second, 1);
        cluster.node("127.0.0.3:1001", 1);
        cluster.await("the other's turn", () -> Set.copyOf(manager.released()).size() == 2);
    }

    @Test
    void whoDoesNotLeaveKeepsNobody() throws Exception {
        start(3);
        manager.releases(false);
        park("high", ids.get(1), ids.get(2));
        cluster.node("127.0.0.2:1001", 1);
        cluster.await("both to be asked about", () -> Set.copyOf(manager.released()).size() == 2);
    }

    /** A second node with nothing on it, whose queue low may not have more than the first one's. */
    private void fullQueue() throws Exception {
        cluster = new TestCluster(conf);
        cluster.rm.registerNode("127.0.0.2:1001", 8 * TestCluster.GB, 16); // without heartbeats nothing is given out there
        start(3);
        park("low", ids.get(2));
    }

    @Test
    void staysWhenItsQueueMayNotHaveMore() throws Exception {
        conf.setInt("yarn.scheduler.capacity.root.low.maximum-capacity", 50);
        fullQueue();
        beats();
        assertEquals(List.of(), manager.released());
    }

    @Test
    void staysWhenItsUserMayNotHaveMore() throws Exception {
        conf.setInt("yarn.scheduler.capacity.root.low.capacity", 50);
        conf.setInt("yarn.scheduler.capacity.root.high.capacity", 50);
        conf.setFloat("yarn.scheduler.capacity.root.low.user-limit-factor", 0.8f);
        fullQueue();
        beats();
        assertEquals(List.of(), manager.released());
    }

    @Test
    void leavesAQueueThatMayHaveMore() throws Exception {
        fullQueue();
        cluster.await("the wish to release it", () -> manager.released().contains(ids.get(2).toString()));
    }

    @Test
    void staysWhenItsApplicationWouldNotAskAgain() throws Exception {
        start("yarn-service");
        cluster.node("127.0.0.2:1001", 2);
        for (int i = 0; i < 20; i++) {
            cluster.beat();
        }
        assertEquals(List.of(), manager.released());
        assertEquals(Phase.PARKED, cluster.scheduler().plugin().phase(id));
    }

    @Test
    void goesOnHereWhenThereIsRoomAfterAll() throws Exception {
        start("YARN");
        cluster.node("127.0.0.2:1001", 2);
        cluster.await("the wish to release it", () -> manager.released().contains(id.toString()));
        manager.set(id, s -> s.state = "running"); // a person has seen to that
        cluster.awaitPhase(id, Phase.ASKED);
        assertTrue(cluster.scheduler().demoted().contains(id));
    }
}
