package headrace.spark;

import headrace.client.KeepAlive;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.Heartbeat;
import org.apache.spark.HeartbeatResponse;
import org.apache.spark.SparkEnv;
import org.apache.spark.rpc.RpcEndpointRef;
import org.apache.spark.rpc.RpcTimeout;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerBlockManagerAdded;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.storage.BlockManagerId;
import scala.Option;
import scala.Tuple2;
import scala.collection.mutable.HashMap;
import scala.concurrent.duration.FiniteDuration;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * An application's executors. Spark's listener bus tells of them; for those in given containers it sends the driver's
 * heartbeat receiver, which times out executors and block managers alike, the heartbeats that they cannot send.
 */
final class Executors extends SparkListener implements KeepAlive.Framework {
    /** Where YARN's executors tell the driver their container. */
    static final String CONTAINER = "CONTAINER_ID";
    private static final String RECEIVER = "HeartbeatReceiver";
    private static final ClassTag<HeartbeatResponse> RESPONSE = ClassTag$.MODULE$.apply(HeartbeatResponse.class);
    private static final RpcTimeout TIMEOUT =
        new RpcTimeout(new FiniteDuration(10, TimeUnit.SECONDS), "Headrace's plug-in");

    private final SparkEnv env;
    private final Map<String, String> executorByContainer = new ConcurrentHashMap<>();
    private final Map<String, BlockManagerId> blockManagers = new ConcurrentHashMap<>();
    private RpcEndpointRef receiver;

    Executors(SparkEnv env) {
        this.env = env;
    }

    @Override
    public void onExecutorAdded(SparkListenerExecutorAdded event) {
        Option<String> container = event.executorInfo().attributes().get(CONTAINER);
        if (container.isDefined() && container.get() != null) {
            executorByContainer.put(container.get(), event.executorId());
        }
    }

    @Override
    public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
        executorByContainer.values().remove(event.executorId());
        blockManagers.remove(event.executorId());
    }

    @Override
    public void onBlockManagerAdded(SparkListenerBlockManagerAdded event) {
        blockManagers.put(event.blockManagerId().executorId(), event.blockManagerId());
    }

    /** @throws Exception the last of those with which the driver has not taken a heartbeat; it has been sent the rest */
    @Override
    public void alive(Set<String> containers) throws Exception {
        Exception failure = null;
        for (String container : containers) {
            String executor = executorByContainer.get(container);
            BlockManagerId blockManager = executor == null ? null : blockManagers.get(executor);
            if (blockManager == null) {
                continue;
            }
            try {
                heartbeat(executor, blockManager);
            } catch (Exception e) {
                failure = e;
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    /** A heartbeat without news of tasks or memory. */
    private void heartbeat(String executor, BlockManagerId blockManager) {
        @SuppressWarnings({"unchecked", "rawtypes"})
        Heartbeat heartbeat = new Heartbeat(executor, new Tuple2[0], blockManager, new HashMap());
        if (receiver == null) {
            receiver = env.rpcEnv().setupEndpointRef(env.rpcEnv().address(), RECEIVER);
        }
        receiver.askSync(heartbeat, TIMEOUT, RESPONSE);
    }
}
