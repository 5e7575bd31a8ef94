package headrace.spark;

import headrace.client.KeepAlive;
import headrace.client.Settings;
import java.nio.file.Path;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The part of the plug-in that is in the driver. Without YARN it does nothing. */
final class KeepAliveDriver implements DriverPlugin {

    private static final Logger LOG = LoggerFactory.getLogger(KeepAliveDriver.class);

    private final String master;
    private SparkContext spark;
    private Executors executors;
    private KeepAlive keepAlive;

    KeepAliveDriver() {
        this("yarn");
    }

    /** @param master with which there is something to do */
    KeepAliveDriver(String master) {
        this.master = master;
    }

    /** Called before there are executors. */
    @Override
    public Map<String, String> init(SparkContext spark, PluginContext context) {
        if (!master.equals(spark.master())) {
            LOG.info("Headrace's plug-in has nothing to do: the master is {}, not {}", spark.master(), master);
            return Map.of();
        }
        try {
            this.spark = spark;
            executors = new Executors(spark.env());
            spark.listenerBus().addToManagementQueue(executors);
        } catch (RuntimeException | LinkageError e) {
            executors = null;
            failed(e);
        }
        return Map.of();
    }

    /** Called as soon as the application has an id. */
    @Override
    public void registerMetrics(String application, PluginContext context) {
        if (executors == null) {
            return;
        }
        try {
            Path socket = Settings.socket(spark.hadoopConfiguration());
            keepAlive = KeepAlive.start(socket, application, executors);
        } catch (RuntimeException | LinkageError e) {
            failed(e);
        }
    }

    private static void failed(Throwable e) {
        LOG.warn("Executors that are suspended for longer than spark.network.timeout are taken for dead", e);
    }

    @Override
    public void shutdown() {
        if (keepAlive != null) {
            keepAlive.close();
        }
    }
}
