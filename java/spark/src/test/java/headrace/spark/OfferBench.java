package headrace.spark;

import headrace.locality.ResidentShares;
import java.lang.management.ManagementFactory;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import java.util.function.IntConsumer;
import java.util.stream.IntStream;
import org.apache.spark.TaskState;
import org.apache.spark.UnknownReason$;
import org.apache.spark.scheduler.ExecutorProcessLost;
import org.apache.spark.scheduler.Task;
import org.apache.spark.scheduler.TaskSetManager;
import org.junit.jupiter.api.Test;
import scala.Option;

/**
 * Measures the processor time of offers under the scheduler's lock, Spark's own included, with 50 stages of 20,000 tasks each on 1,000 hosts, a third of whose
 * input is in memory; or with 10 of 100,000 (headrace.bench.tasks). Between offers another thread puts stages into order, which holds the lock while it copies
 * Spark's lists and while it puts them back: that is told for each stage, too. Run by: mvn -f java/pom.xml -pl client,spark -am test -Dtest=OfferBench
 * -Dsurefire.failIfNoSpecifiedTests=false -Dheadrace.test.jvm=-Xmx3g.
 */
class OfferBench {
    private static final long DELAY = 1_000_000_000;
    private static final int HOSTS = 1000;
    private static final int TASKS = Integer.getInteger("headrace.bench.tasks", 20_000);
    /** Tasks that an executor has finished when it is lost. */
    private static final int LOST = 5000;
    private static final int STAGES = 1_000_000 / TASKS;

    private final Random random = new Random(1);
    /** What the other thread is to do, which this one does here. */
    private final Deque<Runnable> asked = new ArrayDeque<>();

    @Test
    void offers() {
        try (Stages stages = new Stages(HOSTS)) {
            Task<?>[] tasks = stages.maps(TASKS, task -> {
                int first = random.nextInt(HOSTS);
                return IntStream.range(first, first + 3).mapToObj(host -> "h" + host % HOSTS).toList();
            });
            List<TaskSetManager> all = new ArrayList<>();
            for (int id = 0; id < STAGES; id++) {
                all.add(stages.add(id, tasks));
            }
            measure("Spark alone: an executor has a core", 500, i -> stages.offer(1, random.nextInt(HOSTS)));
            List<Long> alone = stages.offer(LOST, 1);
            measure("Spark alone: an executor has a core, after a task has ended", alone.size(), i -> {
                stages.succeed(of(alone.get(i), all), alone.get(i));
                stages.offer(1, random.nextInt(HOSTS));
            });
            List<ResidentShares> shares = IntStream.range(0, STAGES).mapToObj(id -> stages.shares(TASKS, random)).toList();
            List<TaskSetOrder> orders = new ArrayList<>();
            MemoryLocality locality = new MemoryLocality(stages.scheduler, 0, DELAY, null, asked::add, order -> {
                order.publish(shares.get(orders.size()));
                orders.add(order);
                order.known();
            }, e -> {
                throw new IllegalStateException(e);
            });
            stages.scheduler.rootPool().addSchedulable(locality);
            measure("all stages begin", 1, i -> stages.offer(0, 0));
            measureOrdering("they are put into order", stages, orders);
            measure("an executor has a core", 500, i -> stages.offer(1, random.nextInt(HOSTS)));
            orders.forEach(order -> order.publish(stages.shares(TASKS, random)));
            measure("something else is in memory", 200, i -> stages.offer(0, 0));
            measureOrdering("they are put into order", stages, orders);
            List<Long> maps = stages.offer(LOST, 0);
            measure("an executor has a core, after a task has ended", maps.size(), i -> {
                stages.succeed(of(maps.get(i), all), maps.get(i));
                stages.offer(1, random.nextInt(HOSTS));
            });
            System.out.println(maps.size() + " tasks have ended on an executor");
            measure("it is lost: what Spark does itself", 1, i -> stages.scheduler.executorLost("e0", new ExecutorProcessLost("test", Option.empty(), false)));
            measure("the first offer after it", 1, i -> stages.offer(0, 1));
            measure("the offers after it", 200, i -> stages.offer(1, random.nextInt(HOSTS)));
            measureOrdering("they are put into order", stages, orders);
            List<Long> attempts = stages.offer(20, 7);
            measure("a task fails", attempts.size(), i -> {
                synchronized (stages.scheduler) {
                    of(attempts.get(i), all).handleFailedTask(attempts.get(i), TaskState.FAILED(), UnknownReason$.MODULE$);
                }
                stages.offer(0, 7);
            });
        }
    }

    private static TaskSetManager of(long attempt, List<TaskSetManager> all) {
        return all.stream().filter(stage -> stage.taskInfos().contains(attempt)).findFirst().orElseThrow();
    }

    /** Measures what the other thread does. */
    private void measureOrdering(String what, Stages stages, List<TaskSetOrder> orders) {
        List<TaskSetOrder.Arrangement> next = new ArrayList<>();
        measure(what + ": copying, under the lock", orders.size(), i -> {
            synchronized (stages.scheduler) {
                next.add(orders.get(i).copy(host -> true));
            }
        });
        measure(what + ": sorting", orders.size(), i -> next.get(i).sort());
        measure(what + ": putting back, under the lock", orders.size(), i -> {
            synchronized (stages.scheduler) {
                if (orders.get(i).put(next.get(i)) == 0) {
                    throw new IllegalStateException();
                }
            }
        });
        while (!asked.isEmpty()) {
            asked.remove().run(); // nothing is left to do
        }
    }

    private static void measure(String what, int times, IntConsumer step) {
        double[] millis = new double[times];
        for (int i = 0; i < times; i++) {
            long began = cpu();
            step.accept(i);
            millis[i] = (cpu() - began) / 1e6;
        }
        double first = millis[0];
        Arrays.sort(millis);
        System.out.printf("%-60s %.3f ms (99 %%: %.3f, most %.3f, first %.3f)%n", what, millis[times / 2], millis[times - 1 - times / 100],
            millis[times - 1], first);
    }

    /** Of this thread, in nanoseconds: others on the machine do not count. */
    private static long cpu() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }
}
