package headrace.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.function.IntFunction;
import org.apache.spark.ExecutorLostFailure;
import org.apache.spark.TaskState;
import org.apache.spark.scheduler.ExecutorProcessLost;
import org.apache.spark.scheduler.TaskSetManager;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import scala.Option;
import scala.collection.mutable.ArrayBuffer;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Whatever happens while a stage is put into order, no task is lost that waits: Spark finds it in the list of all tasks. As Spark does, tests
 * say that an attempt has ended (statusUpdate) before they handle it, which threads do that fetch results.
 */
class LostTasksTest {
    private static final int HOSTS = 4;
    private static final int TASKS = 40;

    private final Random random = new Random(1);
    /** What another thread would do. */
    private final Deque<Runnable> later = new ArrayDeque<>();
    private final List<Long> running = new ArrayList<>();
    private final List<Long> ended = new ArrayList<>();
    private Stages stages;
    private TaskSetManager stage;
    private TaskSetOrder order;

    @AfterEach
    void end() {
        stages.close();
    }

    private void begin(String wait, long delay) {
        stages = new Stages(HOSTS, wait);
        stages.scheduler.rootPool().addSchedulable(new MemoryLocality(stages.scheduler, 0, delay, null, later::add, begun -> {
            order = begun;
            order.publish(stages.shares(TASKS, random));
            order.known();
        }, e -> {
            throw new IllegalStateException(e);
        }));
    }

    private void stage(int id, IntFunction<List<String>> at) {
        running.clear();
        ended.clear();
        stage = stages.add(id, stages.maps(TASKS, at));
        stages.offer(0, 0);
        sort();
    }

    private void sort() {
        while (!later.isEmpty()) {
            later.remove().run();
        }
    }

    private TaskSetOrder.Arrangement copy() {
        order.publish(stages.shares(TASKS, random));
        synchronized (stages.scheduler) {
            return order.copy(host -> true);
        }
    }

    private int put(TaskSetOrder.Arrangement next) {
        next.sort();
        synchronized (stages.scheduler) {
            return order.put(next);
        }
    }

    private void statusUpdate(long attempt) {
        synchronized (stages.scheduler) {
            stage.removeRunningTask(attempt);
        }
    }

    private void fail(long attempt) {
        synchronized (stages.scheduler) {
            stage.handleFailedTask(attempt, TaskState.FAILED(), new ExecutorLostFailure("e", false, Option.empty()));
        }
    }

    private void succeed(long attempt) {
        stages.succeed(stage, attempt);
    }

    private void assertNoneIsLost(boolean preferred) {
        synchronized (stages.scheduler) {
            Set<Object> all = new HashSet<>(CollectionConverters.asJava(stage.pendingTasks().all()));
            for (int task = 0; task < TASKS; task++) {
                if (stage.successful()[task] || stage.copiesRunning()[task] > 0) {
                    continue;
                }
                assertTrue(all.contains(task), "task " + task + " waits and is in no list");
                for (var at : CollectionConverters.asJava(stage.tasks()[task].preferredLocations())) {
                    ArrayBuffer<Object> list = stage.pendingTasks().forHost().getOrElse(at.host(), ArrayBuffer::new);
                    assertTrue(!preferred || list.contains(task), "task " + task + " waits and is not in the list of " + at.host());
                }
            }
        }
    }

    private void assertEnds(boolean preferred) {
        for (int offers = 0; !stage.isZombie(); offers++) {
            assertTrue(offers < 1_000_000, () -> "copies: " + Arrays.toString(stage.copiesRunning()) + " of " + Arrays.toString(stage.successful()));
            for (int host = 0; host < HOSTS; host++) {
                running.addAll(stages.offer(1, host));
            }
            sort();
            assertNoneIsLost(preferred);
            ended.addAll(running);
            running.clear();
            ended.forEach(this::statusUpdate);
            ended.forEach(this::succeed);
            ended.clear();
        }
        assertEquals(TASKS, stage.tasksSuccessful());
    }

    /** A stage whose tasks prefer hosts without executors, with some that run; Spark takes these out of its list of all. */
    private List<Long> away() {
        begin("1h", 0);
        stage(0, task -> List.of("away" + task % 3));
        List<Long> launched = stages.offer(4, 0);
        assertEquals(4, launched.size());
        return launched;
    }

    @Test
    void whatHasEndedBeforeTheCopyAndFailsAfterIt() {
        List<Long> launched = away();
        statusUpdate(launched.get(0));
        TaskSetOrder.Arrangement next = copy();
        fail(launched.get(0));
        assertTrue(put(next) > 0);
        assertNoneIsLost(true);
        launched.subList(1, 4).forEach(this::succeed);
        assertEnds(true);
    }

    @Test
    void whatFailsWhileResultsAreHandled() {
        List<Long> launched = away();
        launched.subList(1, 4).forEach(this::statusUpdate);
        TaskSetOrder.Arrangement next = copy();
        launched.subList(1, 4).forEach(this::succeed);
        fail(launched.get(0));
        assertTrue(put(next) > 0);
        assertNoneIsLost(true);
        assertEnds(true);
    }

    @Test
    void whatFailsWhileAnotherAttemptOfTheStageFinishes() {
        List<Long> launched = away();
        TaskSetOrder.Arrangement next = copy();
        synchronized (stages.scheduler) {
            stage.markPartitionCompleted(stage.taskInfos().apply(launched.get(1)).index());
        }
        fail(launched.get(0));
        assertTrue(put(next) > 0);
        assertNoneIsLost(true);
        launched.subList(1, 4).forEach(this::succeed);
        assertEnds(true);
    }

    /** Launches, ends, results, failures, lost executors and speculation between copying, sorting and putting, in any order. */
    @ParameterizedTest
    @CsvSource({"20ms, 0", "0, 0", "20ms, 20", "0, 20"})
    void anything(String wait, long delayMillis) {
        begin(wait, delayMillis * 1_000_000);
        int[] times = new int[10];
        for (int id = 0; id < 60; id++) {
            stage(id, task -> random.ints(random.nextInt(4), 0, HOSTS).distinct().mapToObj(at -> (random.nextInt(3) == 0 ? "away" : "h") + at).toList());
            TaskSetOrder.Arrangement next = null;
            boolean marked = false;
            for (int step = 0; step < 300 && !stage.isZombie(); step++) {
                int what = random.nextInt(times.length);
                times[what]++;
                int host = random.nextInt(HOSTS);
                switch (what) {
                    case 0 -> running.addAll(stages.offer(1 + random.nextInt(4), host));
                    case 1, 2 -> take(running, attempt -> {
                        statusUpdate(attempt);
                        ended.add(attempt);
                    });
                    case 3 -> take(ended, this::fail);
                    case 4 -> take(ended, attempt -> {
                        if (random.nextInt(3) == 0) { // else stages end before much has happened
                            succeed(attempt);
                        } else {
                            fail(attempt);
                        }
                    });
                    case 5 -> {
                        if (random.nextInt(8) == 0 && !marked) { // else Spark itself counts -1 copies of a task, and never runs it
                            stages.scheduler.executorLost("e" + host, new ExecutorProcessLost("test", Option.empty(), false));
                            stages.offer(0, host); // another one
                        }
                    }
                    case 6 -> {
                        synchronized (stages.scheduler) {
                            stage.checkSpeculatableTasks(0);
                        }
                    }
                    case 7 -> {
                        if (step > 200 && random.nextInt(10) == 0) {
                            marked = true;
                            synchronized (stages.scheduler) {
                                stage.markPartitionCompleted(random.nextInt(TASKS));
                            }
                        }
                    }
                    case 8 -> {
                        stages.offer(0, host);
                        sort();
                    }
                    default -> {
                        if (next != null) {
                            put(next);
                            next = null;
                        } else {
                            next = copy();
                        }
                    }
                }
                assertNoneIsLost(delayMillis == 0);
            }
            assertEnds(delayMillis == 0);
        }
        for (int each : times) {
            assertTrue(each > 100, each + " times");
        }
    }

    private interface Step {
        void with(long attempt);
    }

    private void take(List<Long> from, Step step) {
        if (!from.isEmpty()) {
            step.with(from.remove(random.nextInt(from.size())));
        }
    }
}
