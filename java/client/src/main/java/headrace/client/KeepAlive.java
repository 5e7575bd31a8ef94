package headrace.client;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps an application's framework from taking containers for dead that are alive and only do not run: every few
 * seconds it asks the daemon of this machine which of them are suspended or checkpointed, on whatever machine, and
 * tells the framework. Containers on a machine that nothing is heard of are left out. With the question goes what the
 * framework knows of the containers' progress.
 *
 * <p>It has a daemon thread of its own. Whatever fails there is logged once, until it works again, and so is what the
 * daemon does not know; of what is not known the framework hears nothing: its own time-outs apply.
 */
public final class KeepAlive implements AutoCloseable {
    /** Far below any time-out of a framework, and little to ask of a daemon. */
    static final Duration INTERVAL = Duration.ofSeconds(3);
    /** For an answer: nobody waits for it. */
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private static final Logger LOG = LoggerFactory.getLogger(KeepAlive.class);

    /** What takes containers for dead that it does not hear of. */
    public interface Framework {
        /**
         * These containers are alive. Called by one thread.
         *
         * @param containers never empty
         */
        void alive(Set<String> containers) throws Exception;

        /**
         * Returns how far containers are, from 0 to 1, as far as that means something. Called by the same thread.
         */
        default Map<String, Double> progress() throws Exception {
            return Map.of();
        }
    }

    private final NodeClient node;
    private final String application;
    private final Framework framework;
    private final Duration interval;
    private final Thread thread;
    private volatile boolean failing;
    private long withoutProgress;

    private KeepAlive(NodeClient node, String application, Framework framework, Duration interval) {
        this.node = node;
        this.application = application;
        this.framework = framework;
        this.interval = interval;
        this.thread = new Thread(this::run, "headrace keep-alive");
        thread.setDaemon(true);
    }

    /**
     * @param socket of the daemon
     * @param application as YARN writes it: application_...
     */
    public static KeepAlive start(Path socket, String application, Framework framework) {
        return start(new NodeClient(socket, PATIENCE), application, framework, INTERVAL);
    }

    static KeepAlive start(NodeClient node, String application, Framework framework, Duration interval) {
        KeepAlive keepAlive = new KeepAlive(node, application, framework, interval);
        keepAlive.thread.start();
        return keepAlive;
    }

    private void run() {
        try {
            while (!Thread.currentThread().isInterrupted()) {
                round();
                Thread.sleep(interval.toMillis());
            }
        } catch (InterruptedException e) {
            // Closed.
            return;
        }
    }

    /** Catches everything: in some frameworks an error that leaves a thread ends the whole process. */
    private void round() throws InterruptedException {
        try {
            NodeClient.Told told = node.application("yarn", application, progress());
            Set<String> stopped = stopped(told.containers());
            if (!stopped.isEmpty()) {
                framework.alive(stopped);
            }
            if (!told.doubt().isEmpty()) {
                failed(new IOException(told.doubt()));
                return;
            }
            if (failing) {
                LOG.info("Suspended containers are kept from being taken for dead again");
            }
            failing = false;
        } catch (Throwable e) {
            if (e instanceof InterruptedException || Thread.currentThread().isInterrupted()) {
                throw new InterruptedException();
            }
            failed(e);
        }
    }

    /** Catches everything: suspended containers must not be taken for dead because of this. */
    private Map<String, Double> progress() throws InterruptedException {
        try {
            return framework.progress();
        } catch (Throwable e) {
            if (e instanceof InterruptedException || Thread.currentThread().isInterrupted()) {
                throw new InterruptedException();
            }
            if (withoutProgress++ == 0) {
                LOG.warn("It is not known how far containers are; only this is written of that", e);
            }
            LOG.debug("It was not known {} times how far containers are", withoutProgress);
            return Map.of();
        }
    }

    private void failed(Throwable e) {
        if (failing) {
            LOG.debug("Suspended containers are not kept from being taken for dead", e);
            return;
        }
        failing = true;
        if (e instanceof IOException) {
            LOG.warn("While this lasts, containers that are suspended for longer than this framework's time-out"
                + " may be taken for dead: {}", e.getMessage());
        } else {
            LOG.warn("While this lasts, containers that are suspended for longer than this framework's time-out"
                + " may be taken for dead", e);
        }
    }

    private static Set<String> stopped(List<Container> containers) {
        Set<String> ids = new LinkedHashSet<>();
        for (Container container : containers) {
            boolean stopped = container.state().aside() || container.doing().moves();
            if (stopped && !container.away()) {
                ids.add(container.id());
            }
        }
        return ids;
    }

    /** Ends the thread, without waiting for it. */
    @Override
    public void close() {
        thread.interrupt();
    }

    /** Whether something fails or is in doubt, and was said. */
    boolean failing() {
        return failing;
    }

    /** Whether the thread ends in that time. */
    boolean ends(Duration limit) throws InterruptedException {
        thread.join(limit.toMillis());
        return !thread.isAlive();
    }
}
