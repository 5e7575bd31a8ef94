package headrace.spark;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;

/** Named in {@code spark.plugins}, it keeps the driver from taking suspended executors on YARN for dead. */
public final class KeepAlivePlugin implements SparkPlugin {
    @Override
    public DriverPlugin driverPlugin() {
        return new KeepAliveDriver();
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return null;
    }
}
