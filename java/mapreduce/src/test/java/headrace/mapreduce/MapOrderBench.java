package headrace.mapreduce;

import headrace.locality.ResidentShares;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptId;

/**
 * Measures what the order costs in processor time, for each container that comes: with three replicas of each map on 20
 * hosts of one rack, or none on the hosts whose containers come, and a third of the maps in memory somewhere. Nothing of
 * what waits is taken, so that each heartbeat is the first. Run by: mvn -f java/pom.xml -pl client,mapreduce package
 * -DskipTests, then java headrace.mapreduce.MapOrderBench with target/classes and target/test-classes of both modules and
 * Hadoop's jars in the class path.
 */
final class MapOrderBench {
    private static final int HOSTS = 20;
    private static final int REPEATS = 41;

    private MapOrderBench() { }

    public static void main(String[] arguments) {
        for (int maps : new int[] {1000, 20_000, 100_000}) {
            for (String where : new String[] {"host", "rack", "any"}) {
                for (int containers : new int[] {1, HOSTS}) {
                    double[] micros = new double[REPEATS];
                    for (int i = 0; i < REPEATS; i++) {
                        micros[i] = once(maps, where, containers, new Random(i));
                    }
                    double[] sorted = Arrays.copyOfRange(micros, 10, REPEATS); // the first ones are compiled meanwhile
                    Arrays.sort(sorted);
                    System.out.printf("%7d maps, %2d containers, by %s: %.0f µs a container (%.0f to %.0f)%n", maps, containers,
                        where, sorted[sorted.length / 2], sorted[0], sorted[sorted.length - 1]);
                }
            }
        }
    }

    /** Returns the microseconds for each container. */
    private static double once(int maps, String where, int containers, Random random) {
        Map<String, LinkedList<TaskAttemptId>> byHost = new HashMap<>();
        Map<String, LinkedList<TaskAttemptId>> byRack = new HashMap<>();
        Map<TaskAttemptId, Object> waiting = new LinkedHashMap<>();
        ResidentShares.Builder builder = new ResidentShares.Builder(maps);
        for (int n = 0; n < maps; n++) {
            TaskAttemptId map = MapOrderTest.map(n);
            waiting.put(map, n);
            int first = random.nextInt(HOSTS);
            for (int replica = 0; replica < 3; replica++) {
                byHost.computeIfAbsent((where.equals("host") ? "h" : "x") + (first + replica) % HOSTS, h -> new LinkedList<>()).add(map);
            }
            byRack.computeIfAbsent(where.equals("any") ? "elsewhere" : "rack", r -> new LinkedList<>()).add(map);
            if (random.nextInt(3) == 0) {
                builder.add((first + random.nextInt(3)) % HOSTS, random.nextDouble());
            }
            builder.next();
        }
        ResidentShares shares = builder.build(IntStream.range(0, HOSTS).mapToObj(h -> List.of("h" + h)).toList());
        boolean[] useful = new boolean[HOSTS];
        Arrays.fill(useful, true);
        List<MapOrder.Place> places = new ArrayList<>();
        for (int i = 0; i < containers; i++) {
            places.add(new MapOrder.Place("h" + i, true));
        }
        MapOrder order = new MapOrder(byHost, byRack, waiting, List.of(), host -> "rack");
        long began = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        order.arrange(places, host -> {
            int here = Integer.parseInt(host.substring(1));
            return map -> 2 * shares.rank(map.getTaskId().getId(), here, useful) + (map.getTaskId().getId() < maps / 3 ? 0 : 1);
        });
        return (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - began) / 1e3 / containers;
    }
}
