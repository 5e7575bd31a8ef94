package headrace.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Spark with nothing of Headrace on its class path that it would use, on Headrace's own file system. */
class FileSystemTest {
    private static final Path PROGRAM = Path.of("..", "..", "bin", "headrace");

    @TempDir
    Path dir;
    private Process node;
    private String fs;
    private SparkSession session;

    @BeforeEach
    void setUp() throws IOException {
        assumeTrue(Files.isExecutable(PROGRAM), "there is no " + PROGRAM + ": make build makes it");
        node = new ProcessBuilder(PROGRAM.toAbsolutePath().toString(), "dfs", "start", "--dir", dir.resolve("dfs").toString(), "--port", "0", "--data-port", "0",
            "--http-port", "0").redirectError(ProcessBuilder.Redirect.INHERIT).start();
        fs = new BufferedReader(new InputStreamReader(node.getInputStream(), StandardCharsets.UTF_8)).readLine();
    }

    @AfterEach
    void tearDown() throws InterruptedException {
        stop();
        if (node != null) {
            node.destroy();
            assertEquals(true, node.waitFor(1, TimeUnit.MINUTES), "headrace dfs start has not ended");
            assertEquals(0, node.exitValue());
        }
    }

    private SparkSession start() {
        session = SparkSession.builder().master("local[2]").appName("test").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2").config("spark.sql.warehouse.dir", fs + "/warehouse").config("spark.hadoop.fs.defaultFS", fs)
            .config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", fs + "/events")
            .config("spark.sql.sources.partitionOverwriteMode", "dynamic").getOrCreate();
        return session;
    }

    private void stop() {
        if (session != null) {
            session.stop();
            session = null;
        }
    }

    /** Writes a file by HDFS's own client, whole or not at all, as streams want it. */
    private void put(String path, String text) throws IOException {
        try (FileSystem files = FileSystem.newInstance(URI.create(fs), new Configuration())) {
            org.apache.hadoop.fs.Path written = new org.apache.hadoop.fs.Path("/written");
            try (OutputStream out = files.create(written)) {
                out.write(text.getBytes(StandardCharsets.UTF_8));
            }
            files.mkdirs(new org.apache.hadoop.fs.Path(path).getParent());
            assertEquals(true, files.rename(written, new org.apache.hadoop.fs.Path(path)));
        }
    }

    @Test
    void tablesAndTextAreWrittenAndReadAgain() throws IOException {
        put("/events/made", ""); // Spark makes no directory for its events
        start();
        Dataset<Row> numbers = session.range(100_000).withColumn("part", functions.expr("id % 4"));
        numbers.write().partitionBy("part").parquet("/table");
        // Only the partition that there are new rows of is replaced, by renames.
        session.range(10).withColumn("part", functions.expr("id * 0 + 2")).write().mode(SaveMode.Overwrite).partitionBy("part").parquet("/table");
        Row sums = session.read().parquet("/table").selectExpr("count(*)", "sum(id)", "count(distinct part)").first();
        long replaced = 25_000L * 2 + 4 * (24_999L * 25_000 / 2); // 2, 6, 10, ...
        assertEquals(75_010, sums.getLong(0));
        assertEquals(99_999L * 100_000 / 2 - replaced + 45, sums.getLong(1));
        assertEquals(4, sums.getLong(2));

        session.sql("create table kept using orc as select id, id * 2 as twice from range(1000)");
        assertEquals(999_000, session.sql("select sum(twice) from kept").first().getLong(0));

        JavaSparkContext sc = new JavaSparkContext(session.sparkContext());
        put("/words/1", "a b a\n".repeat(10_000));
        put("/words/2", "b c\n".repeat(5_000));
        Map<String, Long> counts = new TreeMap<>(sc.textFile("/words", 4).flatMap(line -> java.util.List.of(line.split(" ")).iterator()).countByValue());
        assertEquals(Map.of("a", 20_000L, "b", 15_000L, "c", 5_000L), counts);
        sc.parallelize(java.util.List.of(1, 2, 3), 3).saveAsTextFile("/saved");
        assertEquals(3, sc.textFile("/saved").count());
    }

    /** A stream is stopped and goes on in another driver, three times: each line counts once, in its files and in its state. */
    @Test
    void streamsGoOnWhereTheyWere() throws Exception {
        put("/events/made", "");
        for (int round = 0; round < 3; round++) {
            put("/in/" + round + "a", (round + "\n").repeat(1000));
            start();
            StreamingQuery copied = session.readStream().text("/in").writeStream().format("parquet").option("checkpointLocation", "/state/copied").start("/copied");
            StreamingQuery counted = session.readStream().text("/in").groupBy("value").count().writeStream().outputMode("complete")
                .option("checkpointLocation", "/state/counted")
                .foreachBatch((VoidFunction2<Dataset<Row>, Long>) (rows, batch) -> rows.coalesce(1).write().mode(SaveMode.Overwrite).json("/counted")).start();
            copied.processAllAvailable();
            put("/in/" + round + "b", (round + "\n").repeat(500));
            counted.processAllAvailable();
            copied.processAllAvailable();
            copied.stop();
            counted.stop();
            Map<String, Long> want = new TreeMap<>();
            for (int i = 0; i <= round; i++) {
                want.put(Integer.toString(i), 1500L);
            }
            assertEquals(want, counts(session.read().parquet("/copied").groupBy("value").count()));
            assertEquals(want, counts(session.read().json("/counted").select("value", "count")));
            stop();
        }
    }

    private static Map<String, Long> counts(Dataset<Row> rows) {
        Map<String, Long> all = new TreeMap<>();
        rows.collectAsList().forEach(row -> all.merge(row.get(0).toString(), row.getLong(1), Long::sum));
        return all;
    }
}
