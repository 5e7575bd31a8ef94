package headrace.spark;

import static headrace.client.Await.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.BlockCopies.Block;
import headrace.client.FakeFollow;
import headrace.client.Liar;
import headrace.client.Residency;
import headrace.client.UnixServer;
import headrace.locality.ResidentShares;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** An application on two hosts with an executor of one core on each, and what is in memory there made up. */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class MemoryLocalityPluginTest {
    private static final int FILES = 8;
    @TempDir
    static Path dir;
    private static final FakeFollow MANAGER = new FakeFollow();
    private static final Liar LIAR = new Liar(MANAGER);
    private static UnixServer node;
    private static TwoHosts hosts;
    private static SparkSession session;
    private static final List<Start> STARTED = new ArrayList<>();

    /** A task that was started on a host. */
    private record Start(String host, int task) { }

    @BeforeAll
    static void start() throws Exception {
        node = new UnixServer(dir.resolve("s"), LIAR);
        for (int i = 0; i < FILES; i++) {
            Files.createDirectories(dir.resolve("in"));
            Files.writeString(dir.resolve("in/f" + i), "line of " + i + "\n");
        }
        hosts = new TwoHosts(dir);
        session = SparkSession.builder().config(hosts.conf()
            .set("spark.plugins", MemoryLocalityPlugin.class.getName())
            .set("spark.scheduler.mode", "FAIR").set("spark.speculation", "true")
            .set("spark.locality.wait", "60s") // else a slow machine would show in the order
            .set("spark.sql.files.openCostInBytes", "1000000").set("spark.sql.files.maxPartitionBytes", "1000000")
            .set("spark.sql.warehouse.dir", dir.resolve("warehouse").toString())
            .set("spark.hadoop.headrace.locality.wait", "20s") // likewise
            .set("spark.hadoop.headrace.node.socket", dir.resolve("s").toString())).getOrCreate();
        session.sparkContext().addSparkListener(new SparkListener() {
            @Override
            public void onTaskStart(SparkListenerTaskStart event) {
                synchronized (STARTED) {
                    if (!event.taskInfo().speculative()) {
                        STARTED.add(new Start(event.taskInfo().host(), event.taskInfo().index()));
                    }
                }
            }
        });
        await(() -> spark().statusTracker().getExecutorInfos().length == 3); // with the driver
    }

    @AfterAll
    static void stop() throws Exception {
        session.stop();
        hosts.close();
        node.close();
    }

    @BeforeEach
    void forget() throws Exception {
        for (int i = 0; i < 100; i++) {
            memory(i, TwoHosts.A, false);
            memory(i, TwoHosts.B, false);
        }
        await(() -> residency().resident() == 0);
    }

    private static SparkContext spark() {
        return session.sparkContext();
    }

    private static JavaSparkContext java() {
        return new JavaSparkContext(spark());
    }

    private static Residency residency() {
        return MemoryLocalityDriver.current().residency();
    }

    private static void memory(long block, String host, boolean there) {
        MANAGER.set(new Block("BP-1", block), host, there ? 100 : 0);
    }

    private static List<Integer> on(String host) {
        synchronized (STARTED) {
            return STARTED.stream().filter(s -> s.host.equals(host)).map(s -> s.task).toList();
        }
    }

    private static int place(int task) {
        synchronized (STARTED) {
            return STARTED.stream().map(s -> s.task).toList().indexOf(task);
        }
    }

    private static String at(String name) {
        return "hdfs://c" + dir + "/" + name;
    }

    /** Takes a while for each partition. */
    private static <T> FlatMapFunction<java.util.Iterator<T>, T> slowly(int millis) {
        return lines -> {
            Thread.sleep(millis);
            return lines;
        };
    }

    /** And none ends before a file is there. */
    private static <T> FlatMapFunction<java.util.Iterator<T>, T> slowly(int millis, String file) {
        return lines -> {
            do {
                Thread.sleep(millis);
            } while (!Files.exists(Path.of(file)));
            return lines;
        };
    }

    /** Tells whether there are so many executors, and all have nothing to do: else one host may run a whole short job. */
    private static boolean idle(int executors) {
        scala.collection.immutable.Map<String, Object> running = ((TaskSchedulerImpl) spark().taskScheduler()).runningTasksByExecutors();
        return running.size() == executors && running.values().forall(n -> n.equals(0));
    }

    /** Runs a job, and returns its answer. STARTED has its tasks. */
    private static <T> Set<String> run(JavaRDD<T> rdd) throws Exception {
        await(() -> idle(2));
        spark().listenerBus().waitUntilEmpty();
        synchronized (STARTED) {
            STARTED.clear();
        }
        Set<String> answer = new TreeSet<>();
        rdd.mapPartitions(slowly(100)).collect().forEach(line -> answer.add(line.toString()));
        spark().listenerBus().waitUntilEmpty();
        return answer;
    }

    private static JavaRDD<?> input(String kind) {
        boolean adaptive = kind.contains("adaptive");
        session.conf().set("spark.sql.adaptive.enabled", adaptive);
        session.conf().set("spark.sql.sources.useV1SourceList", kind.contains("v2") ? "" : "text");
        switch (kind.split(" ")[0]) {
            case "sql":
                return session.read().text(at("in")).javaRDD().map(row -> row.getString(0));
            case "old":
                return java().textFile(at("in"), 1);
            case "new":
                return java().newAPIHadoopFile(at("in"), TextInputFormat.class, LongWritable.class, Text.class,
                    spark().hadoopConfiguration()).map(pair -> pair._2().toString());
            case "union":
                return java().textFile(at("in/f[0-3]"), 1).union(java().textFile(at("in/f[4-7]"), 1));
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private static Set<String> all() {
        Set<String> lines = new TreeSet<>();
        for (int i = 0; i < FILES; i++) {
            lines.add("line of " + i);
        }
        return lines;
    }

    /**
     * Each host begins with what it has in memory, but for one task at most that it was given before the plug-in knew of the
     * stage, and leaves the rest to the other.
     */
    /** Stock order has two of the four where they are in memory. A busy machine may keep one host from its last one. */
    private static void assertOrder() {
        assertTrue(inMemory(TwoHosts.A, 2, 5) + inMemory(TwoHosts.B, 3, 6) >= 3, STARTED::toString);
    }

    /** Returns how many of the tasks whose input is in memory on a host have run there, which must be among its first three. */
    private static int inMemory(String host, Integer... tasks) {
        List<Integer> there = on(host);
        List<Integer> first = there.subList(0, Math.min(3, there.size()));
        List<Integer> home = Stream.of(tasks).filter(there::contains).toList();
        assertTrue(first.containsAll(home), STARTED::toString);
        return home.size();
    }

    private static void partlyInMemory() throws Exception {
        memory(2, TwoHosts.A, true);
        memory(5, TwoHosts.A, true);
        memory(3, TwoHosts.B, true);
        memory(6, TwoHosts.B, true);
        await(() -> residency().resident() == 4);
    }

    @ParameterizedTest
    @Order(1)
    @ValueSource(strings = {"old", "new", "union", "sql", "sql adaptive", "sql v2", "sql v2 adaptive"})
    void theSecondJobBeginsWithWhatIsInMemory(String kind) throws Exception {
        assertEquals(all(), run(input(kind)));
        partlyInMemory();
        assertEquals(all(), run(input(kind)));
        assertOrder();
    }

    /** What Spark puts stages into pools with. */
    private static Object builder() throws ReflectiveOperationException {
        Field field = TaskSchedulerImpl.class.getDeclaredField("schedulableBuilder");
        field.setAccessible(true);
        return field.get(spark().taskScheduler());
    }

    /** Nobody has asked for these files before. */
    @Test
    @Order(1)
    void theFirstTasksOfTheFirstJobAreOrderedToo() throws Exception {
        Files.createDirectories(dir.resolve("first"));
        for (int i = 0; i < 6; i++) {
            Files.writeString(dir.resolve("first/f5" + i), "line of 5" + i + "\n");
        }
        memory(54, TwoHosts.A, true);
        memory(55, TwoHosts.B, true);
        assertEquals(6, run(java().textFile(at("first"), 1)).size());
        assertEquals(List.of(4, 5), List.of(on(TwoHosts.A).get(0), on(TwoHosts.B).get(0)), STARTED::toString);
    }

    @Test
    @Order(1)
    void aStageThatIsCancelledBeforeItIsAdmittedIsGone() throws Exception {
        Files.createDirectories(dir.resolve("gone"));
        Files.writeString(dir.resolve("gone/f60"), "line of 60\n");
        CountDownLatch answer = new CountDownLatch(1);
        MANAGER.instead(request -> {
            try {
                answer.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            return null;
        });
        Pool held = ((Admission) builder()).held();
        try {
            JavaFutureAction<List<String>> job = java().textFile(at("gone"), 1).collectAsync();
            await(() -> held.schedulableQueue().size() == 1);
            job.cancel(true);
            await(() -> held.schedulableQueue().isEmpty());
        } finally {
            answer.countDown();
            MANAGER.instead(request -> null);
        }
        assertEquals(Set.of("line of 60"), run(java().textFile(at("gone"), 1)));
    }

    @Test
    @Order(2)
    void partsOfPackedPartitionsCountByTheirBytes() throws Exception {
        JavaRDD<String> pairs = java().textFile(at("in"), 1).coalesce(4);
        run(pairs);
        List<List<Long>> read = new ArrayList<>();
        List<Integer> forA = new ArrayList<>(); // which files these have depends on their order in the directory
        for (org.apache.spark.Partition partition : pairs.rdd().partitions()) {
            List<Long> files = new ArrayList<>();
            InputRanges.of(partition, (file, start, length) -> files.add(TwoHosts.number(file.getName())));
            read.add(files);
            if (pairs.rdd().preferredLocations(partition).contains(TwoHosts.A)) {
                forA.add(partition.index());
            }
        }
        assertTrue(forA.size() >= 3, read::toString);
        int last = forA.get(0);
        int first = forA.get(forA.size() - 1);
        memory(read.get(first).get(0), TwoHosts.A, true);
        memory(read.get(last).get(0), TwoHosts.B, true);
        await(() -> residency().resident() == 2);
        assertEquals(all(), run(pairs));
        List<Integer> onA = on(TwoHosts.A);
        assertEquals(first, onA.get(0), () -> read + " " + STARTED);
        assertTrue(onA.indexOf(last) == -1 || onA.indexOf(last) >= forA.size() - 2, () -> read + " " + STARTED);
    }

    @Test
    @Order(3)
    void followsWhatChangesWhileAJobRuns() throws Exception {
        assertEquals(all(), run(input("old")));
        Path known = dir.resolve("known");
        Thread change = new Thread(() -> {
            try {
                await(() -> {
                    synchronized (STARTED) {
                        return !STARTED.isEmpty();
                    }
                });
                memory(6, TwoHosts.A, true);
                memory(7, TwoHosts.B, true);
                await(() -> residency().resident() == 2);
                Files.createFile(known);
            } catch (InterruptedException | IOException e) {
                throw new IllegalStateException(e);
            }
        });
        synchronized (STARTED) {
            STARTED.clear();
        }
        change.start();
        java().textFile(at("in"), 1).mapPartitions(slowly(700, known.toString())).collect();
        spark().listenerBus().waitUntilEmpty();
        change.join();
        assertTrue(Math.max(place(6), place(7)) < 7, STARTED::toString);
        assertTrue(on(TwoHosts.A).contains(6) && on(TwoHosts.B).contains(7), STARTED::toString);
    }

    @Test
    @Order(4)
    void aHostThatSparkDoesNotKnowOfIsAskedFirst() throws Exception {
        Files.createDirectories(dir.resolve("h"));
        for (int i = 0; i < 4; i++) {
            Files.writeString(dir.resolve("h/hidden1" + i), "line of 1" + i + "\n");
        }
        JavaRDD<String> hidden = java().textFile(at("h"), 1);
        run(hidden);
        memory(13, TwoHosts.B, true);
        await(() -> residency().resident() == 1);
        assertEquals(Set.of("line of 10", "line of 11", "line of 12", "line of 13"), run(hidden));
        // These prefer a host without executors: nothing is to make them wait for others.
        assertEquals(4, on(TwoHosts.A).size() + on(TwoHosts.B).size());
    }

    @Test
    @Order(5)
    void barrierStagesAndPoolsRunToTheirEnd() throws Exception {
        partlyInMemory();
        spark().setLocalProperty("spark.scheduler.pool", "other");
        assertEquals(all(), run(input("old")));
        assertOrder();
        spark().setLocalProperty("spark.scheduler.pool", null);
        JavaRDD<String> two = java().textFile(at("in/f[23]"), 1);
        run(two);
        assertEquals(Set.of("line of 2", "line of 3"), run(two.rdd().toJavaRDD().mapPartitions(slowly(1))));
        assertEquals(2, two.rdd().barrier().mapPartitions(new Same(), false, two.classTag()).toJavaRDD().collect().size());
    }

    /** As it is. */
    static final class Same extends scala.runtime.AbstractFunction1<scala.collection.Iterator<String>,
            scala.collection.Iterator<String>> implements java.io.Serializable {
        private static final long serialVersionUID = 1L;

        @Override
        public scala.collection.Iterator<String> apply(scala.collection.Iterator<String> lines) {
            return lines;
        }
    }

    @Test
    @Order(6)
    void anExecutorThatIsLostChangesNoAnswer() throws Exception {
        run(input("old"));
        partlyInMemory();
        String marker = dir.resolve("died").toString();
        assertEquals(all(), run(java().textFile(at("in"), 1).mapPartitions(LocalClusterTest.deadly("line of 4", marker))));
        assertTrue(Files.exists(Path.of(marker)));
        await(() -> spark().statusTracker().getExecutorInfos().length == 3);
    }

    @Test
    @Order(7)
    void withoutANodeTheOrderIsSparks() throws Exception {
        run(input("old"));
        partlyInMemory();
        node.close();
        await(() -> residency().resident() == 0);
        assertEquals(all(), run(input("old")));
        for (String host : List.of(TwoHosts.A, TwoHosts.B)) {
            assertEquals(on(host).stream().sorted().toList(), on(host), STARTED::toString);
        }
        node = new UnixServer(dir.resolve("s"), LIAR);
        await(() -> residency().resident() == 4);
    }

    @Test
    @Order(8)
    void whatFailsInTheSchedulerIsCountedAndChangesNothing() throws Exception {
        List<Throwable> doubts = new CopyOnWriteArrayList<>();
        ResidentShares.Builder wrong = new ResidentShares.Builder(1);
        wrong.add(0, 1);
        wrong.next();
        ResidentShares shares = wrong.build(List.of(List.of(TwoHosts.A)));
        TaskSchedulerImpl scheduler = (TaskSchedulerImpl) spark().taskScheduler();
        for (MemoryLocality each : List.of(
                new MemoryLocality(scheduler, 0, 0, null, Runnable::run, order -> order.publish(shares), doubts::add),
                new MemoryLocality(scheduler, 0, 0, null, Runnable::run, order -> {
                    throw new IllegalStateException("test");
                }, doubts::add))) {
            doubts.clear();
            // The stage of the job before leaves its pool when that has its answer already.
            await(() -> scheduler.rootPool().schedulableQueue().stream().noneMatch(TaskSetManager.class::isInstance));
            scheduler.rootPool().addSchedulable(each);
            assertEquals(all(), run(input("old")));
            scheduler.rootPool().removeSchedulable(each);
            assertTrue(!doubts.isEmpty());
            assertEquals(each.counts().stages, doubts.size(), doubts::toString); // Spark may have tried one more than once
        }
    }

    private static List<String> lies() {
        return LIAR.lies();
    }

    /** MapLocalityTest, which reads the same answers by the same client, is always told them. */
    @ParameterizedTest
    @EnabledIfEnvironmentVariable(named = "HEADRACE_TESTS", matches = "all")
    @Order(9)
    @MethodSource("lies")
    void aNodeThatLiesChangesNoAnswer(String lie) throws Exception {
        if (residency().followed() == 0) {
            run(input("old"));
        }
        partlyInMemory();
        LIAR.tell(lie);
        await(() -> LIAR.told() > 0);
        long millis = Long.MAX_VALUE; // the least of three: the machine may be slow
        for (int i = 0; i < 3 && millis >= 9000; i++) {
            long began = System.nanoTime();
            assertEquals(all(), run(input("old")));
            millis = Math.min(millis, (System.nanoTime() - began) / 1_000_000);
        }
        assertTrue(millis < 9000, lie + ": " + millis + " ms"); // a question may take ten seconds
        LIAR.tell(null);
        await(() -> residency().resident() == 4); // what is true is known again
    }
}
