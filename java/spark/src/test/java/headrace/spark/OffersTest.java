package headrace.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.locality.FirstTask;
import headrace.locality.ResidentShares;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashSet;
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
import scala.Option;
import scala.collection.mutable.ArrayBuffer;
import scala.jdk.javaapi.CollectionConverters;

/** What is done at offers, with many hosts. */
class OffersTest {
    private static final long DELAY = 1_000_000_000;
    private static final int HOSTS = 300;
    private static final int TASKS = 3000;

    private final Random random = new Random(1);
    private final List<TaskSetManager> all = new ArrayList<>();
    private final List<TaskSetOrder> orders = new ArrayList<>();
    private final List<ResidentShares> shares = new ArrayList<>();
    private final boolean[] useful = new boolean[HOSTS];
    private Stages stages;
    /** Stages are not put into order unless a test does it. */
    private boolean byHand;
    private final Deque<Runnable> later = new ArrayDeque<>();

    @BeforeEach
    void begin() {
        stages = new Stages(HOSTS);
        Arrays.fill(useful, true);
        for (int id = 0; id < 5; id++) {
            all.add(stages.add(id, stages.tasks(TASKS, random)));
        }
        stages.scheduler.rootPool().addSchedulable(new MemoryLocality(stages.scheduler, 0, DELAY, null, this::sort, order -> {
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

    private void sort(Runnable work) {
        if (byHand) {
            later.add(work);
        } else {
            work.run();
        }
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
        fail(launched); // the last ones are those that are to run last
        assertTrue(changed(this::look) > 0);
        assertOrder();
        ArrayBuffer<Object> everything = all.get(0).pendingTasks().all();
        List<Object> before = List.copyOf(CollectionConverters.asJava(everything));
        assertEquals(sorted(Set.copyOf(before), shares.get(0), -1, useful, FirstTask.of(0, TASKS)), before.stream().distinct().toList());
    }

    /** Against sorting what each list is to have. */
    @Test
    void eachListHasItsTasksAndThoseInMemoryThereInOrder() {
        for (int id = 0; id < 12; id++) {
            int tasks = id % 2 == 0 ? TASKS : 1 + random.nextInt(50);
            TaskSetManager stage = stages.add(100 + id, stages.tasks(tasks, random));
            List<Set<Object>> before = new ArrayList<>();
            for (int host = 0; host < HOSTS; host++) {
                before.add(new HashSet<>(waiting(stage, host)));
            }
            Set<Object> everything = new HashSet<>(CollectionConverters.asJava(stage.pendingTasks().all()));
            TaskSetOrder order = new TaskSetOrder(stage, 0, id % 3 == 0 ? DELAY : 0, changed -> { });
            ResidentShares by = stages.shares(tasks, random);
            order.publish(by);
            boolean[] can = new boolean[HOSTS];
            for (int host = 0; host < HOSTS; host++) {
                can[host] = random.nextInt(10) > 0;
            }
            TaskSetOrder.Arrangement next = order.copy(host -> can[Integer.parseInt(host.substring(1))]);
            next.sort();
            order.put(next);
            by.homes((task, host) -> before.get(host).add(task));
            for (int host = 0; host < HOSTS; host++) {
                if (can[host]) {
                    List<Object> expected = sorted(before.get(host), by, host, can, FirstTask.of(100 + id, tasks));
                    if (id % 3 == 0) { // those leave the list for a while
                        int at = host;
                        expected.removeIf(task -> by.rank((Integer) task, at, can) <= -ResidentShares.WHOLE / 2);
                    }
                    assertEquals(expected, waiting(stage, host));
                }
            }
            assertEquals(sorted(everything, by, -1, can, FirstTask.of(100 + id, tasks)), CollectionConverters.asJava(stage.pendingTasks().all()));
        }
    }

    private static List<Object> waiting(TaskSetManager stage, int host) {
        ArrayBuffer<Object> list = stage.pendingTasks().forHost().getOrElse("h" + host, ArrayBuffer::new);
        return CollectionConverters.asJava(list);
    }

    private static List<Object> sorted(Set<Object> list, ResidentShares by, int host, boolean[] can, int first) {
        List<Object> sorted = new ArrayList<>(list);
        sorted.sort(Comparator.comparing((Object task) -> by.rank((Integer) task, host, can)).thenComparing(task -> (Integer) task >= first)
            .thenComparing(Comparator.comparing((Object task) -> (Integer) task).reversed()));
        return sorted;
    }

    private TaskSetOrder.Arrangement copyForOther() {
        byHand = true;
        shares.set(0, stages.shares(TASKS, random));
        orders.get(0).publish(shares.get(0));
        return copy();
    }

    private TaskSetOrder.Arrangement copy() {
        synchronized (stages.scheduler) {
            return orders.get(0).copy(host -> true);
        }
    }

    private int put(TaskSetOrder.Arrangement next) {
        next.sort();
        synchronized (stages.scheduler) {
            return orders.get(0).put(next);
        }
    }

    private void fail(List<Long> attempts) {
        for (long attempt : attempts) {
            synchronized (stages.scheduler) {
                if (all.get(0).taskInfos().contains(attempt)) {
                    all.get(0).handleFailedTask(attempt, TaskState.FAILED(), UnknownReason$.MODULE$);
                }
            }
        }
    }

    /** Tasks of stage 0 that were launched. */
    private List<Integer> tasks(List<Long> attempts) {
        return attempts.stream().filter(attempt -> all.get(0).taskInfos().contains(attempt))
            .map(attempt -> all.get(0).taskInfos().apply(attempt).index()).toList();
    }

    @Test
    void whatFailsWhileAStageIsSortedIsNotForgotten() {
        List<Long> launched = stages.offer(50, 0, 1, 2);
        TaskSetOrder.Arrangement next = copyForOther();
        fail(launched);
        assertTrue(put(next) > 0);
        TaskSetOrder.Arrangement anew = copy();
        assertNotNull(anew);
        assertTrue(put(anew) > 0);
        assertNull(copy());
        assertOrder(shares.get(0), all.get(0).pendingTasks().all(), -1);
        eachList((id, host) -> assertOrder(shares.get(0), list(0, host), host));
        for (int task : tasks(launched)) {
            assertTrue(all.get(0).pendingTasks().all().contains(task));
            for (var at : CollectionConverters.asJava(all.get(0).tasks()[task].preferredLocations())) {
                int host = Integer.parseInt(at.host().substring(1));
                boolean held = shares.get(0).rank(task, host, useful) <= -ResidentShares.WHOLE / 2; // for a while
                assertEquals(!held, waiting(all.get(0), host).contains(task), () -> task + " on " + at);
            }
        }
    }

    @Test
    void whatIsLaunchedWhileAStageIsSortedIsNotLaunchedAgain() {
        TaskSetOrder.Arrangement next = copyForOther();
        List<Integer> launched = tasks(stages.offer(50, 0, 1, 2));
        assertTrue(launched.size() > 30, "launched: " + launched.size());
        assertTrue(put(next) > 0);
        List<Integer> later = tasks(stages.offer(HOSTS * 100, 0, 1, 2));
        assertTrue(!later.isEmpty() && Collections.disjoint(launched, later), () -> launched + " and " + later);
    }

    /** Spark may add any tasks then. */
    @Test
    void whenAnExecutorIsLostWhileAStageIsSortedItIsSortedAnew() {
        TaskSetOrder.Arrangement next = copyForOther();
        stages.scheduler.executorLost("e0", new ExecutorProcessLost("test", Option.empty(), false));
        assertTrue(put(next) > 0);
        TaskSetOrder.Arrangement anew = orders.get(0).copy(host -> !host.equals("h0"));
        assertNotNull(anew);
        assertTrue(put(anew) > 0);
        assertNull(orders.get(0).copy(host -> !host.equals("h0")));
    }

    /** Two of a file system's machines, of one of which not all names are known. */
    @Test
    void machinesMayShareAName() {
        ResidentShares.Builder by = new ResidentShares.Builder(TASKS);
        for (int task = 0; task < TASKS; task++) {
            by.add(task % 2, 1);
            by.next();
        }
        shares.set(0, by.build(List.of(List.of("h0"), List.of("h0", "dn0"))));
        orders.get(0).publish(shares.get(0));
        assertFalse(orders.get(0).over());
        for (int task = 0; task < TASKS; task++) {
            int number = task;
            assertTrue(all.get(0).pendingTasks().all().contains(task), () -> "task " + number);
        }
    }

    /** Stages that wait for their order to begin come first, and whoever asks again does not wait twice. */
    @Test
    void stagesThatBeginAreOrderedFirst() {
        byHand = true;
        for (int id = 0; id < 3; id++) {
            orders.get(id).publish(stages.shares(TASKS, random));
        }
        all.add(stages.add(7, stages.tasks(TASKS, random)));
        look(); // it begins
        TaskSetOrder last = orders.get(5);
        for (int i = 0; i < 100; i++) {
            orders.forEach(TaskSetOrder::known);
        }
        assertEquals(4, later.size());
        assertTrue(last.begins());
        later.remove().run();
        assertFalse(last.begins());
        later.forEach(Runnable::run);
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
