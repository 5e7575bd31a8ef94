package headrace.spark;

import com.codahale.metrics.Gauge;
import headrace.client.Settings;
import headrace.client.Warming;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The part of the plug-in that is in the driver. Its settings are in Hadoop's configuration, which {@code
 * spark.hadoop.headrace...} sets as well.
 */
final class WarmDriver implements DriverPlugin {
    private static final Logger LOG = LoggerFactory.getLogger(WarmDriver.class);

    /** That of the application of this process, where Spark SQL finds it; null: there is none. */
    private static volatile AppInputs current;

    private final Warming warming = new Warming();
    private SparkContext spark;
    private Warming.Job job;

    static AppInputs current() {
        return current;
    }

    @Override
    public Map<String, String> init(SparkContext spark, PluginContext context) {
        this.spark = spark;
        return Map.of();
    }

    /** Called as soon as the application has an id. */
    @Override
    public void registerMetrics(String application, PluginContext context) {
        try {
            Configuration conf = spark.hadoopConfiguration();
            if (!Settings.warm(conf)) {
                return;
            }
            job = Settings.job(application, conf);
            AppInputs inputs = new AppInputs(spark, warming, job);
            spark.addSparkListener(inputs);
            current = inputs;
            gauge(context, "warm.asked", warming::asked);
            gauge(context, "warm.late", warming::late);
            gauge(context, "warm.failed", warming::failed);
        } catch (RuntimeException | LinkageError e) {
            LOG.warn("The input of {} is not read into memory before", application, e);
        }
    }

    private static void gauge(PluginContext context, String name, Gauge<Long> value) {
        context.metricRegistry().register(name, value);
    }

    @Override
    public void shutdown() {
        if (current == null) {
            return;
        }
        current = null;
        try {
            warming.end(job);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
