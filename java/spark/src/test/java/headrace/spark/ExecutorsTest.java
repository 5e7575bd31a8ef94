package headrace.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerBlockManagerAdded;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.cluster.ExecutorInfo;
import org.apache.spark.storage.BlockManagerId;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * With a driver's own heartbeat receiver and listener bus. The receiver passes on the heartbeats of the executors that
 * it has not removed, and the bus tells of them.
 */
class ExecutorsTest {
    private final BlockingQueue<String> heartbeats = new LinkedBlockingQueue<>();
    private SparkContext spark;
    private Executors executors;

    @BeforeEach
    void setUp() {
        SparkConf conf = new SparkConf().setMaster("local[1]").setAppName("test")
            .set("spark.ui.enabled", "false").set("spark.driver.host", "127.0.0.1")
            .set("spark.executor.heartbeatInterval", "1000s").set("spark.network.timeout", "10000s");
        spark = new SparkContext(conf);
        executors = new Executors(spark.env());
        spark.listenerBus().addToManagementQueue(executors);
        spark.addSparkListener(new SparkListener() {
            @Override
            public void onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate event) {
                if (!event.execId().equals("driver")) {
                    heartbeats.add(event.execId());
                }
            }
        });
    }

    @AfterEach
    void tearDown() {
        spark.stop();
    }

    private void added(String executor, Map<String, String> attributes) throws Exception {
        ExecutorInfo info = new ExecutorInfo("127.0.0.1", 1, map(Map.of()), map(attributes));
        spark.listenerBus().post(new SparkListenerExecutorAdded(1, executor, info));
        BlockManagerId blockManager = BlockManagerId.apply(executor, "127.0.0.1", 7000, Option.empty());
        spark.listenerBus().post(new SparkListenerBlockManagerAdded(1, blockManager, 1, Option.empty(), Option.empty()));
        spark.listenerBus().waitUntilEmpty();
    }

    private static scala.collection.immutable.Map<String, String> map(Map<String, String> values) {
        return scala.collection.immutable.Map.from(CollectionConverters.asScala(values));
    }

    private void alive(String... containers) throws Exception {
        executors.alive(Set.of(containers));
        spark.listenerBus().waitUntilEmpty();
    }

    @Test
    void sendsHeartbeatsForTheExecutorsInTheContainers() throws Exception {
        added("1", Map.of(Executors.CONTAINER, "container_1"));
        added("2", Map.of(Executors.CONTAINER, "container_2"));
        alive("container_2", "container_3");
        assertEquals("2", heartbeats.take());
        alive("container_2");
        assertEquals("2", heartbeats.take());
        assertNull(heartbeats.poll());
    }

    @Test
    void leavesOutAnExecutorThatIsGone() throws Exception {
        added("1", Map.of(Executors.CONTAINER, "container_1"));
        added("2", Map.of(Executors.CONTAINER, "container_2"));
        spark.listenerBus().post(new SparkListenerExecutorRemoved(1, "1", "test"));
        spark.listenerBus().waitUntilEmpty();
        alive("container_1", "container_2");
        assertEquals("2", heartbeats.take());
        assertNull(heartbeats.poll());
    }

    @Test
    void leavesOutAnExecutorWithoutAContainer() throws Exception {
        added("1", Map.of());
        alive("container_1");
        assertNull(heartbeats.poll());
    }
}
