package headrace.spark;

import static headrace.client.Await.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.BlockCopies.Block;
import headrace.client.ClaimedFiles;
import headrace.client.FakeFollow;
import headrace.client.Liar;
import headrace.client.UnixServer;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.HdfsBlockLocation;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.util.Utils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Spark's master local-cluster: two executors in processes of their own on one host, which has some of the input in memory. */
class LocalClusterTest {
    private static final int FILES = 8;
    private static final Set<Integer> WARM = Set.of(2, 5);
    @TempDir
    static Path dir;

    /** Local files as hdfs://c/..., each of one block on this host, whose number is that in its name. */
    public static final class Here extends ClaimedFiles {
        @Override
        public BlockLocation[] getFileBlockLocations(FileStatus file, long start, long length) {
            String[] host = {Utils.localHostName()};
            return new BlockLocation[] {new HdfsBlockLocation(new BlockLocation(host, host, 0, file.getLen()),
                new LocatedBlock(new ExtendedBlock("BP-1", TwoHosts.number(file.getPath().getName())), new DatanodeInfo[0]))};
        }
    }

    private static JavaSparkContext begin(String master, boolean stock) throws IOException {
        Files.createDirectories(Path.of(System.getenv("SPARK_HOME"), "jars"));
        SparkConf conf = TwoHosts.configure(new SparkConf(false)).setMaster(master)
            .set("spark.hadoop.fs.hdfs.impl", Here.class.getName())
            .set("spark.hadoop.fs.hdfs.impl.disable.cache", "true") // other tests have another one of that name
            .set("spark.scheduler.mode", "FAIR").set("spark.speculation", "true");
        if (!stock) {
            conf.set("spark.plugins", MemoryLocalityPlugin.class.getName())
                .set("spark.hadoop.headrace.locality.wait", "20s") // else a slow machine would show in the order
                .set("spark.hadoop.headrace.node.socket", dir.resolve("s").toString());
        }
        return new JavaSparkContext(conf);
    }

    /** Ends an executor the first time that it comes to a line. */
    static FlatMapFunction<Iterator<String>, String> deadly(String line, String marker) {
        return lines -> {
            List<String> all = new ArrayList<>();
            lines.forEachRemaining(all::add);
            if (all.contains(line)) {
                try {
                    Files.createFile(Path.of(marker));
                    Runtime.getRuntime().halt(1);
                } catch (FileAlreadyExistsException e) {
                    return all.iterator();
                }
            }
            return all.iterator();
        };
    }

    /** Runs jobs in pools, one that loses an executor, one after that, and a barrier stage. */
    private static List<Set<String>> answers(JavaSparkContext spark, String marker) {
        String in = "hdfs://c" + dir + "/in";
        List<Set<String>> answers = new ArrayList<>();
        spark.setLocalProperty("spark.scheduler.pool", "one");
        answers.add(new TreeSet<>(spark.textFile(in, 1).collect()));
        spark.setLocalProperty("spark.scheduler.pool", "two");
        answers.add(new TreeSet<>(spark.textFile(in, 1).mapPartitions(deadly("line of 4", marker)).collect()));
        assertTrue(Files.exists(Path.of(marker)));
        answers.add(new TreeSet<>(spark.textFile(in, 1).mapToPair(line -> new scala.Tuple2<>(line.length(), line))
            .reduceByKey((a, b) -> a.compareTo(b) < 0 ? a : b, 2).map(pair -> pair._2()).collect()));
        JavaRDD<String> two = spark.textFile(in + "/f[23]", 1);
        answers.add(new TreeSet<>(two.rdd().barrier().mapPartitions(new MemoryLocalityPluginTest.Same(), false, two.classTag()).toJavaRDD().collect()));
        return answers;
    }

    @Test
    void answersAreThoseOfStockAndWhatIsInMemoryComesFirst() throws Exception {
        Files.createDirectories(dir.resolve("in"));
        for (int i = 0; i < FILES; i++) {
            Files.writeString(dir.resolve("in/f" + i), "line of " + i + "\n");
        }
        List<Set<String>> stock;
        try (JavaSparkContext spark = begin("local[2]", true)) {
            stock = answers(spark, Files.createFile(dir.resolve("nothing dies")).toString());
        }
        assertEquals(FILES, stock.get(0).size());
        FakeFollow manager = new FakeFollow();
        WARM.forEach(block -> manager.set(new Block("BP-1", block), Utils.localHostName(), 100));
        List<Integer> started = Collections.synchronizedList(new ArrayList<>());
        try (UnixServer node = new UnixServer(dir.resolve("s"), new Liar(manager)); JavaSparkContext spark = begin("local-cluster[2,1,512]", false)) {
            spark.sc().addSparkListener(new SparkListener() {
                @Override
                public void onTaskStart(SparkListenerTaskStart event) {
                    started.add(event.taskInfo().index());
                }
            });
            await(() -> spark.sc().statusTracker().getExecutorInfos().length == 3); // with the driver
            assertEquals(stock, answers(spark, dir.resolve("died").toString()));
            spark.sc().listenerBus().waitUntilEmpty();
            assertEquals(WARM, Set.copyOf(started.subList(0, WARM.size())), started::toString);
            assertEquals(0, MemoryLocalityDriver.current().doubts());
        }
    }
}
