package headrace.spark;

import headrace.locality.ResidentShares;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.spark.JobArtifactSet;
import org.apache.spark.Partition;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.NewHadoopPartition;
import org.apache.spark.scheduler.DirectTaskResult;
import org.apache.spark.scheduler.SchedulerBackend;
import org.apache.spark.scheduler.ShuffleMapTask;
import org.apache.spark.scheduler.Task;
import org.apache.spark.scheduler.TaskDescription;
import org.apache.spark.scheduler.TaskLocation;
import org.apache.spark.scheduler.TaskLocation$;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSet;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.scheduler.WorkerOffer;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * For tests: Spark's scheduler with an executor on each of many hosts and stages whose tasks prefer three neighbours of these.
 * What it launches never runs.
 */
final class Stages implements AutoCloseable {
    private final SparkContext spark;
    private final int hosts;
    final TaskSchedulerImpl scheduler;
    private volatile scala.collection.immutable.Set<String> excluded = CollectionConverters.asScala(Set.<String>of()).toSet();

    Stages(int hosts) {
        this(hosts, "1h");
    }

    /** @param wait how long tasks are kept for hosts that they prefer */
    Stages(int hosts, String wait) {
        this.hosts = hosts;
        spark = new SparkContext(new SparkConf(false).setMaster("local[1]").setAppName("test")
            .set("spark.ui.enabled", "false").set("spark.driver.host", "127.0.0.1").set("spark.locality.wait", wait)
            .set("spark.speculation", "true").set("spark.speculation.quantile", "0.05").set("spark.speculation.multiplier", "1")
            .set("spark.speculation.efficiency.enabled", "false"));
        scheduler = new TaskSchedulerImpl(spark) {
            @Override
            public scala.collection.immutable.Set<String> excludedNodes() {
                return excluded;
            }
        };
        scheduler.initialize((SchedulerBackend) Proxy.newProxyInstance(getClass().getClassLoader(),
            new Class<?>[] {SchedulerBackend.class}, (backend, method, arguments) -> null));
        scheduler.setDAGScheduler(spark.dagScheduler());
        offer(0, IntStream.range(0, hosts).toArray());
    }

    /** Says which hosts count as excluded from now on. What they are offered with they still get. */
    void exclude(Set<String> hosts) {
        excluded = CollectionConverters.asScala(hosts).toSet();
    }

    /** Offers cores of the executors on hosts, and returns the numbers of the attempts that this launches. */
    List<Long> offer(int cores, int... on) {
        List<WorkerOffer> offers = new ArrayList<>();
        for (int host : on) {
            offers.add(new WorkerOffer("e" + host, "h" + host, cores, Option.empty(), WorkerOffer.apply$default$5(), 0));
        }
        List<Long> launched = new ArrayList<>();
        for (Seq<TaskDescription> some : CollectionConverters.asJava(
                scheduler.resourceOffers(CollectionConverters.asScala(offers).toIndexedSeq(), false))) {
            CollectionConverters.asJava(some).forEach(task -> launched.add(task.taskId()));
        }
        return launched;
    }

    /** Reads a file of HDFS. */
    private static final class Reading extends Task<Object> {
        private static final long serialVersionUID = 1L;
        private final transient Seq<TaskLocation> at;
        private final transient Partition partition;

        Reading(int number, int of, List<TaskLocation> at) {
            super(0, 0, number, of, JobArtifactSet.emptyJobArtifactSet(), new Properties(), new byte[0], Option.empty(),
                Option.empty(), Option.empty(), false);
            this.at = CollectionConverters.asScala(at).toList();
            this.partition = new NewHadoopPartition(0, number, new FileSplit(new Path("hdfs://c/" + number), 0, 1, new String[0]));
        }

        @Override
        public Object runTask(TaskContext context) {
            return null;
        }

        @Override
        public Seq<TaskLocation> preferredLocations() {
            return at;
        }
    }

    /** Returns tasks, which several stages may have. */
    Task<?>[] tasks(int n, Random random) {
        Task<?>[] all = new Task<?>[n];
        for (int i = 0; i < n; i++) {
            int first = random.nextInt(hosts);
            all[i] = new Reading(i, n, IntStream.range(first, first + 3)
                .mapToObj(host -> TaskLocation$.MODULE$.apply("h" + host % hosts)).toList());
        }
        return all;
    }

    /** Returns tasks whose input each has an executor. */
    Task<?>[] cachedTasks(int n) {
        Task<?>[] all = new Task<?>[n];
        for (int i = 0; i < n; i++) {
            all[i] = new Reading(i, n, List.of(TaskLocation$.MODULE$.apply("h" + i % hosts, "e" + i % hosts)));
        }
        return all;
    }

    /** Returns tasks of a stage whose results are lost with an executor. */
    Task<?>[] maps(int n, IntFunction<List<String>> hosts) {
        Task<?>[] all = new Task<?>[n];
        for (int i = 0; i < n; i++) {
            all[i] = new ShuffleMapTask(0, 0, null, new NewHadoopPartition(0, i, new FileSplit(new Path("hdfs://c/" + i), 0, 1, new String[0])), n,
                CollectionConverters.asScala(hosts.apply(i).stream().map(TaskLocation$.MODULE$::apply).toList()).toList(), JobArtifactSet.emptyJobArtifactSet(),
                new Properties(), new byte[0], Option.empty(), Option.empty(), Option.empty(), false);
        }
        return all;
    }

    /** Ends an attempt as Spark does: the result is handled after it is known that there is one. */
    void succeed(TaskSetManager stage, long attempt) {
        ByteBuffer nothing = SparkEnv.get().serializer().newInstance().serialize(null, ClassTag$.MODULE$.Null());
        synchronized (scheduler) {
            stage.removeRunningTask(attempt);
            stage.handleSuccessfulTask(attempt, new DirectTaskResult<Object>(nothing,
                CollectionConverters.asScala(List.<AccumulatorV2<?, ?>>of()).toList(), new long[0]));
        }
    }

    /** Puts a stage into the scheduler's pool. */
    TaskSetManager add(int id, Task<?>[] tasks) {
        TaskSetManager stage = scheduler.createTaskSetManager(
            new TaskSet(tasks, id, 0, id, new Properties(), 0, Option.empty()), 4);
        synchronized (scheduler) {
            scheduler.rootPool().addSchedulable(stage);
        }
        return stage;
    }

    /** Of each third task a part is in memory on some host. */
    ResidentShares shares(int tasks, Random random) {
        ResidentShares.Builder shares = new ResidentShares.Builder(tasks);
        for (int task = 0; task < tasks; task++) {
            if (random.nextInt(3) == 0) {
                shares.add(random.nextInt(hosts), random.nextDouble());
            }
            shares.next();
        }
        return shares.build(IntStream.range(0, hosts).mapToObj(host -> List.of("h" + host)).toList());
    }

    @Override
    public void close() {
        spark.stop();
    }
}
