package headrace.spark;

import headrace.locality.ResidentShares;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.function.IntConsumer;
import org.apache.spark.scheduler.ExecutorProcessLost;
import org.apache.spark.scheduler.Task;
import org.junit.jupiter.api.Test;
import scala.Option;

/**
 * Measures the processor time of offers under the scheduler's lock, Spark's own included, with 50 stages of 20,000 tasks each on 1,000 hosts, a third of whose
 * input is in memory; or with 10 of 100,000 (headrace.bench.tasks). Run by: mvn -f java/pom.xml -pl client,spark -am test -Dtest=OfferBench
 * -Dsurefire.failIfNoSpecifiedTests=false -Dheadrace.test.jvm=-Xmx3g.
 */
class OfferBench {
    private static final long DELAY = 1_000_000_000;
    private static final int HOSTS = 1000;
    private static final int TASKS = Integer.getInteger("headrace.bench.tasks", 20_000);
    private static final int STAGES = 1_000_000 / TASKS;

    private final Random random = new Random(1);

    @Test
    void offers() {
        try (Stages stages = new Stages(HOSTS)) {
            Task<?>[] tasks = stages.tasks(TASKS, random);
            for (int id = 0; id < STAGES; id++) {
                stages.add(id, tasks);
            }
            measure("Spark alone: an executor has a core", 500, i -> stages.offer(1, random.nextInt(HOSTS)));
            List<TaskSetOrder> orders = new ArrayList<>();
            MemoryLocality locality = new MemoryLocality(stages.scheduler, 0, DELAY, null, order -> {
                orders.add(order);
                order.publish(stages.shares(TASKS, random));
                order.known();
            }, e -> {
                throw new IllegalStateException(e);
            });
            stages.scheduler.rootPool().addSchedulable(locality);
            measure("all stages begin", 1, i -> stages.offer(0, 0));
            measure("an executor has a core", 500, i -> stages.offer(1, random.nextInt(HOSTS)));
            ResidentShares other = stages.shares(TASKS, random);
            measure("something else is in memory for one stage", 10, i -> {
                orders.get(i).publish(other);
                stages.offer(0, 0);
            });
            orders.forEach(order -> order.publish(stages.shares(TASKS, random)));
            measure("for all stages: the next offers", 200, i -> stages.offer(0, 0));
            measure("an executor is lost", 1, i -> {
                synchronized (stages.scheduler) {
                    locality.executorLost("e0", "h0", new ExecutorProcessLost("test", Option.empty(), false));
                }
                stages.offer(0, 1);
            });
            measure("the offers after it", 200, i -> stages.offer(1, random.nextInt(HOSTS)));
        }
    }

    private static void measure(String what, int times, IntConsumer step) {
        double[] millis = new double[times];
        for (int i = 0; i < times; i++) {
            long began = cpu();
            step.accept(i);
            millis[i] = (cpu() - began) / 1e6;
        }
        Arrays.sort(millis);
        System.out.printf("%-50s %.3f ms (99 %%: %.3f, most %.3f)%n", what, millis[times / 2], millis[times - 1 - times / 100],
            millis[times - 1]);
    }

    /** Of this thread, in nanoseconds: others on the machine do not count. */
    private static long cpu() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }
}
