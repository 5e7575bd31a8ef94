package headrace.yarn.nm;

import headrace.client.Announcement;
import headrace.client.NodeClient;
import headrace.client.Settings;
import headrace.client.SilentException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.ApplicationConstants.Environment;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.api.ContainerType;
import org.apache.hadoop.yarn.server.nodemanager.Context;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.container.Container;
import org.apache.hadoop.yarn.util.Clock;
import org.apache.hadoop.yarn.util.MonotonicClock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Announces containers to the daemon and has their launch scripts run its program. An application master is left
 * alone. Whatever goes wrong with the daemon, the container starts as it would without Headrace; the log tells
 * it once, until it works again. May be used by several threads at once.
 */
final class LaunchWrapper {
    static final String TIMEOUT_MS = "headrace.node.timeout-ms";
    static final int DEFAULT_TIMEOUT_MS = 1000;
    /** For how long a daemon that was silent is not asked again: every start of a container would wait for it. */
    static final long PAUSE_MS = 10_000;
    private static final String PROCESS_TREE = YarnConfiguration.NM_CONTAINER_MON_PROCESS_TREE;

    private static final Logger LOG = LoggerFactory.getLogger(LaunchWrapper.class);

    /** Writes the script that the NodeManager would run without us, and may close the stream. */
    interface Script {
        void write(OutputStream out) throws IOException;
    }

    /** What is asked of the daemon of this machine: {@link NodeClient#prepare}. */
    interface Daemon {
        List<String> prepare(Announcement announcement) throws IOException;
    }

    private final Daemon node;
    private final Function<ContainerId, Container> containers;
    private final Clock clock;
    private final AtomicBoolean failing = new AtomicBoolean();
    /** When the daemon may be asked again, by the clock. */
    private volatile long askAgain;

    /** @param node null: no container is announced */
    LaunchWrapper(Daemon node, Function<ContainerId, Container> containers, Clock clock) {
        this.node = node;
        this.containers = containers;
        this.clock = clock;
        this.askAgain = clock.getTime();
    }

    /** With properties that cannot be used it says so and leaves all containers alone. */
    static LaunchWrapper create(Configuration conf, Context context) {
        return new LaunchWrapper(node(conf), id -> context.getContainers().get(id), new MonotonicClock());
    }

    private static Daemon node(Configuration conf) {
        if (!measuresContainers(conf)) {
            LOG.warn("All containers are started without Headrace, because the NodeManager would measure the wrong"
                + " processes and kill containers for it: set {} to {}",
                PROCESS_TREE, HeadraceProcessTree.class.getName());
            return null;
        }
        try {
            Path socket = Settings.socket(conf);
            Duration timeout = Duration.ofMillis(conf.getInt(TIMEOUT_MS, DEFAULT_TIMEOUT_MS));
            Daemon node = new NodeClient(socket, timeout)::prepare;
            LOG.info("Containers are started under Headrace, whose daemon is asked at {} for {} ms at most",
                socket, timeout.toMillis());
            return node;
        } catch (IllegalArgumentException e) {
            LOG.warn("All containers are started without Headrace, because {} or {} cannot be used: {}",
                Settings.SOCKET, TIMEOUT_MS, e.getMessage());
            return null;
        }
    }

    private static boolean measuresContainers(Configuration conf) {
        boolean monitored = conf.getBoolean(YarnConfiguration.NM_CONTAINER_MONITOR_ENABLED,
            YarnConfiguration.DEFAULT_NM_CONTAINER_MONITOR_ENABLED);
        Class<?> tree = conf.getClass(PROCESS_TREE, Object.class);
        return !monitored || HeadraceProcessTree.class.isAssignableFrom(tree);
    }

    /**
     * Writes the launch script of a container and closes the stream, also after a failure.
     *
     * @param environment of the container, as the NodeManager has made it
     * @param account that the container's processes run as
     * @throws IOException what the stock script or the stream throws, nothing else
     */
    void write(OutputStream out, Map<String, String> environment, List<String> command, String account, Script stock)
            throws IOException {
        try (out) {
            ByteArrayOutputStream buffer = new ByteArrayOutputStream();
            stock.write(buffer);
            String script = buffer.toString(StandardCharsets.UTF_8);
            String wrapped = guarded(() -> wrap(script, environment, command, account));
            out.write(wrapped == null ? buffer.toByteArray() : wrapped.getBytes(StandardCharsets.UTF_8));
        }
    }

    /** Announces a container that is started again with the script that it has. */
    void announceAgain(Container container, String account) {
        if (node != null && isTask(container)) {
            guarded(() -> prefix(container, account));
        }
    }

    // An error, as of a class that cannot be linked, must not keep a container from starting.
    private <T> T guarded(Supplier<T> ours) {
        try {
            return ours.get();
        } catch (Throwable e) {
            failed(e.toString());
            return null;
        }
    }

    /** Returns null when the script is to stay as it is. */
    private String wrap(String script, Map<String, String> environment, List<String> command, String account) {
        Container container = node == null ? null : container(environment);
        if (container == null || !isTask(container)) {
            return null;
        }
        List<String> prefix = prefix(container, account);
        if (prefix == null) {
            return null;
        }
        String wrapped = LaunchScript.withPrefix(script, command, prefix).orElse(null);
        if (wrapped == null) {
            failed("the launch script does not end as it does in the releases of Hadoop that Headrace knows");
            return null;
        }
        if (failing.compareAndSet(true, false)) {
            LOG.info("Containers are started under Headrace again");
        }
        return wrapped;
    }

    private Container container(Map<String, String> environment) {
        try {
            return containers.apply(ContainerId.fromString(environment.get(Environment.CONTAINER_ID.name())));
        } catch (RuntimeException e) {
            failed("a container cannot be told from its environment: " + e);
            return null;
        }
    }

    private static boolean isTask(Container container) {
        return container.getContainerTokenIdentifier().getContainerType() == ContainerType.TASK;
    }

    /** Returns null when the daemon does not take the container. */
    private List<String> prefix(Container container, String account) {
        if (clock.getTime() - askAgain < 0) {
            failed("the daemon was silent a moment ago");
            return null;
        }
        try {
            String name = CommandName.of(container.getLaunchContext().getCommands());
            return node.prepare(announcement(container, name, account));
        } catch (InterruptedIOException e) {
            LOG.debug("The start of {} was interrupted", container.getContainerId(), e);
        } catch (SilentException e) {
            askAgain = clock.getTime() + PAUSE_MS;
            failed(e.getMessage() + "; it is asked again after " + PAUSE_MS + " ms");
        } catch (IOException | RuntimeException e) {
            failed(e.getMessage() == null ? e.toString() : e.getMessage());
        }
        return null;
    }

    private static Announcement announcement(Container container, String name, String account) {
        ContainerId id = container.getContainerId();
        Resource resource = container.getResource();
        return new Announcement(id.toString(), "yarn", id.getApplicationAttemptId().getApplicationId().toString(),
            container.getContainerTokenIdentifier().getApplicationSubmitter(), name, account,
            resource.getVirtualCores(), resource.getMemorySize() << 20);
    }

    private void failed(String why) {
        if (failing.compareAndSet(false, true)) {
            LOG.warn("Containers are started without Headrace for now, so they can be killed but not suspended: {}",
                why);
        } else {
            LOG.debug("A container is started without Headrace: {}", why);
        }
    }
}
