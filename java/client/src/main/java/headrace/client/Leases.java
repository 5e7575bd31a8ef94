package headrace.client;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Says again and again that jobs go on which no scheduler names, as long as somebody refers to who runs them. When this
 * process has died nobody says it any more, and what is kept for them is let go when their lease is over.
 *
 * <p>Safe for use by several threads.
 */
final class Leases {
    /** Of each. It outlasts a node or a manager that is started again. */
    static final Duration LENGTH = Duration.ofMinutes(2);
    /** Between renewals. */
    static final Duration USUAL_BEAT = LENGTH.dividedBy(4);

    private static final Logger LOG = LoggerFactory.getLogger(Leases.class);

    private final Duration beat;
    private final ScheduledThreadPoolExecutor thread;
    /** What a lease is for: a job may be asked for with another lead each time. */
    private record Named(Path socket, String id) {
        static Named of(Warming.Job job) {
            return new Named(job.socket(), job.id());
        }
    }

    /** Who runs a job. */
    private final Map<Named, WeakReference<Object>> owners = new HashMap<>();
    /** Whether the thread comes back to them. */
    private boolean beating;

    Leases(Duration beat, ThreadFactory threads) {
        this.beat = beat;
        thread = new ScheduledThreadPoolExecutor(1, threads);
        thread.setKeepAliveTime(10, TimeUnit.SECONDS);
        thread.allowCoreThreadTimeOut(true);
    }

    synchronized void add(Warming.Job job, Object owner) {
        owners.put(Named.of(job), new WeakReference<>(owner));
        next();
    }

    synchronized void remove(Warming.Job job) {
        owners.remove(Named.of(job));
    }

    synchronized int size() {
        return owners.size();
    }

    private synchronized void next() {
        if (!beating && !owners.isEmpty()) {
            thread.schedule(this::renew, beat.toMillis(), TimeUnit.MILLISECONDS);
            beating = true;
        }
    }

    /** Returns the names of the jobs by the node that is to be told. */
    private synchronized Map<Path, List<String>> due() {
        beating = false;
        owners.values().removeIf(owner -> owner.refersTo(null));
        Map<Path, List<String>> due = new HashMap<>();
        owners.keySet().forEach(job -> due.computeIfAbsent(job.socket(), s -> new ArrayList<>()).add(job.id()));
        return due;
    }

    private void renew() {
        due().forEach((socket, jobs) -> {
            try {
                new InputsClient(socket, beat).renew(jobs, LENGTH);
            } catch (IOException | RuntimeException e) {
                LOG.debug("It cannot be said that {} jobs go on", jobs.size(), e);
            }
        });
        next();
    }
}
