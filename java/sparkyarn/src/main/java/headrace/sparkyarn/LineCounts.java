package headrace.sparkyarn;

import static headrace.sparkyarn.Events.JSON;
import static headrace.sparkyarn.Events.tell;

import com.codahale.metrics.Gauge;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
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

    private static JavaSparkContext spark;

    private LineCounts() { }

    /**
     * What to do.
     *
     * @param name of the order
     * @param what "open" an application, "count" lines in it, or "close" it
     * @param properties of Spark, to open
     * @param executors to wait for, to open
     * @param inputs files whose lines to count
     */
    record Order(String name, String what, Map<String, String> properties, int executors, List<String> inputs) { }

    public static void main(String[] args) throws IOException {
        Events.serve(Order.class, Order::name, order -> {
            switch (order.what()) {
                case "open" -> open(order);
                case "count" -> count(order);
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
        double took = (System.nanoTime() - began) / 1e9;
        tell(order.name(), "finished", "application", spark.sc().applicationId(), "good", true, "took", took,
            "answer", lines + " lines", "metrics", metrics());
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
