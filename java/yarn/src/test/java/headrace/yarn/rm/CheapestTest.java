package headrace.yarn.rm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.ManagerClient;
import headrace.yarn.rm.Suspension.Phase;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.PreemptionMessage;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacitySchedulerConfiguration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** YARN chooses, and those give way that cost least. An application of the queue low has all of a node. */
class CheapestTest extends OneApplication {
    @BeforeEach
    void preempts() {
        TestCluster.preempts(conf);
        conf.set(Settings.ORDER, "cost");
    }

    private void start() throws Exception {
        start(7).forEach(this::runs);
    }

    /** And stays aside once it is, where nobody needs its room, too. */
    private void runs(ContainerId id) {
        manager.set(id, s -> {
            s.state = "running";
            s.held = true;
        });
    }

    private void urgent() throws Exception {
        new Masters(cluster, node).submit("high", 0);
    }

    private Set<String> victims() {
        return new HashSet<>(manager.asked());
    }

    @Test
    void theCheapestGivesWay() throws Exception {
        start();
        manager.costs(ids.get(2), 1);
        urgent();
        cluster.awaitPhase(ids.get(2), Phase.PARKED);
        cluster.rounds();
        assertEquals(Set.of(ids.get(2).toString()), victims());
        assertEquals(Set.of(ids.get(2)), cluster.scheduler().demoted());
    }

    @Test
    void whatYarnChoseBeforeItKnewOfTheSubstituteStays() throws Exception {
        conf.setBoolean(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS, false); // the rounds are those of the test
        start();
        HeadraceScheduler scheduler = cluster.scheduler();
        manager.costs(ids.get(2), 1);
        scheduler.roundBegins();
        cluster.preempt(am, ids.get(6));
        cluster.awaitPhase(ids.get(2), Phase.PARKED);
        assertTrue(scheduler.reconsiders(ids.get(6)));
        cluster.await("left", () -> {
            cluster.preempt(am, ids.get(6)); // of the same round, come late; one that is just being asked about is not asked about again
            return scheduler.reconsiders(ids.get(6));
        });
        assertEquals(Set.of(ids.get(2).toString()), victims());
        scheduler.roundBegins();
        cluster.await("that YARN chooses again gives way", () -> {
            cluster.preempt(am, ids.get(6));
            return victims().contains(ids.get(6).toString());
        });
    }

    @Test
    void severalAreTheCheapestOnes() throws Exception {
        start();
        manager.costs(ids.get(0), 3);
        manager.costs(ids.get(2), 1);
        manager.costs(ids.get(3), 2);
        manager.costs(ids.get(6), 1e9);
        MockAM high = new Masters(cluster, node).start("high", 0);
        assertEquals(Set.of(ids.get(2).toString()), victims());
        cluster.containers(high, node, 2);
        cluster.rounds();
        assertEquals(Set.of(ids.get(2), ids.get(3), ids.get(0)), cluster.scheduler().demoted());
    }

    @Test
    void nobodyElseGivesWayWhileADumpOfASubstituteIsUnderWay() throws Exception {
        start();
        manager.costs(ids.get(2), 1);
        manager.decides("checkpoint");
        manager.carriesOut(false);
        urgent();
        cluster.await("a victim", () -> victims().size() == 1);
        cluster.rounds();
        assertEquals(Set.of(ids.get(2).toString()), victims());
        assertEquals(8, cluster.app(am).getLiveContainers().size());
        assertTrue(manager.priced() <= 2, "asked " + manager.priced() + " times for one");
        manager.set(ids.get(2), s -> {
            s.ordered = "";
            s.state = "checkpointed";
        });
        cluster.awaitPhase(ids.get(2), Phase.PARKED);
    }

    @Test
    void aSubstituteIsKilledAsYarnKills() throws Exception {
        start();
        manager.costs(ids.get(2), 1);
        manager.decides("kill");
        urgent();
        cluster.await("killed", () -> cluster.app(am).getLiveContainers().size() == 7);
        assertTrue(cluster.container(ids.get(2)) == null || cluster.container(ids.get(2)).completed());
        cluster.rounds();
        assertEquals(7, cluster.app(am).getLiveContainers().size());
        assertEquals(List.of(ids.get(2)), am.allocate(new ArrayList<>(), new ArrayList<>()).getCompletedContainersStatuses().stream()
            .map(s -> s.getContainerId()).toList());
    }

    /** The rounds are those of the test. In the first of them the third is warned in place of the last, which YARN has chosen. */
    private void theThirdIsWarned(int maxWaitMs) throws Exception {
        conf.setBoolean(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS, false);
        conf.setInt(CapacitySchedulerConfiguration.PREEMPTION_WAIT_TIME_BEFORE_KILL, maxWaitMs);
        start();
        manager.costs(ids.get(2), 1);
        manager.decides("kill");
        cluster.scheduler().roundBegins();
        cluster.preempt(am, ids.get(6));
        cluster.await("warned", () -> {
            PreemptionMessage told = am.allocate(new ArrayList<>(), new ArrayList<>()).getPreemptionMessage();
            return told != null && told.getContract().getContainers().stream().anyMatch(c -> c.getId().equals(ids.get(2)));
        });
    }

    private boolean gone(int n) {
        return cluster.container(ids.get(n)) == null || cluster.container(ids.get(n)).completed();
    }

    @Test
    void whoWasWarnedIsOneOfManyAgainWhenTheRoomIsNotNeeded() throws Exception {
        theThirdIsWarned(50);
        long warned = Reconciler.clock();
        cluster.scheduler().roundBegins();
        cluster.await("as long as YARN remembers its own", () -> Reconciler.clock() - warned > 2 * 50);
        manager.decides("suspend");
        manager.costs(ids.get(1), 0.5);
        cluster.scheduler().roundBegins();
        cluster.await("another that costs less by now gives way", () -> {
            cluster.preempt(am, ids.get(6));
            return cluster.scheduler().plugin().phase(ids.get(1)) == Phase.PARKED;
        });
        assertFalse(gone(2));
        assertEquals(Set.of(ids.get(1)), cluster.scheduler().demoted());
    }

    @Test
    void theManagerSaysAnewHowWhoWasWarnedForLongGivesWay() throws Exception {
        theThirdIsWarned(50);
        manager.decides("suspend");
        cluster.await("put aside", () -> {
            cluster.preempt(am, ids.get(6));
            return cluster.scheduler().plugin().phase(ids.get(2)) == Phase.PARKED;
        });
        assertEquals(Set.of(ids.get(2).toString()), victims());
    }

    @Test
    void aSubstituteThatYarnChoosesItselfIsKilledInYarnsTime() throws Exception {
        theThirdIsWarned(3_600_000);
        cluster.scheduler().roundBegins();
        cluster.await("asked about again", () -> {
            cluster.preempt(am, ids.get(2));
            return Collections.frequency(manager.asked(), ids.get(2).toString()) > 1;
        });
        cluster.await("killed", () -> {
            if (!gone(2)) {
                cluster.scheduler().markContainerForKillable(cluster.container(ids.get(2)));
            }
            return gone(2);
        });
        assertEquals(Set.of(ids.get(2).toString()), victims());
    }

    @Test
    void noQuestionIsLargerThanTheManagerTakes() {
        assertEquals(1000, Cheapest.most(1, 1));
        for (int kinds : new int[] {1, 21, 1000, ManagerClient.MOST_VICTIMS}) {
            for (int chosen = kinds; chosen <= ManagerClient.MOST_VICTIMS; chosen += 997) {
                int most = Cheapest.most(chosen, kinds);
                assertTrue(most >= 0 && chosen + most * kinds <= ManagerClient.MOST_VICTIMS, most + " beside " + chosen + " in " + kinds);
            }
        }
    }

    @Test
    void othersOfAnotherSizeStay() throws Exception {
        cluster = new TestCluster(conf);
        node = cluster.node("127.0.0.1:1001", 8);
        am = cluster.application("low", node);
        ids = cluster.containers(am, node, 5);
        am.allocate("*", 2 * TestCluster.GB, 1, new ArrayList<>());
        cluster.await("a large one", () -> cluster.app(am).getLiveContainers().size() == 7);
        ids.forEach(this::runs);
        cluster.app(am).getLiveContainers().stream().filter(c -> c.getAllocatedResource().getMemorySize() == 2 * TestCluster.GB)
            .forEach(c -> manager.costs(c.getContainerId(), 1));
        cluster.preempt(am, ids.get(4));
        cluster.awaitPhase(ids.get(4), Phase.PARKED);
        assertEquals(Set.of(ids.get(4).toString()), victims());
    }

    @Test
    void whereTheManagerNamesNoPricesItIsYarnsOrder() throws Exception {
        start();
        manager.costs(ids.get(2), 1);
        manager.tellsPrices(false);
        urgent();
        cluster.await("one is put aside", () -> cluster.scheduler().demoted().size() == 1);
        assertTrue(manager.priced() > 0);
        assertEquals(Set.of(ids.get(6)), cluster.scheduler().demoted());
    }

    @Test
    void whereYarnChoosesForANodeItIsTheCheapestOfThat() throws Exception {
        conf.setBoolean(CapacitySchedulerConfiguration.PREEMPTION_SELECT_CANDIDATES_FOR_RESERVED_CONTAINERS, true);
        startOnTwoNodes();
        cluster.preempt(am, ids.get(6));
        cluster.awaitPhase(ids.get(4), Phase.PARKED);
        assertEquals(Set.of(ids.get(4).toString()), victims());
    }

    @Test
    void otherwiseItIsTheCheapestOfAllNodes() throws Exception {
        startOnTwoNodes();
        cluster.preempt(am, ids.get(6));
        cluster.awaitPhase(ids.get(1), Phase.PARKED);
        assertEquals(Set.of(ids.get(1).toString()), victims());
    }

    /** Three containers are on the first node, four on the second; the cheapest is on the first. */
    private void startOnTwoNodes() throws Exception {
        cluster = new TestCluster(conf);
        node = cluster.node("127.0.0.1:1001", 4);
        am = cluster.application("low", node);
        ids = new ArrayList<>(cluster.containers(am, node, 3));
        ids.addAll(cluster.containers(am, cluster.node("127.0.0.2:1001", 4), 4));
        ids.forEach(this::runs);
        manager.costs(ids.get(1), 1);
        manager.costs(ids.get(4), 2);
    }

    @Test
    void itIsYarnsOrderUnlessAskedFor() throws Exception {
        conf.unset(Settings.ORDER);
        start();
        manager.costs(ids.get(2), 1);
        urgent();
        cluster.await("one is put aside", () -> cluster.scheduler().demoted().size() == 1);
        assertEquals(0, manager.priced());
        assertEquals(Set.of(ids.get(6)), cluster.scheduler().demoted());
    }
}
