package headrace.yarn.rm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.yarn.rm.Suspension.Phase;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A container whose machine stays full while another has room. */
@Timeout(120)
class ReleaseTest extends OneApplication {
    private ContainerId id;

    /** A container of low is parked, and its node is full again. */
    private void start(String types) throws Exception {
        conf.set(Settings.TYPES, types);
        conf.setLong(Settings.AFTER_MS, 0);
        id = start(3).get(2);
        manager.decides("checkpoint");
        manager.set(id, s -> s.held = true); // until its room is taken
        cluster.preempt(am, id);
        cluster.awaitPhase(id, Phase.PARKED);
        MockAM urgent = cluster.application("high", node);
        cluster.containers(urgent, node, 4).forEach(c -> manager.set(c, s -> s.state = "running"));
        manager.set(id, s -> s.held = false);
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
