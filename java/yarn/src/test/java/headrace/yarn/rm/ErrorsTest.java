package headrace.yarn.rm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.ManagerClient;
import headrace.yarn.Unlinkable;
import headrace.yarn.rm.Suspension.Phase;
import java.lang.reflect.Proxy;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A class of the plug-in that cannot be linked ends nothing: neither a thread of YARN's nor one of the plug-in's. */
class ErrorsTest extends OneApplication {
    private TestScheduler scheduler;

    @BeforeEach
    void start() throws Exception {
        start(3);
        scheduler = (TestScheduler) cluster.scheduler();
    }

    private boolean warned() throws Exception {
        return am.allocate(new ArrayList<>(), new ArrayList<>()).getPreemptionMessage() != null;
    }

    @Test
    void inTheSchedulerItIsYarnThatPreempts() throws Exception {
        RMContainer real = cluster.container(ids.get(2));
        RMContainer container = (RMContainer) Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {RMContainer.class},
            (proxy, method, arguments) -> {
                if (method.getName().equals("getExecutionType")) {
                    Unlinkable.use();
                }
                return method.invoke(real, arguments);
            });
        scheduler.markContainerForPreemption(am.getApplicationAttemptId(), container);
        assertTrue(warned());
        assertTrue(manager.asked().isEmpty());
    }

    @Test
    void inTheVictimsThreadTheFallbackHoldsAndTheNextOneIsSuspended() throws Exception {
        scheduler.unlinkable = "headrace-victims";
        cluster.preempt(am, ids.get(1));
        cluster.await("the fallback", this::warned);
        scheduler.unlinkable = "";
        manager.set(ids.get(2), s -> s.held = true);
        cluster.preempt(am, ids.get(2));
        cluster.awaitPhase(ids.get(2), Phase.PARKED);
    }

    @Test
    void inTheReconcilerWhatIsPutAsideGoesOnAfterIt() throws Exception {
        ContainerId id = ids.get(2);
        manager.set(id, s -> s.held = true);
        cluster.preempt(am, id);
        cluster.awaitPhase(id, Phase.PARKED);
        int before = scheduler.errors.get();
        scheduler.unlinkable = "headrace-reconciler";
        manager.set(id, s -> s.held = false);
        cluster.await("rounds that fail", () -> scheduler.errors.get() > before + 3);
        scheduler.unlinkable = "";
        cluster.awaitPhase(id, Phase.RUNNING);
    }

    @Test
    void theManagerCountsAsUnreachableUntilItCanBeAskedAgain() throws Exception {
        AtomicBoolean stopping = new AtomicBoolean();
        AtomicInteger left = new AtomicInteger(1);
        BlockingQueue<ManagerState> told = new LinkedBlockingQueue<>();
        ManagerClient client = new ManagerClient(URI.create(manager.url()), manager.tokenFile, null, Duration.ofMinutes(1));
        Thread watch = new Thread(new Watch(client, TestScheduler.HURRIED, Reconciler::clock, told::add, stopping, () -> {
            if (left.getAndDecrement() == 1) {
                Unlinkable.use();
            }
            return new ManagerClient.Applications(Map.of(), Set.of());
        }));
        watch.setUncaughtExceptionHandler((thread, error) -> told.add(ManagerState.NOTHING));
        watch.start();
        assertFalse(told.take().reachable());
        assertTrue(told.take().reachable(), "the watch has ended");
        stopping.set(true);
        watch.interrupt();
        watch.join();
    }

    @Test
    void aThreadOfThePluginBeginsAgain() throws Exception {
        AtomicInteger begun = new AtomicInteger();
        BlockingQueue<Integer> ends = new LinkedBlockingQueue<>();
        scheduler.plugin().run("headrace-test", () -> {
            if (begun.incrementAndGet() == 1) {
                Unlinkable.use();
            }
            ends.add(begun.get());
        });
        assertEquals(2, ends.take());
    }
}
