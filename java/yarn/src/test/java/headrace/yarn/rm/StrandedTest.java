package headrace.yarn.rm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import headrace.yarn.rm.Suspension.Phase;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.api.records.ResourceBlacklistRequest;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.junit.jupiter.api.Test;

/** A container that is put aside on a node on which nothing is given to it any more. */
class StrandedTest extends OneApplication {
    /** Has a container be put aside, and stay so until {@link #letGo}. */
    private void park(MockAM of, ContainerId id) throws Exception {
        manager.set(id, s -> s.held = true);
        cluster.preempt(of, id);
        cluster.awaitPhase(id, Phase.PARKED);
    }

    private void letGo(ContainerId id) {
        manager.set(id, s -> s.held = false);
    }

    private void blacklist(List<String> add, List<String> remove) throws Exception {
        am.allocate(AllocateRequest.newInstance(0, 0, new ArrayList<>(), new ArrayList<>(), ResourceBlacklistRequest.newInstance(add, remove)));
    }

    private void awaitPreempted(ContainerId id) throws Exception {
        List<ContainerStatus> ended = new ArrayList<>();
        cluster.await("the end of " + id, () -> {
            ended.addAll(am.allocate(new ArrayList<>(), new ArrayList<>()).getCompletedContainersStatuses());
            return !ended.isEmpty();
        });
        assertEquals(id, ended.get(0).getContainerId());
        assertEquals(ContainerExitStatus.PREEMPTED, ended.get(0).getExitStatus());
    }

    @Test
    void endsWhereItsApplicationTakesNothing() throws Exception {
        conf.setLong(Settings.AFTER_MS, 0);
        ContainerId id = start(3).get(2);
        park(am, id);
        MockAM other = cluster.application("high", node);
        ContainerId another = cluster.containers(other, node, 1).get(0);
        manager.set(another, s -> s.state = "running");
        park(other, another);
        blacklist(List.of("127.0.0.1"), List.of());
        letGo(id);
        letGo(another);
        cluster.awaitPhase(another, Phase.RUNNING); // it keeps nobody from going on
        awaitPreempted(id);
    }

    @Test
    void goesOnWhenItsApplicationTakesTheNodeAgain() throws Exception {
        ContainerId id = start(3).get(2);
        park(am, id);
        blacklist(List.of("127.0.0.1"), List.of());
        letGo(id);
        for (int i = 0; i < 20; i++) {
            cluster.beat();
        }
        assertEquals(Phase.PARKED, cluster.scheduler().plugin().phase(id));
        blacklist(List.of(), List.of("127.0.0.1"));
        cluster.awaitPhase(id, Phase.RUNNING);
    }

    @Test
    void endsWhereItsNodeIsDecommissioned() throws Exception {
        conf.setLong(Settings.AFTER_MS, 0);
        ContainerId id = start(3).get(2);
        park(am, id);
        cluster.rm.sendNodeGracefulDecommission(node, 3600);
        cluster.rm.waitForState(node.getNodeId(), NodeState.DECOMMISSIONING);
        letGo(id);
        awaitPreempted(id);
        cluster.await("it is forgotten", () -> cluster.scheduler().demoted().isEmpty());
    }
}
