package headrace.sparkyarn;

import static headrace.sparkyarn.Events.JSON;
import static headrace.sparkyarn.Events.tell;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * Makes tables, and runs queries on them, each as an application of its own, one after the other in one driver. Reads an
 * order a line from standard input, as JSON, and tells on standard output how each has ended, as JSON too: "made",
 * "finished", or "broken" with a reason.
 */
public final class Queries {
    private Queries() { }

    /**
     * What to do.
     *
     * @param name of the order
     * @param dir of the tables
     * @param query in SQL; empty: tables are to be made
     * @param properties of Spark
     * @param scale of tables, and how many bytes their files have at most
     */
    record Order(String name, String dir, String query, Map<String, String> properties, double scale, long most) { }

    public static void main(String[] args) throws IOException {
        Events.serve(Order.class, Order::name, order -> {
            if (order.query().isEmpty()) {
                make(order);
            } else {
                run(order);
            }
        });
    }

    private static void make(Order order) throws IOException {
        Map<String, Long> files = Tables.make(FileSystem.get(new Configuration()), order.dir(), order.scale(), order.most());
        tell(order.name(), "made", "answer", JSON.writeValueAsString(files));
    }

    /** Counts the time from the moment at which the application has its driver, as a session of a person has. */
    private static void run(Order order) {
        SparkConf conf = new SparkConf();
        order.properties().forEach(conf::set);
        try (SparkSession spark = SparkSession.builder().config(conf).getOrCreate()) {
            Tables.register(spark, order.dir());
            long began = System.nanoTime();
            List<Row> rows = spark.sql(order.query()).collectAsList();
            double took = (System.nanoTime() - began) / 1e9;
            String answer = rows.stream().map(Row::toString).sorted().collect(Collectors.joining("\n"));
            tell(order.name(), "finished", "application", spark.sparkContext().applicationId(), "good", !rows.isEmpty(), "took", took,
                "answer", rows.size() + " rows " + Integer.toHexString(answer.hashCode()));
        }
    }
}
