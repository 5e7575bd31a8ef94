package headrace.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.codahale.metrics.Gauge;
import headrace.client.Await;
import headrace.client.ClaimedFiles;
import headrace.client.UnixServer;
import headrace.client.Warming;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Applications with a made-up node, and local files that claim to be in HDFS. */
class WarmPluginTest {
    private static final Pattern FILE = Pattern.compile("\"(hdfs://c[^\"]*)\"");

    @TempDir
    Path dir;
    private final List<String> requests = new CopyOnWriteArrayList<>();
    private final Set<String> asked = new ConcurrentSkipListSet<>();
    private final AtomicReference<String> answer = new AtomicReference<>("{}");
    private UnixServer node;
    private SparkSession session;

    @BeforeEach
    void setUp() throws IOException {
        node = UnixServer.answering(dir.resolve("s"), request -> {
            Matcher file = FILE.matcher(request);
            while (file.find()) {
                asked.add(file.group(1).substring(("hdfs://c" + dir + "/").length()));
            }
            requests.add(request);
            return UnixServer.http("200 OK", answer.get());
        });
    }

    @AfterEach
    void tearDown() throws IOException {
        ClaimedFiles.opening = path -> { };
        if (session != null) {
            session.stop();
        }
        node.close();
    }

    private SparkSession start(String... properties) {
        SparkSession.Builder builder = SparkSession.builder().master("local[1]").appName("test")
            .config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2").config("spark.sql.warehouse.dir", dir.resolve("warehouse").toString())
            .config("spark.hadoop.fs.hdfs.impl", ClaimedFiles.class.getName())
            .config("spark.hadoop.headrace.node.socket", dir.resolve("s").toString())
            .config("spark.hadoop.headrace.warm.patience", "5m") // however busy the machine is
            .config("spark.plugins", WarmPlugin.class.getName());
        for (int i = 0; i < properties.length; i += 2) {
            builder = builder.config(properties[i], properties[i + 1]);
        }
        session = builder.getOrCreate();
        return session;
    }

    private String write(String name, String text) throws IOException {
        Path file = dir.resolve(name);
        Files.createDirectories(file.getParent());
        Files.writeString(file, text);
        return at(name);
    }

    private String at(String name) {
        return "hdfs://c" + dir + "/" + name;
    }

    /** Has whoever reads a file wait until it was asked for: Spark tells of a job some time after it has begun, and what is over by then is not asked for. */
    private void readsWhatWasAskedFor() {
        readsOnce(path -> asked.contains(path.substring(dir.toString().length() + 1)));
    }

    private static void readsOnce(Predicate<String> may) {
        ClaimedFiles.opening = path -> {
            try {
                Await.await(() -> may.test(path));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        };
    }

    /** What has been asked for up to the end of the application. */
    private Set<String> askedInAll() {
        session.stop(); // which lets everything go, after all that was asked for
        session = null;
        return new TreeSet<>(asked);
    }

    @Test
    void whatWaitsForANodeThatIsSilentKeepsNoRdd() throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        CountDownLatch called = new CountDownLatch(1);
        node.close();
        node = new UnixServer(dir.resolve("s"), (in, out) -> {
            called.countDown();
            done.await();
        });
        try {
            JavaSparkContext spark = new JavaSparkContext(start().sparkContext());
            readsOnce(path -> called.getCount() == 0);
            spark.textFile(write("first", "x\n")).count(); // whatever comes now waits behind it
            WeakReference<Object> second = counted(spark, write("second", "x\n"));
            while (second.get() != null) { // within the test's time
                spark.parallelize(List.of(1)).count(); // Spark itself knows its last job for a while
                System.gc();
            }
        } finally {
            done.countDown();
        }
    }

    private static WeakReference<Object> counted(JavaSparkContext spark, String file) {
        JavaRDD<String> lines = spark.textFile(file);
        lines.count();
        return new WeakReference<>(lines.rdd());
    }

    @Test
    void whatAManagerHasLostIsAskedForAgain() throws Exception {
        String file = write("a", "x\n");
        SparkSession spark = start();
        assertEquals(1, spark.read().text(file).count());
        awaitAsked();
        asked.clear();
        WarmDriver.current().lost(false);
        awaitAsked();
        WarmDriver.current().lost(true);
        asked.clear();
        assertEquals(1, spark.read().text(file).count());
        awaitAsked();
    }

    @Test
    void aLargeTableIsAskedForOnce() throws Exception {
        start();
        for (String query : List.of("1", "2")) {
            WarmDriver.current().query(query, () -> files(0, 250_000));
        }
        askedInAll();
        assertEquals(25, warmed("hdfs://d/"));
    }

    /** Those of an application that goes on for months would fill its memory. */
    @Test
    void aFileThatWasNotReadForLongIsForgotten() throws Exception {
        Warming warming = new Warming();
        Warming.Job job = new Warming.Job(dir.resolve("s"), "application", Duration.ofMinutes(1), Duration.ZERO, false);
        AppInputs inputs = new AppInputs(start().sparkContext(), warming, job, 3);
        inputs.query("1", () -> files(0, 2));
        inputs.query("2", () -> files(2, 3));
        inputs.query("3", () -> files(1, 2)); // still known, and used again
        inputs.query("4", () -> files(3, 4));
        inputs.query("5", () -> files(0, 2));
        warming.end(job); // after all that was asked for
        assertEquals(2, warmed("hdfs://d/0\""));
        assertEquals(1, warmed("hdfs://d/1\""));
    }

    private static Map<org.apache.hadoop.fs.Path, FileVersion> files(int from, int to) {
        Map<org.apache.hadoop.fs.Path, FileVersion> files = new LinkedHashMap<>();
        IntStream.range(from, to).forEach(i -> files.put(new org.apache.hadoop.fs.Path("hdfs://d/" + i), new FileVersion(i, i)));
        return files;
    }

    /** How many requests name a file. */
    private long warmed(String text) {
        return requests.stream().filter(request -> request.contains("/Warm ") && request.contains(text)).count();
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aFileThatIsAnotherNowIsAskedForAgain(boolean query) throws Exception {
        String file = write("a", "x\n");
        SparkSession spark = start();
        JavaSparkContext rdds = new JavaSparkContext(spark.sparkContext());
        readsWhatWasAskedFor();
        Callable<Long> read = () -> query ? spark.read().text(file).count() : rdds.textFile(file).count();
        assertEquals(1, read.call());
        awaitAsked();
        assertEquals(1, read.call());
        asked.clear();
        write("a", "x\ny\n");
        assertEquals(2, read.call());
        awaitAsked();
        asked.clear();
        Files.setLastModifiedTime(dir.resolve("a"), FileTime.fromMillis(1_000_000_000_000L));
        assertEquals(2, read.call());
        awaitAsked();
        askedInAll();
        assertEquals(3, warmed(file + "\""));
    }

    /** But not the jobs of one, which may only read again what executors have kept. */
    @Test
    void whatIsLetGoAsItIsReadIsAskedForByEachQuery() throws Exception {
        write("t/a", "x\ny\n");
        write("u/b", "x\n");
        SparkSession spark = start("spark.hadoop.headrace.warm.implicit", "true", "spark.sql.autoBroadcastJoinThreshold", "-1");
        for (int i = 0; i < 3; i++) {
            assertEquals(1, spark.read().text(at("t")).join(spark.read().text(at("u")), "value").groupBy("value").count().collectAsList().size());
        }
        readsWhatWasAskedFor();
        JavaRDD<String> lines = new JavaSparkContext(spark.sparkContext()).textFile(write("c", "x\n"));
        for (int i = 0; i < 3; i++) {
            assertEquals(1, lines.count());
        }
        askedInAll();
        assertEquals(3, warmed(at("t/a") + "\""));
        assertEquals(3, warmed(at("u/b") + "\""));
        assertEquals(1, warmed(at("c") + "\""));
    }

    private void awaitAsked() throws InterruptedException {
        while (!asked.contains("a")) { // within the test's time
            Thread.sleep(1);
        }
    }

    @ParameterizedTest
    @CsvSource({"true, text", "true, ''", "false, text", "false, ''"})
    void asksForWhatAQueryReadsBeforeItRuns(boolean adaptive, String firstVersion) throws Exception {
        write("t/day=1/a", "x\ny\n");
        write("t/day=2/b", "x\n");
        write("u/c", "x\nz\n");
        SparkSession spark = start("spark.sql.adaptive.enabled", "" + adaptive,
            "spark.sql.sources.useV1SourceList", firstVersion, "spark.hadoop.headrace.warm.lead", "5m");
        Dataset<Row> t = spark.read().text(at("t")).where("day = 2");
        Dataset<Row> joined = t.join(spark.read().text(at("u")), "value").groupBy("value").count();
        asked.clear(); // what Spark itself reads to know the tables
        requests.clear();
        joined.explain();
        assertEquals(Set.of(), asked);
        CountDownLatch over = new CountDownLatch(1);
        Set<String> before = new TreeSet<>();
        spark.sparkContext().addSparkListener(new org.apache.spark.scheduler.SparkListener() {
            @Override
            public void onTaskStart(org.apache.spark.scheduler.SparkListenerTaskStart event) {
                if (over.getCount() > 0) {
                    before.addAll(asked);
                    over.countDown();
                }
            }
        });
        assertEquals(1, joined.groupBy().count().collectAsList().get(0).getLong(0));
        over.await();
        assertEquals(Set.of("t/day=2/b", "u/c"), before);
        assertEquals(before, askedInAll());
        assertEquals(1, requests.stream().filter(r -> r.contains("day=2/b")).count());
        assertTrue(requests.get(requests.size() - 1).startsWith("POST /headrace.v1.InputService/Cool HTTP"));
    }

    /** Counts who lists files. */
    private static final class Listed implements FileIndex {
        private final FileIndex files;
        private final List<String> threads = new CopyOnWriteArrayList<>();

        Listed(FileIndex files) {
            this.files = files;
        }

        @Override
        public Seq<PartitionDirectory> listFiles(Seq<Expression> partitions, Seq<Expression> data) {
            threads.add(Thread.currentThread().getName());
            return files.listFiles(partitions, data);
        }

        @Override
        public Seq<org.apache.hadoop.fs.Path> rootPaths() {
            return files.rootPaths();
        }

        @Override
        public String[] inputFiles() {
            return files.inputFiles();
        }

        @Override
        public void refresh() {
            files.refresh();
        }

        @Override
        public long sizeInBytes() {
            return files.sizeInBytes();
        }

        @Override
        public StructType partitionSchema() {
            return files.partitionSchema();
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void listsTheFilesOfAQueryOnce(boolean adaptive) throws Exception {
        write("t/a", "x\ny\n");
        write("u/b", "x\nz\n");
        answer.set("{\"version\":7,\"full\":true}"); // while a node says nothing of memory no files are looked up for that
        SparkSession spark = start("spark.sql.adaptive.enabled", "" + adaptive, "spark.sql.autoBroadcastJoinThreshold", "-1",
            "spark.plugins", WarmPlugin.class.getName() + "," + MemoryLocalityPlugin.class.getName());
        HadoopFsRelation t = (HadoopFsRelation) ((LogicalRelation) spark.read().text(at("t")).queryExecution().analyzed()).relation();
        Listed listed = new Listed(t.location());
        Dataset<Row> rows = spark.baseRelationToDataFrame(new HadoopFsRelation(listed, t.partitionSchema(), t.dataSchema(),
            t.bucketSpec(), t.fileFormat(), t.options(), t.sparkSession()));
        asked.clear();
        for (int query = 1; query <= 2; query++) {
            assertEquals(1, rows.join(spark.read().text(at("u")), "value").groupBy("value").count().collectAsList().size());
            CountDownLatch done = new CountDownLatch(1);
            MemoryLocalityDriver.current().query(() -> {
                done.countDown();
                return List.of();
            });
            done.await();
            while (!asked.contains("t/a")) { // within the test's time
                Thread.sleep(1);
            }
            assertEquals(query, listed.threads.stream().filter(name -> name.startsWith("headrace")).count(), listed.threads::toString);
        }
    }

    @Test
    void leavesConditionsThatAreQueriesToJobs() throws Exception {
        write("t/day=1/a", "x\n");
        write("t/day=2/b", "x\n");
        write("u/c", "2\n");
        SparkSession spark = start();
        Gauge<?> failed = gauge("warm.failed");
        spark.read().text(at("t")).createOrReplaceTempView("t");
        spark.read().text(at("u")).createOrReplaceTempView("u");
        asked.clear();
        readsWhatWasAskedFor();
        assertEquals(1, spark.sql("select value from t where day = (select max(cast(value as int)) from u)").collectAsList().size());
        assertEquals(Set.of("t/day=2/b", "u/c"), askedInAll());
        assertEquals(0L, failed.getValue());
    }

    private static Gauge<?> gauge(String name) {
        return CollectionConverters.asJava(SparkEnv.get().metricsSystem()
            .getSourcesByName("plugin." + WarmPlugin.class.getName())).get(0).metricRegistry().getGauges().get(name);
    }

    @Test
    void asksForWhatDynamicPruningLeaves() throws Exception {
        write("t/day=1/a", "x\n");
        write("t/day=2/b", "x\n");
        write("u/c", "2\n");
        SparkSession spark = start("spark.sql.optimizer.dynamicPartitionPruning.fallbackFilterRatio", "1000",
            "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly", "false",
            "spark.sql.autoBroadcastJoinThreshold", "-1");
        spark.read().text(at("t")).createOrReplaceTempView("t");
        spark.read().text(at("u")).createOrReplaceTempView("u");
        Dataset<Row> pruned = spark.sql("select t.value from t join u on t.day = cast(u.value as int) where u.value like '2%'");
        assertTrue(pruned.queryExecution().toString().contains("dynamicpruning"), pruned.queryExecution()::toString);
        asked.clear();
        readsWhatWasAskedFor();
        assertEquals(1, pruned.collectAsList().size());
        assertEquals(Set.of("t/day=2/b", "u/c"), askedInAll());
    }

    @Test
    void asksForWhatALimitReads() throws Exception {
        write("t/a", "x\n");
        write("t/b", "y\n");
        SparkSession spark = start("spark.sql.files.openCostInBytes", "1000000", "spark.sql.files.maxPartitionBytes", "1000000");
        readsWhatWasAskedFor();
        assertEquals(1, spark.read().text(at("t")).limit(1).collectAsList().size());
        assertEquals(1, askedInAll().size());
    }

    @Test
    void asksForWhatJobsOfRddsRead() throws Exception {
        write("old/a", "x\n");
        write("new/b", "x\n");
        write("whole/c", "x\n");
        write("taken/d", "x\n");
        write("taken/e", "x\n");
        JavaSparkContext spark = new JavaSparkContext(start().sparkContext());
        readsWhatWasAskedFor();
        assertEquals(1, spark.textFile(at("taken"), 2).take(1).size());
        long n = spark.textFile(at("old")).union(spark.newAPIHadoopFile(at("new"),
            org.apache.hadoop.mapreduce.lib.input.TextInputFormat.class, org.apache.hadoop.io.LongWritable.class,
            org.apache.hadoop.io.Text.class, spark.hadoopConfiguration()).map(pair -> pair._2().toString()))
            .union(spark.wholeTextFiles(at("whole")).map(pair -> pair._2().trim())).distinct().count();
        assertEquals(1, n);
        Set<String> all = askedInAll();
        assertEquals(1, (all.remove("taken/d") ? 1 : 0) + (all.remove("taken/e") ? 1 : 0));
        assertEquals(Set.of("old/a", "new/b", "whole/c"), all);
    }

    @Test
    void anApplicationDoesWithoutOrHasNoNode() throws Exception {
        String file = write("a", "x\n");
        for (String[] properties : new String[][] {
            {"spark.hadoop.headrace.warm", "false"}, {"spark.hadoop.headrace.node.socket", dir.resolve("nobody").toString()},
            {"spark.hadoop.headrace.warm.lead", "soon"}, {"spark.hadoop.headrace.warm.patience", "-1"}}) {
            assertEquals(1, start(properties).read().text(file).count());
            assertEquals(Set.of(), askedInAll(), properties[0]);
        }
        assertEquals(List.of(), requests);
    }

    @Test
    void aSilentNodeDelaysNoQueryWithoutALead() throws Exception {
        node.close();
        CountDownLatch over = new CountDownLatch(1);
        node = new UnixServer(dir.resolve("s"), (in, out) -> over.await());
        String file = write("a", "x\n");
        SparkSession spark = start();
        for (int i = 0; i < 3; i++) {
            assertEquals(1, spark.read().text(file).count());
        }
        over.countDown();
    }

    /** It is planned again when a stage has ended. */
    @Test
    void aSilentNodeDelaysAQueryWithALeadOnce() throws Exception {
        node.close();
        CountDownLatch over = new CountDownLatch(1);
        node = new UnixServer(dir.resolve("s"), (in, out) -> over.await());
        write("t/a", "x\ny\n");
        write("u/b", "x\n");
        SparkSession spark = start("spark.hadoop.headrace.warm.lead", "5m", "spark.hadoop.headrace.warm.patience", "200ms",
            "spark.sql.autoBroadcastJoinThreshold", "-1");
        Dataset<Row> joined = spark.read().text(at("t")).join(spark.read().text(at("u")), "value").groupBy("value").count();
        assertEquals(1, joined.collectAsList().size());
        assertEquals(1L, gauge("warm.late").getValue());
        over.countDown();
    }

    @Test
    void theDaemonIsToldTheApplication() throws Exception {
        String file = write("a", "x\n");
        SparkContext spark = start("spark.hadoop.headrace.warm.implicit", "true").sparkContext();
        String application = spark.applicationId();
        assertEquals(1, session.read().text(file).count());
        askedInAll();
        assertTrue(requests.get(0).contains("{\"job\":\"" + application + "\",\"implicit\":true,"), requests.get(0));
        assertTrue(requests.get(0).contains("\"lease\":120.0"), "no scheduler says when it has ended: " + requests.get(0));
    }
}
