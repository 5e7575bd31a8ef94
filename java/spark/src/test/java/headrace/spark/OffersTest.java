package headrace.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.locality.ResidentShares;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.function.BiConsumer;
import org.apache.spark.TaskState;
import org.apache.spark.UnknownReason$;
import org.apache.spark.scheduler.ExecutorProcessLost;
import org.apache.spark.scheduler.TaskSetManager;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import scala.Option;
import scala.collection.mutable.ArrayBuffer;
import scala.jdk.javaapi.CollectionConverters;

/** What is done at offers, with many hosts. */
@Timeout(120)
class OffersTest {
    private static final long DELAY = 1_000_000_000;
    private static final int HOSTS = 300;
    private static final int TASKS = 3000;
    private static final int AT_ONCE = 20_000;

    private final Random random = new Random(1);
    private final List<TaskSetManager> all = new ArrayList<>();
    private final List<TaskSetOrder> orders = new ArrayList<>();
    private final List<ResidentShares> shares = new ArrayList<>();
    private final boolean[] useful = new boolean[HOSTS];
    private Stages stages;
    @BeforeEach
    void begin() {
        stages = new Stages(HOSTS);
        Arrays.fill(useful, true);
        for (int id = 0; id < 5; id++) {
            all.add(stages.add(id, stages.tasks(TASKS, random)));
        }
        stages.scheduler.rootPool().addSchedulable(new MemoryLocality(stages.scheduler, 0, DELAY, null, order -> {
            orders.add(order);
            shares.add(stages.shares(TASKS, random));
            order.publish(shares.get(shares.size() - 1));
            order.known();
        }, e -> {
            throw new IllegalStateException(e);
        }));
        look();
        assertOrder();
    }

    @AfterEach
    void end() {
        stages.close();
    }

    /** Offers nothing to anybody. */
    private void look() {
        stages.offer(0, 1);
    }

    private ArrayBuffer<Object> list(int id, int host) {
        return all.get(id).pendingTasks().forHost().apply("h" + host);
    }

    /** Returns how many tasks lists have that are not as they were. */
    private int changed(Runnable by) {
        List<List<Object>> before = new ArrayList<>();
        eachList((id, host) -> before.add(List.copyOf(CollectionConverters.asJava(list(id, host)))));
        by.run();
        int[] changed = {0};
        eachList((id, host) -> {
            List<Object> now = CollectionConverters.asJava(list(id, host));
            changed[0] += now.equals(before.get(id * HOSTS + host)) ? 0 : now.size();
        });
        return changed[0];
    }

    private void eachList(BiConsumer<Integer, Integer> use) {
        for (int id = 0; id < all.size(); id++) {
            for (int host = 0; host < HOSTS; host++) {
                use.accept(id, host);
            }
        }
    }

    private void assertOrder() {
        eachList((id, host) -> {
            if (useful[host]) {
                assertOrder(shares.get(id), list(id, host), host);
            }
        });
        for (int id = 0; id < all.size(); id++) {
            assertOrder(shares.get(id), all.get(id).pendingTasks().all(), -1);
        }
    }

    private void assertOrder(ResidentShares by, ArrayBuffer<Object> list, int host) {
        for (int i = 1; i < list.length(); i++) {
            int task = (Integer) list.apply(i);
            int before = (Integer) list.apply(i - 1);
            assertTrue(by.rank(task, host, useful) >= by.rank(before, host, useful), () -> "host " + host + ": " + list);
        }
    }

    @Test
    void whereNothingHasFailedNoListIsLookedAt() {
        eachList((id, host) -> Collections.reverse(CollectionConverters.asJava(list(id, host)))); // nobody does
        assertEquals(0, changed(this::look));
    }

    @Test
    void whatHasFailedComesToItsPlace() {
        List<Long> launched = stages.offer(50, 0, 1, 2);
        assertTrue(launched.size() > 30, "launched: " + launched.size());
        for (long attempt : launched) { // the last ones are those that are to run last
            synchronized (stages.scheduler) {
                if (all.get(0).taskInfos().contains(attempt)) {
                    all.get(0).handleFailedTask(attempt, TaskState.FAILED(), UnknownReason$.MODULE$);
                }
            }
        }
        assertTrue(changed(this::look) > 0);
        assertOrder();
    }

    @Test
    void whatChangesLaterIsFollowedInSeveralOffers() {
        for (int id = 0; id < orders.size(); id++) {
            shares.set(id, stages.shares(TASKS, random));
            orders.get(id).publish(shares.get(id));
        }
        int offers = 0;
        for (int changed; (changed = changed(this::look)) > 0; offers++) {
            assertTrue(changed <= AT_ONCE + TASKS, changed + " at once");
        }
        assertTrue(offers < 15, offers + " offers");
        assertOrder();
    }

    /** A task is added to the list of a host that has its input in memory: again when Spark has taken it out, as it ran elsewhere. */
    @Test
    void executorsThatGoPutNoTaskIntoAListTwice() {
        List<Integer> taken = new ArrayList<>();
        shares.get(0).homes((task, host) -> {
            boolean prefers = CollectionConverters.asJava(all.get(0).tasks()[task].preferredLocations()).stream()
                .anyMatch(location -> location.host().equals("h" + host));
            if (taken.isEmpty() && host > 10 && !prefers) {
                list(0, host).subtractOne(task);
                taken.addAll(List.of(task, host));
            }
        });
        for (int gone = 0; gone < 10; gone++) {
            stages.scheduler.executorLost("e" + gone, new ExecutorProcessLost("test", Option.empty(), false));
            useful[gone] = false;
            look();
        }
        eachList((id, host) -> {
            List<Object> tasks = CollectionConverters.asJava(list(id, host));
            assertEquals(Set.copyOf(tasks).size(), tasks.size(), () -> "of " + id + " on host " + host + ": " + tasks);
        });
        assertTrue(list(0, taken.get(1)).contains(taken.get(0)));
    }

    /** What an executor has kept is not read from files, wherever these are in memory. */
    @Test
    void tasksStayWithTheExecutorThatHasTheirInput() throws Exception {
        assertTrue(TaskSetOrder.readsBlocks(all.get(0)));
        TaskSetManager cached = stages.add(5, stages.cachedTasks(TASKS));
        assertFalse(TaskSetOrder.readsBlocks(cached));
        look();
        orders.get(5).ranges(7, (file, start, length) -> {
            throw new IllegalStateException(file + " is not read");
        });
        for (int host = 0; host < HOSTS; host++) {
            for (Object task : CollectionConverters.asJava(cached.pendingTasks().forHost().apply("h" + host))) {
                assertEquals(host, (Integer) task % HOSTS);
            }
        }
    }

    @Test
    void executorsComeAndGo() {
        stages.scheduler.executorLost("e0", new ExecutorProcessLost("test", Option.empty(), false));
        useful[0] = false;
        for (int i = 0; i < 10; i++) {
            look();
        }
        assertOrder();
        stages.offer(0, 0);
        useful[0] = true;
        for (int i = 0; i < 10; i++) {
            look();
        }
        assertOrder();
    }
}
