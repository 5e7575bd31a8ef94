package headrace.spark;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;

/** Named in {@code spark.plugins}, it has what queries and jobs read from HDFS read into memory before. */
public final class WarmPlugin implements SparkPlugin {
    @Override
    public DriverPlugin driverPlugin() {
        return new WarmDriver();
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return null;
    }
}
