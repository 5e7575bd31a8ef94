package headrace.spark;

import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.UnixServer;
import java.nio.file.Path;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KeepAlivePluginTest {
    @TempDir
    Path dir;
    private final BlockingQueue<String> requests = new LinkedBlockingQueue<>();

    private UnixServer daemon() throws Exception {
        return UnixServer.answering(dir.resolve("s"), request -> {
            requests.add(request);
            return UnixServer.http("200 OK", "{}");
        });
    }

    private SparkConf conf() {
        return new SparkConf().setMaster("local[1]").setAppName("test")
            .set("spark.ui.enabled", "false").set("spark.driver.host", "127.0.0.1")
            .set("spark.hadoop.headrace.node.socket", dir.resolve("s").toString());
    }

    @Test
    void isAPluginOfSparkAndDoesNothingWithoutYarn() throws Exception {
        try (UnixServer daemon = daemon()) {
            SparkContext spark = new SparkContext(conf().set("spark.plugins", KeepAlivePlugin.class.getName()));
            spark.stop();
            assertNull(requests.poll());
        }
    }

    @Test
    void asksTheDaemonForTheApplication() throws Exception {
        SparkContext spark = new SparkContext(conf());
        try (UnixServer daemon = daemon()) {
            // A driver with YARN as its master needs a ResourceManager; everything else about it is as here.
            DriverPlugin plugin = new KeepAliveDriver("local[1]");
            plugin.init(spark, null);
            plugin.registerMetrics("application_1_0001", null);
            String request = requests.take();
            assertTrue(request.endsWith("{\"scheduler\":\"yarn\",\"application\":\"application_1_0001\",\"aside\":true}"), request);
            plugin.shutdown();
        } finally {
            spark.stop();
        }
    }
}
