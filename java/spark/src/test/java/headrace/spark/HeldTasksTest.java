package headrace.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.locality.ResidentShares;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.spark.ExecutorLostFailure;
import org.apache.spark.TaskState;
import org.apache.spark.scheduler.ExecutorProcessLost;
import org.apache.spark.scheduler.TaskSetManager;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import scala.Option;

/** Which tasks a host is not given while another one has their input in memory. */
class HeldTasksTest {
    private static final long NEVER_OVER = 3_600_000_000_000L;
    private static final long SHORT = 20_000_000;
    private static final int HOSTS = 3;
    private static final int TASKS = 12;

    private final Stages stages = new Stages(HOSTS);
    private final List<TaskSetOrder> orders = new ArrayList<>();
    /** What another thread would do. */
    private final Deque<Runnable> later = new ArrayDeque<>();

    @AfterEach
    void end() {
        stages.close();
    }

    /** A stage whose tasks prefer all hosts; of the first ones so many are in memory, in part, on host 0. */
    private TaskSetManager begin(long delay, int warm, double part) {
        TaskSetManager stage = stages.add(0, stages.tasks(TASKS, new Random(1)));
        stages.scheduler.rootPool().addSchedulable(new MemoryLocality(stages.scheduler, 0, delay, null, work -> later.add(work), order -> {
            orders.add(order);
            order.publish(onFirst(warm, part));
            order.known();
        }, e -> {
            throw new IllegalStateException(e);
        }));
        return stage;
    }

    private static ResidentShares onFirst(int warm, double part) {
        ResidentShares.Builder shares = new ResidentShares.Builder(TASKS);
        for (int task = 0; task < TASKS; task++) {
            if (task < warm) {
                shares.add(0, part);
            }
            shares.next();
        }
        return shares.build(IntStream.range(0, HOSTS).mapToObj(host -> List.of("h" + host)).toList());
    }

    private void sort() {
        while (!later.isEmpty()) {
            later.remove().run();
        }
    }

    private int launched(int cores, int host) {
        stages.offer(0, host); // notices what has changed
        sort();
        return stages.offer(cores, host).size();
    }

    private void awaitLaunched(int host) throws InterruptedException {
        while (launched(1, host) == 0) {
            Thread.sleep(1);
        }
    }

    @Test
    void aHostLeavesToAnotherWhatThatHasInMemory() {
        begin(NEVER_OVER, TASKS - 4, 1);
        assertEquals(4, launched(TASKS, 1)); // those that are nowhere
        assertEquals(0, launched(TASKS, 2));
        assertEquals(0, launched(TASKS, 1));
        assertEquals(TASKS - 4, launched(TASKS, 0));
    }

    @Test
    void itIsNotLongWithoutATask() throws InterruptedException {
        begin(SHORT, TASKS, 1);
        awaitLaunched(1);
        awaitLaunched(2);
        assertEquals(TASKS - 2, launched(TASKS, 1)); // it has waited
    }

    @Test
    void withoutADelayItTakesAll() {
        begin(0, TASKS, 1);
        assertEquals(TASKS, launched(TASKS, 1));
    }

    @Test
    void whatIsInMemoryInASmallPartDoesNotWait() {
        begin(NEVER_OVER, TASKS, 0.4);
        assertEquals(TASKS, launched(TASKS, 1));
    }

    @Test
    void itTakesAllWhenTheOtherIsLost() {
        begin(NEVER_OVER, TASKS, 1);
        assertEquals(0, launched(TASKS, 1));
        stages.scheduler.executorLost("e0", new ExecutorProcessLost("test", Option.empty(), false));
        assertEquals(TASKS, launched(TASKS, 1));
    }

    @Test
    void itTakesAllWhileTheOtherIsExcluded() {
        begin(NEVER_OVER, TASKS, 1);
        assertEquals(0, launched(TASKS, 1));
        stages.exclude(Set.of("h0"));
        assertEquals(TASKS / 2, launched(TASKS / 2, 1));
        stages.exclude(Set.of());
        assertEquals(0, launched(TASKS, 1));
        assertEquals(TASKS / 2, launched(TASKS, 0));
    }

    @Test
    void itTakesAllWhenNothingIsInMemoryAnyMore() {
        begin(NEVER_OVER, TASKS, 1);
        assertEquals(0, launched(TASKS, 1));
        orders.get(0).publish(onFirst(0, 0));
        assertEquals(TASKS, launched(TASKS, 1));
    }

    @Test
    void sparksOwnOrderHasAll() {
        begin(NEVER_OVER, TASKS, 1);
        assertEquals(0, launched(TASKS, 1));
        synchronized (stages.scheduler) {
            orders.get(0).giveUp();
        }
        assertEquals(TASKS, launched(TASKS, 1));
    }

    /** Whatever is offered, fails or is lost, every task is launched in the end, and none twice at once. */
    @Test
    void nothingIsLost() throws InterruptedException {
        Random random = new Random(2);
        TaskSetManager stage = begin(SHORT, TASKS, 1);
        stages.offer(0, 0);
        TaskSetOrder.Arrangement next = null;
        int put = 0;
        Set<Long> running = new HashSet<>();
        for (int step = 0; step < 2000; step++) {
            int host = random.nextInt(HOSTS);
            switch (random.nextInt(6)) {
                case 0 -> running.addAll(stages.offer(1 + random.nextInt(3), host));
                case 1 -> orders.get(0).publish(onFirst(random.nextInt(TASKS + 1), random.nextDouble()));
                case 2 -> {
                    if (random.nextInt(20) == 0) {
                        stages.scheduler.executorLost("e" + host, new ExecutorProcessLost("test", Option.empty(), false));
                        stages.offer(0, host); // another one
                    }
                }
                case 3 -> sort();
                case 4 -> {
                    if (next == null) {
                        orders.get(0).disturb(); // else there is seldom something to copy
                        next = orders.get(0).copy(at -> true);
                    } else {
                        next.sort();
                        put += Math.min(1, orders.get(0).put(next));
                        next = null;
                    }
                }
                default -> { }
            }
            synchronized (stages.scheduler) {
                running.removeIf(attempt -> {
                    boolean fails = random.nextInt(3) == 0 && stage.taskInfos().apply(attempt).running();
                    if (fails) {
                        stage.handleFailedTask(attempt, TaskState.FAILED(), new ExecutorLostFailure("e", false, Option.empty()));
                    }
                    return fails || !stage.taskInfos().apply(attempt).running();
                });
            }
        }
        assertTrue(put > 10, put + " were put back");
        sort();
        for (int host = 0; stage.runningTasks() < TASKS; host = (host + 1) % HOSTS) {
            stages.offer(1, host);
            Thread.sleep(1);
        }
        for (int task = 0; task < TASKS; task++) {
            assertEquals(1, stage.copiesRunning()[task]);
        }
        assertTrue(!stage.isZombie());
    }
}
