package headrace.spark;

import com.codahale.metrics.Gauge;
import headrace.client.Residency;
import headrace.client.Settings;
import headrace.locality.LocalityInputs;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The part of the plug-in that is in the driver. Its settings are where those of {@link WarmDriver} are. */
final class MemoryLocalityDriver implements DriverPlugin {
    private static final Logger LOG = LoggerFactory.getLogger(MemoryLocalityDriver.class);

    /** Setting: how long a stage may wait until it is known what is in memory of what it reads; 0: not at all. */
    private static final String WAIT = "headrace.locality.wait";

    /** Setting: how long a host may be without a task beside tasks whose input another host has in memory; 0: not at all. */
    private static final String DELAY = "headrace.locality.delay";

    /** That of the application of this process, where Spark SQL finds it; null: there is none. */
    private static volatile LocalityInputs current;

    private SparkContext spark;
    private LocalityInputs inputs;
    private MemoryLocality locality;
    private Admission admission;
    private final ExecutorService sorter = Executors.newSingleThreadExecutor(work -> {
        Thread thread = new Thread(work, "headrace order");
        thread.setDaemon(true);
        return thread;
    });

    static LocalityInputs current() {
        return current;
    }

    @Override
    public Map<String, String> init(SparkContext spark, PluginContext context) {
        this.spark = spark;
        return Map.of();
    }

    /** Called as soon as the application has an id; by then there is a scheduler, and no job has begun. */
    @Override
    public void registerMetrics(String application, PluginContext context) {
        try {
            TaskScheduler scheduler = spark.taskScheduler();
            if (!spark.hadoopConfiguration().getBoolean(LocalityInputs.WANTED, true)) {
                return;
            }
            if (!(scheduler instanceof TaskSchedulerImpl)) {
                LOG.warn("Tasks run in Spark's own order: its scheduler is {}, which is not known", scheduler.getClass());
                return;
            }
            Path socket = Settings.socket(spark.hadoopConfiguration());
            inputs = new LocalityInputs(spark.hadoopConfiguration(),
                changed -> Residency.start(socket, application, changed));
            StagesAhead ahead = new StagesAhead(spark, inputs);
            spark.listenerBus().addToManagementQueue(ahead);
            admission = admission((TaskSchedulerImpl) scheduler);
            locality = new MemoryLocality((TaskSchedulerImpl) scheduler, application.hashCode(),
                spark.hadoopConfiguration().getTimeDuration(DELAY, 1_000_000_000, TimeUnit.NANOSECONDS), admission, sorter, ahead::begin, inputs::doubt);
            ((TaskSchedulerImpl) scheduler).rootPool().addSchedulable(locality);
            if (admission != null) {
                admission.begin(locality);
            }
            current = inputs;
            metrics(context);
        } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
            LOG.warn("Tasks run in Spark's own order, whatever is in memory", e);
        }
    }

    /** Returns null where the first tasks of stages do not wait. */
    private Admission admission(TaskSchedulerImpl scheduler) {
        long millis = spark.hadoopConfiguration().getTimeDuration(WAIT, 200, TimeUnit.MILLISECONDS);
        try {
            return millis > 0 ? new Admission(scheduler, millis) : null;
        } catch (ReflectiveOperationException | RuntimeException e) {
            LOG.warn("The first tasks of stages run in Spark's own order: this version of Spark is not known", e);
            return null;
        }
    }

    private void metrics(PluginContext context) {
        Residency residency = inputs.residency();
        MemoryLocality.Counts counts = locality.counts();
        gauge(context, "locality.followed", () -> (long) residency.followed());
        gauge(context, "locality.resident", () -> (long) residency.resident());
        gauge(context, "locality.failed", residency::failed);
        gauge(context, "locality.stages", () -> counts.stages);
        gauge(context, "locality.lists", () -> counts.lists);
        gauge(context, "locality.doubts", inputs::doubts);
        gauge(context, "locality.micros", () -> counts.nanos / 1000);
        gauge(context, "locality.longest.micros", () -> counts.longestNanos / 1000);
    }

    private static void gauge(PluginContext context, String name, Gauge<Long> value) {
        context.metricRegistry().register(name, value);
    }

    @Override
    public void shutdown() {
        if (inputs == null) {
            return;
        }
        current = null;
        spark.taskScheduler().rootPool().removeSchedulable(locality);
        sorter.shutdownNow();
        try {
            if (admission != null) {
                admission.close();
            }
        } catch (IllegalAccessException e) {
            LOG.warn("Spark's own way to submit stages is not put back; the application ends anyway", e);
        }
        inputs.close();
    }
}
