package headrace.yarn.rm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.yarn.rm.Suspension.Phase;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.test.GenericTestUtils;
import org.apache.hadoop.test.GenericTestUtils.LogCapturer;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacitySchedulerConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;
import org.slf4j.event.Level;

/** YARN's own policy chooses the victims. */
class PreemptionTest extends OneApplication {
    private Accounts before;

    @BeforeEach
    void preempts() {
        TestCluster.preempts(conf);
    }

    /** A node of 8 GB, and an application in the queue low that has 7 GB in containers and 1 GB for its master. */
    private void start() throws Exception {
        start(7);
        before = Accounts.of(cluster);
    }

    @Test
    void anUrgentApplicationGetsItsRoomAndTheOthersGoOnAfterwards() throws Exception {
        start();
        MockAM high = master("high", 0);
        List<ContainerId> urgent = cluster.containers(high, node, 3);
        assertEquals(4, cluster.scheduler().demoted().size());
        assertEquals(8, new HashSet<>(cluster.app(am).getLiveContainers()).size());
        cluster.rounds();
        assertEquals(4, manager.asked().size(), "more victims than needed: " + manager.asked());
        assertTrue(manager.resumed().isEmpty());

        end(high, urgent);
        cluster.await("all go on", () -> manager.resumed().size() == 4);
        cluster.await("accounts as before", () -> lowOnly(Accounts.of(cluster)).equals(lowOnly(before)));
    }

    private MockAM master(String queue, int priority) throws Exception {
        Masters masters = new Masters(cluster, node);
        return masters.start(queue, priority);
    }

    private void end(MockAM am, List<ContainerId> containers) throws Exception {
        for (ContainerId id : containers) {
            cluster.finish(am, node, id);
        }
        am.unregisterAppAttempt();
        node.nodeHeartbeat(am.getApplicationAttemptId(), 1, ContainerState.COMPLETE);
        cluster.rm.drainEvents();
    }

    private Accounts lowOnly(Accounts all) {
        all.values().keySet().removeIf(k -> k.startsWith("app ") && !k.contains(am.getApplicationAttemptId().toString())
            || k.startsWith("user user in root.high"));
        return all;
    }

    @Test
    void nobodyElseIsChosenWhileADumpIsUnderWay() throws Exception {
        start();
        manager.decides("checkpoint");
        manager.carriesOut(false);
        MockAM high = submitted("high", 0);
        cluster.await("a victim", () -> manager.asked().size() == 1);
        cluster.rounds();
        assertEquals(1, manager.asked().size(), manager.asked().toString());
        assertEquals(8, cluster.app(am).getLiveContainers().size());
        ContainerId victim = ContainerId.fromString(manager.asked().get(0));
        manager.set(victim, s -> {
            s.ordered = "";
            s.state = "checkpointed";
        });
        cluster.awaitPhase(victim, Phase.PARKED);
        cluster.await("the master starts", () -> high(high) != null);
    }

    /** In the middle of a round the policy knows how much room is wanted, and not yet whose: nobody else is chosen for it. */
    @Test
    void nobodyIsPutAsideInTheMiddleOfARound() throws Exception {
        conf.setLong(CapacitySchedulerConfiguration.PREEMPTION_MONITORING_INTERVAL, 3_600_000); // the rounds are those of the test
        start();
        manager.carriesOut(false);
        AtomicReference<ContainerId> victim = new AtomicReference<>();
        HeadracePreemptionPolicy policy = new HeadracePreemptionPolicy() {
            @Override
            public Set<String> getAllPartitions() {
                ContainerId id = victim.getAndSet(null);
                if (id != null) {
                    suspended(id);
                    try {
                        cluster.await("somebody to wait for the end of the round", cluster.scheduler()::roundIsAwaited);
                    } catch (Exception e) {
                        throw new AssertionError(e);
                    }
                    assertFalse(cluster.scheduler().demoted().contains(id));
                }
                return super.getAllPartitions();
            }
        };
        policy.init(conf, cluster.rm.getRMContext(), cluster.scheduler());
        submitted("high", 0);
        cluster.await("a victim", () -> {
            policy.editSchedule();
            return manager.asked().size() == 1;
        });
        ContainerId id = ContainerId.fromString(manager.asked().get(0));
        cluster.awaitPhase(id, Phase.ORDERED);
        victim.set(id);
        policy.editSchedule();
        assertEquals(List.of(id), policy.getToPreemptContainers().keySet().stream().map(RMContainer::getContainerId).toList());
        cluster.awaitPhase(id, Phase.PARKED);
        assertTrue(cluster.scheduler().demoted().contains(id));
    }

    private void suspended(ContainerId id) {
        manager.set(id, s -> {
            s.ordered = "";
            s.state = "suspended";
            s.held = true;
        });
    }

    private MockAM submitted(String queue, int priority) throws Exception {
        return new Masters(cluster, node).submit(queue, priority);
    }

    private Object high(MockAM am) {
        return cluster.rm.getRMContext().getRMApps().get(am.getApplicationAttemptId().getApplicationId())
            .getCurrentAppAttempt().getMasterContainer();
    }

    @Test
    void whatTheManagerDoesNotKnowIsKilledByYarn() throws Exception {
        manager.decides("");
        start();
        submitted("high", 0);
        Set<ContainerId> preempted = new HashSet<>();
        cluster.await("killed", () -> {
            am.allocate(new ArrayList<>(), new ArrayList<>()).getCompletedContainersStatuses()
                .forEach(s -> preempted.add(s.getContainerId()));
            return preempted.size() == 1;
        });
        assertTrue(cluster.scheduler().demoted().isEmpty());
    }

    @Test
    void whatTheManagerDoesNotKnowIsLeftAloneIfThatIsTheFallback() throws Exception {
        conf.set(Settings.FALLBACK, "wait");
        manager.decides("");
        start();
        submitted("high", 0);
        cluster.await("asked again", () -> manager.asked().size() >= 3);
        assertEquals(8, cluster.app(am).getLiveContainers().size());
    }

    @Test
    void noContainerIsKilledWithoutALineThatSaysWhy() throws Exception {
        start();
        ContainerId master = ContainerId.newContainerId(am.getApplicationAttemptId(), 1);
        for (Class<?> from : List.of(Victims.class, Plugin.class)) {
            GenericTestUtils.setLogLevel(LoggerFactory.getLogger(from), Level.INFO);
        }
        LogCapturer log = LogCapturer.captureLogs(LoggerFactory.getLogger("headrace"));
        try {
            manager.down(true);
            cluster.preempt(am, ids.get(4));
            cluster.await("no manager", () -> log.getOutput().contains(ids.get(4) + " is preempted by YARN: there is no answer"));
            manager.down(false);
            manager.decides("");
            cluster.preempt(am, ids.get(6));
            cluster.await("unknown", () -> log.getOutput().contains(ids.get(6) + " is preempted by YARN: there is no answer"));
            manager.decides("kill");
            cluster.preempt(am, ids.get(5));
            cluster.await("policy", () -> log.getOutput().contains(ids.get(5) + " is preempted by YARN: kill; a test"));
            cluster.preempt(am, master);
            assertTrue(log.getOutput().contains(master + " is preempted by YARN: application masters"), log.getOutput());
        } finally {
            log.stopCapturing();
        }
    }

    @Test
    void anOrderOfWhichNothingIsHeardIsForgotten() throws Exception {
        conf.setLong(TestScheduler.SILENT_MS, 500);
        start();
        ContainerId id = ids.get(6);
        manager.carriesOut(false);
        cluster.preempt(am, id);
        cluster.await("ordered", () -> manager.asked().size() == 1);
        manager.down(true);
        cluster.await("forgotten", () -> cluster.scheduler().reconsiders(id));
        assertEquals(null, cluster.scheduler().plugin().phase(id));
        assertEquals(before, Accounts.of(cluster));
    }

    @Test
    void aMasterWhoseContainersArePutAsideIsSparedForAWhile() throws Exception {
        start();
        ContainerId master = ContainerId.newContainerId(am.getApplicationAttemptId(), 1);
        cluster.preempt(am, master);
        assertTrue(!cluster.scheduler().passesOver(master), "none of its containers is put aside");
        manager.set(ids.get(6), s -> s.held = true);
        cluster.preempt(am, ids.get(6));
        cluster.awaitPhase(ids.get(6), Phase.PARKED);
        cluster.scheduler().markContainerForKillable(cluster.container(master));
        assertTrue(cluster.scheduler().passesOver(master));
        cluster.await("the while is over", () -> !cluster.scheduler().passesOver(master));
        cluster.scheduler().markContainerForKillable(cluster.container(master));
        cluster.await("killed", () -> cluster.container(master) == null || cluster.container(master).completed());
    }

    @Test
    void whatHasNotBegunIsAskedAboutAsWell() throws Exception {
        manager.decides("wait");
        cluster = new TestCluster(conf);
        node = cluster.node("127.0.0.1:1001", 8);
        am = cluster.application("low", node);
        am.allocate("*", TestCluster.GB, 7, new ArrayList<>());
        cluster.await("allocated", () -> cluster.app(am).getLiveContainers().size() == 8);
        submitted("high", 0);
        cluster.await("asked again", () -> manager.asked().size() >= 3);
        assertEquals(8, cluster.app(am).getLiveContainers().size());
    }

    @Test
    void withoutAnAnswerTheFallbackDecides() throws Exception {
        conf.set(Settings.FALLBACK, "wait");
        start();
        manager.down(true);
        submitted("high", 0);
        cluster.await("asked in vain", () -> manager.refused() >= 1);
        cluster.rounds();
        assertEquals(before.values().get("node 127.0.0.1:1001"), Accounts.of(cluster).values().get("node 127.0.0.1:1001"));
        manager.down(false);
        cluster.await("asked once it is back", () -> cluster.scheduler().demoted().size() == 1);
    }

    @Test
    void aManagerThatIsStartedAgainMeanwhileIsAskedAgain() throws Exception {
        start();
        submitted("high", 0);
        cluster.await("one is put aside", () -> cluster.scheduler().demoted().size() == 1);
        manager.down(true);
        submitted("high", 0);
        cluster.await("asked in vain", () -> manager.refused() >= 2);
        manager.down(false);
        cluster.await("the other, too", () -> cluster.scheduler().demoted().size() == 2);
        assertEquals(List.of(), am.allocate(new ArrayList<>(), new ArrayList<>()).getCompletedContainersStatuses());
    }

    @Test
    void aManagerThatDoesNotAnswerDoesNotKeepYarnFromKilling() throws Exception {
        start();
        manager.down(true);
        submitted("high", 0);
        cluster.await("killed", () -> cluster.app(am).getLiveContainers().size() == 7);
        assertTrue(cluster.scheduler().demoted().isEmpty());
    }

    @Test
    void whatYarnKillsWhileTheManagerIsAskedIsKilled() throws Exception {
        conf.setInt(Settings.TIMEOUT_MS, 10_000);
        start();
        manager.set(ids.get(6), s -> s.held = true); // nobody needs its room
        cluster.preempt(am, ids.get(6));
        cluster.awaitPhase(ids.get(6), Phase.PARKED); // from now on there is time for a manager that is being started again
        manager.down(true);
        cluster.preempt(am, ids.get(5));
        cluster.await("asked in vain", () -> manager.refused() >= 1);
        cluster.scheduler().markContainerForKillable(cluster.container(ids.get(5)));
        cluster.preempt(am, ids.get(5));
        cluster.await("killed", () -> cluster.container(ids.get(5)) == null || cluster.container(ids.get(5)).completed());
    }

    @Test
    void whatTheManagerLeavesAloneIsAskedAboutAgain() throws Exception {
        manager.decides("wait");
        start();
        submitted("high", 0);
        cluster.await("asked again", () -> manager.asked().size() >= 3);
        assertEquals(8, cluster.app(am).getLiveContainers().size());
    }

    @Test
    void observingOnlySaysWhatWouldBeDone() throws Exception {
        conf.set(Settings.MODE, "observe-only");
        start();
        submitted("high", 0);
        cluster.await("killed", () -> cluster.app(am).getLiveContainers().size() == 7);
        cluster.await("all questions only to observe", () -> {
            int observed = manager.observed();
            return observed > 0 && observed == manager.asked().size(); // one may come between both
        });
        assertTrue(cluster.scheduler().demoted().isEmpty());
    }

    @Test
    void offMeansThatNothingIsAskedAndNoThreadIsThere() throws Exception {
        conf.set(Settings.MODE, "off");
        start();
        assertTrue(threads().isEmpty(), threads().toString());
        submitted("high", 0);
        cluster.await("killed", () -> cluster.app(am).getLiveContainers().size() == 7);
        assertEquals(0, manager.preempts());
    }

    @Test
    void withoutAManagerItIsYarnAsItIs() throws Exception {
        conf.unset(Settings.URL);
        start();
        assertTrue(threads().isEmpty(), threads().toString());
        submitted("high", 0);
        cluster.await("killed", () -> cluster.app(am).getLiveContainers().size() == 7);
    }

    private static List<String> threads() {
        return Thread.getAllStackTraces().keySet().stream().map(Thread::getName)
            .filter(name -> name.startsWith("headrace")).toList();
    }

    @Test
    void inAQueueTheHigherPriorityGoesFirst() throws Exception {
        conf.setBoolean("yarn.resourcemanager.monitor.capacity.preemption.intra-queue-preemption.enabled", true);
        conf.set("yarn.resourcemanager.monitor.capacity.preemption.intra-queue-preemption.preemption-order-policy",
            "priority_first");
        conf.setFloat("yarn.resourcemanager.monitor.capacity.preemption.intra-queue-preemption.minimum-threshold", 0.1f);
        conf.setFloat("yarn.resourcemanager.monitor.capacity.preemption.intra-queue-preemption.max-allowable-limit", 1.0f);
        conf.setInt("yarn.cluster.max-application-priority", 10);
        TestCluster.queue(conf, "low", 100);
        TestCluster.queue(conf, "high", 0);
        start();
        MockAM first = master("low", 5);
        List<ContainerId> urgent = cluster.containers(first, node, 2);
        // YARN may choose more from what it saw a moment ago; those go on, and then it is quiet.
        int gone;
        int rounds = 0;
        do {
            cluster.await("as many as the urgent one has", () -> cluster.scheduler().demoted().size() == 3);
            gone = manager.resumed().size();
            cluster.rounds();
            assertTrue(++rounds < 5, "room is taken from who is more urgent, again and again");
        } while (cluster.scheduler().demoted().size() != 3 || manager.resumed().size() != gone);
        int goneOn = gone;
        end(first, urgent);
        // What was chosen between the last look and the end goes on, too.
        cluster.await("all go on", () -> cluster.scheduler().demoted().isEmpty() && manager.resumed().size() >= goneOn + 3);
        cluster.await("accounts as before", () -> lowOnly(Accounts.of(cluster)).equals(lowOnly(before)));
    }

    @Test
    void aSuspendedContainerIsNotFoundOnItsNode() throws Exception {
        start();
        FiCaSchedulerNode place = cluster.scheduler().getNode(node.getNodeId());
        ContainerId id = ids.get(6);
        manager.set(id, s -> s.held = true);
        cluster.preempt(am, id);
        cluster.awaitPhase(id, Phase.PARKED);
        assertTrue(place.getCopiedListOfRunningContainers().stream().noneMatch(c -> c.getContainerId().equals(id)));
        manager.set(id, s -> s.held = false);
        cluster.awaitPhase(id, Phase.RUNNING);
        assertTrue(place.getCopiedListOfRunningContainers().stream().anyMatch(c -> c.getContainerId().equals(id)));
        cluster.await("accounts as before", () -> Accounts.of(cluster).equals(before));
    }
}
