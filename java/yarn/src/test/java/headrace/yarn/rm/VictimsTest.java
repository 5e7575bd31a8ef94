package headrace.yarn.rm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import headrace.client.ManagerClient;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What is chosen while an answer is being carried out is neither lost nor asked about twice. */
class VictimsTest extends OneApplication {
    private final Set<ContainerId> kept = ConcurrentHashMap.newKeySet();
    private final BlockingQueue<ContainerId> ordered = new LinkedBlockingQueue<>();
    private final BlockingQueue<String> done = new LinkedBlockingQueue<>();
    private volatile Consumer<ContainerId> onOrder = kept::add;
    private final AtomicBoolean stopping = new AtomicBoolean();
    private Victims victims;
    private Thread thread;

    @BeforeEach
    void run() throws Exception {
        start(3);
        Settings settings = Settings.from(conf);
        ManagerClient client = new ManagerClient(settings.manager(), settings.tokenFile(), settings.ca(), settings.timeout());
        Victims.Outcome outcome = new Victims.Outcome() {
            @Override
            public boolean keeps(ContainerId id) {
                return kept.contains(id);
            }

            @Override
            public void ordered(ContainerId id) {
                onOrder.accept(id);
                ordered.add(id);
            }

            @Override
            public void left(ContainerId id) {
                done.add("left");
            }
        };
        victims = new Victims(client, cluster.scheduler(), settings, TestScheduler.HURRIED, outcome, null, stopping);
        thread = new Thread(victims, "headrace-victims-of-the-test");
        thread.start();
    }

    @AfterEach
    void end() throws InterruptedException {
        stopping.set(true);
        thread.interrupt();
        thread.join();
    }

    @Test
    void thatItIsToBeKilledIsHeardWhileItsApplicationIsBeingWarned() throws Exception {
        manager.decides("kill");
        victims.offer(ids.get(0), false, () -> {
            victims.offer(ids.get(0), true, () -> done.add("killed"));
            done.add("warned");
        });
        assertEquals("warned", done.take());
        assertEquals("killed", done.take());
        assertEquals(2, manager.asked().size());
    }

    @Test
    void whoHasBeenOrderedMeanwhileIsNotAskedAboutAgain() throws Exception {
        order(ids.get(0));
        order(ids.get(1)); // so that all is over with the first
        victims.offer(ids.get(0), true, () -> done.add("killed"));
        order(ids.get(2));
        assertEquals(ids.stream().map(ContainerId::toString).toList(), manager.asked());
        assertEquals(List.of(), List.copyOf(done));
    }

    private void order(ContainerId id) throws InterruptedException {
        victims.offer(id, false, () -> done.add("warned"));
        assertEquals(id, ordered.take());
    }

    /** It was put aside and has gone on while the thread that had it ordered was held. */
    @Test
    void whoIsChosenAgainAtOnceIsAskedAboutAgain() throws Exception {
        onOrder = id -> {
            onOrder = other -> { };
            Thread policy = new Thread(() -> victims.offer(id, false, () -> done.add("warned")));
            policy.start();
            while (policy.isAlive() && policy.getState() != Thread.State.BLOCKED) { // until it is over, or waits for this thread
                Thread.onSpinWait();
            }
        };
        order(ids.get(0));
        assertEquals(ids.get(0), ordered.take());
        assertEquals(2, manager.asked().size());
    }
}
