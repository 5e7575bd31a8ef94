package headrace.spark;

import headrace.locality.ResidentShares;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;

/**
 * Measures what ordering costs in processor time, without reading and writing Spark's own lists: that of all lists of a stage, as after a change, with three replicas of each task on 20
 * hosts. Run by: mvn -f java/pom.xml -pl client,spark test-compile, then java -cp java/spark/target/classes:
 * java/spark/target/test-classes headrace.spark.PermutationBench.
 */
final class PermutationBench {
    private static final int HOSTS = 20;
    private static final int REPEATS = 41;

    private PermutationBench() { }

    public static void main(String[] arguments) {
        for (int tasks : new int[] {1000, 20_000, 100_000}) {
            double[] millis = new double[REPEATS];
            for (int i = 0; i < REPEATS; i++) {
                millis[i] = once(tasks, new Random(i));
            }
            double[] sorted = Arrays.copyOfRange(millis, 10, REPEATS); // the first ones are compiled meanwhile
            Arrays.sort(sorted);
            System.out.printf("%7d tasks: %.2f ms (%.2f to %.2f)%n", tasks, sorted[sorted.length / 2], sorted[0],
                sorted[sorted.length - 1]);
        }
    }

    /** Returns the milliseconds of ordering all lists once. */
    private static double once(int tasks, Random random) {
        ResidentShares.Builder shares = new ResidentShares.Builder(tasks);
        int[][] lists = new int[HOSTS + 1][tasks];
        int[] n = new int[HOSTS + 1];
        for (int task = tasks - 1; task >= 0; task--) {
            int first = random.nextInt(HOSTS);
            for (int replica = 0; replica < 3; replica++) {
                int host = (first + replica) % HOSTS;
                lists[host][n[host]++] = task;
            }
            lists[HOSTS][n[HOSTS]++] = task;
        }
        for (int task = 0; task < tasks; task++) {
            if (random.nextInt(3) == 0) {
                shares.add(random.nextInt(HOSTS), random.nextDouble());
            }
            shares.next();
        }
        ResidentShares all = shares.build(IntStream.range(0, HOSTS).mapToObj(h -> List.of("h" + h)).toList());
        boolean[] useful = new boolean[HOSTS];
        Arrays.fill(useful, true);
        PendingOrder order = new PendingOrder(tasks);
        long began = cpu();
        for (int list = 0; list <= HOSTS; list++) {
            int host = list < HOSTS ? list : -1;
            order.sort(lists[list], n[list], tasks / 3, task -> all.rank(task, host, useful));
        }
        return (cpu() - began) / 1e6;
    }

    /** Of this thread, in nanoseconds: others on the machine do not count. */
    private static long cpu() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }
}
