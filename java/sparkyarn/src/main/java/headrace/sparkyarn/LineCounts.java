package headrace.sparkyarn;

import static headrace.sparkyarn.Events.JSON;
import static headrace.sparkyarn.Events.tell;

import com.codahale.metrics.Gauge;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.metrics.source.Source;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An application that counts the lines of files (quartet, section 5.2), whose executors are there before a job begins, as
 * in a session of a person; one application after the other in one driver. Reads an order a line from standard input, as
 * JSON, and tells on standard output how each has ended, as JSON too: "opened", "finished", "closed", or "broken" with a
 * reason.
 */
public final class LineCounts {
    private static final long POLL_MS = 20;
    private static final long START_MS = 300_000;
    /** After so many lines a task that is to stand still does. */
    private static final long MIDDLE = 1000;

    private static JavaSparkContext spark;

    private LineCounts() { }

    /**
     * What to do.
     *
     * @param name of the order
     * @param what "open" an application, "count" lines in it, "sum" them up, or "close" it
     * @param properties of Spark, to open
     * @param executors to wait for, to open
     * @param inputs files whose lines to count
     * @param hold a file, to sum up: each task makes one of that name, a dot and its number when it is in the middle, and
     *     goes on when that without the number is not there
     */
    record Order(String name, String what, Map<String, String> properties, int executors, List<String> inputs, String hold) { }

    public static void main(String[] args) throws IOException {
        Events.serve(Order.class, Order::name, order -> {
            switch (order.what()) {
                case "open" -> open(order);
                case "count" -> count(order);
                case "sum" -> sum(order);
                case "close" -> close(order);
                default -> throw new IllegalArgumentException(order.what());
            }
        });
    }

    private static void open(Order order) throws InterruptedException, IOException {
        // The token of an earlier application master stays with the user, and would be taken for the new one's.
        UserGroupInformation.setLoginUser(UserGroupInformation.createRemoteUser(UserGroupInformation.getLoginUser().getShortUserName()));
        SparkConf conf = new SparkConf();
        order.properties().forEach(conf::set);
        spark = new JavaSparkContext(conf);
        long began = System.currentTimeMillis();
        // The driver stands there as well.
        while (spark.sc().getExecutorMemoryStatus().size() < order.executors() + 1) {
            if (System.currentTimeMillis() - began > START_MS) {
                throw new IllegalStateException("there are still not " + order.executors() + " executors");
            }
            Thread.sleep(POLL_MS);
        }
        tell(order.name(), "opened", "application", spark.sc().applicationId());
    }

    private static void count(Order order) {
        long began = System.nanoTime();
        long lines = spark.textFile(String.join(",", order.inputs()), 1).count();
        finished(order, began, lines + " lines");
    }

    /** The answer is different when a line is, or is read twice, or not. */
    private static void sum(Order order) {
        long began = System.nanoTime();
        String hold = order.hold();
        List<long[]> parts = spark.textFile(String.join(",", order.inputs()), 1)
            .mapPartitions(lines -> List.of(sum(lines, hold)).iterator()).collect();
        finished(order, began, parts.stream().mapToLong(part -> part[0]).sum() + " lines, " + parts.stream().mapToLong(part -> part[1]).sum());
    }

    /** How many lines there are, and what their hash codes are together. */
    private static long[] sum(Iterator<String> lines, String hold) {
        long[] sum = {0, 0};
        while (lines.hasNext()) {
            sum[0]++;
            sum[1] += lines.next().hashCode();
            if (sum[0] == MIDDLE) {
                standStill(hold);
            }
        }
        return sum;
    }

    private static void standStill(String hold) {
        try {
            Files.write(Path.of(hold + "." + TaskContext.getPartitionId()), new byte[0]);
            while (Files.exists(Path.of(hold))) {
                TimeUnit.MILLISECONDS.sleep(POLL_MS);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new IllegalStateException("the task was cancelled", e);
        }
    }

    private static void finished(Order order, long began, String answer) {
        double took = (System.nanoTime() - began) / 1e9;
        tell(order.name(), "finished", "application", spark.sc().applicationId(), "good", true, "took", took,
            "answer", answer, "metrics", metrics());
    }

    private static void close(Order order) {
        String application = spark.sc().applicationId();
        spark.stop();
        tell(order.name(), "closed", "application", application);
    }

    /** What plug-ins have counted so far. */
    private static Map<String, Long> metrics() {
        Map<String, Long> all = new TreeMap<>();
        for (String plugin : spark.getConf().get("spark.plugins", "").split(",")) {
            for (Source source : CollectionConverters.asJava(SparkEnv.get().metricsSystem().getSourcesByName("plugin." + plugin))) {
                for (Map.Entry<String, Gauge> gauge : source.metricRegistry().getGauges().entrySet()) {
                    if (gauge.getValue().getValue() instanceof Long) {
                        all.put(gauge.getKey(), (Long) gauge.getValue().getValue());
                    }
                }
            }
        }
        return all;
    }
}
