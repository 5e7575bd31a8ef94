package headrace.spark;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;

/** Named in {@code spark.plugins}, it has tasks run first whose input is in memory, on the machine where it is. */
public final class MemoryLocalityPlugin implements SparkPlugin {
    @Override
    public DriverPlugin driverPlugin() {
        return new MemoryLocalityDriver();
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return null;
    }
}
