package headrace.client;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Says again and again that jobs go on which no scheduler names, as long as somebody refers to who runs them. When this
 * process has died nobody says it any more, and what is kept for them is let go when their lease is over. Of jobs that
 * a scheduler names it asks only how they stand. Who runs a job that the manager has lost is told.
 *
 * <p>Safe for use by several threads.
 */
final class Leases {
    /** Of each. It outlasts a node or a manager that is started again. */
    static final Duration LENGTH = Duration.ofMinutes(2);
    /** Between renewals. */
    static final Duration USUAL_BEAT = LENGTH.dividedBy(4);

    private static final String ENDED = "ended";
    private static final Set<String> LOST = Set.of("", "adopted", ENDED);
    /** After so many beats an owner is told again: what cannot be had is not to be asked for all the time. */
    private static final int QUIET = 20;

    private static final Logger LOG = LoggerFactory.getLogger(Leases.class);

    private final Duration beat;
    private final ScheduledThreadPoolExecutor thread;
    /** What a lease is for: a job may be asked for with another lead each time. */
    private record Named(Path socket, String id) {
        static Named of(Warming.Job job) {
            return new Named(job.socket(), job.id());
        }
    }

    private static final class Lease {
        final WeakReference<Object> owner;
        /** Zero: it has none. */
        final Duration length;
        /** Until when the owner is told nothing, by System.nanoTime; null: for no time. */
        Long quietUntil;

        Lease(Object owner, Duration length) {
            this.owner = new WeakReference<>(owner);
            this.length = length;
        }
    }

    private record Question(Path socket, Duration length) { }

    private final Map<Named, Lease> leases = new HashMap<>();
    /** Whether the thread comes back to them. */
    private boolean beating;

    Leases(Duration beat, ThreadFactory threads) {
        this.beat = beat;
        thread = new ScheduledThreadPoolExecutor(1, threads);
        thread.setKeepAliveTime(10, TimeUnit.SECONDS);
        thread.allowCoreThreadTimeOut(true);
    }

    /**
     * @param owner who runs the job; a {@link Warming.Owner} is told what becomes of it
     * @param length of the lease; zero: there is none
     */
    synchronized void add(Warming.Job job, Object owner, Duration length) {
        Lease lease = new Lease(owner, length);
        Lease before = leases.put(Named.of(job), lease);
        lease.quietUntil = before == null ? null : before.quietUntil;
        next();
    }

    synchronized void remove(Warming.Job job) {
        leases.remove(Named.of(job));
    }

    synchronized int size() {
        return leases.size();
    }

    private synchronized void next() {
        if (!beating && !leases.isEmpty()) {
            thread.schedule(this::renew, beat.toMillis(), TimeUnit.MILLISECONDS);
            beating = true;
        }
    }

    /** Returns the names of the jobs by the node that is to be told, and for how long they go on. */
    private synchronized Map<Question, List<String>> due() {
        beating = false;
        leases.values().removeIf(lease -> lease.owner.refersTo(null));
        Map<Question, List<String>> due = new HashMap<>();
        leases.forEach((job, lease) ->
            due.computeIfAbsent(new Question(job.socket(), lease.length), q -> new ArrayList<>()).add(job.id()));
        return due;
    }

    private void renew() {
        due().forEach((question, jobs) -> {
            try {
                Map<String, String> states = new InputsClient(question.socket(), beat).renew(jobs, question.length());
                jobs.forEach(job -> hear(new Named(question.socket(), job), states.getOrDefault(job, "")));
            } catch (IOException | RuntimeException e) {
                LOG.debug("It cannot be said that {} jobs go on", jobs.size(), e);
            }
        });
        next();
    }

    /** @param state of a job's input; empty: the manager knows nothing of it */
    private void hear(Named job, String state) {
        if (!LOST.contains(state)) {
            return;
        }
        Object owner;
        synchronized (this) {
            Lease lease = leases.get(job);
            long now = System.nanoTime();
            if (lease == null || lease.quietUntil != null && now - lease.quietUntil < 0) {
                return;
            }
            lease.quietUntil = now + QUIET * beat.toNanos();
            owner = lease.owner.get();
        }
        if (owner instanceof Warming.Owner) {
            ((Warming.Owner) owner).lost(state.equals(ENDED));
        }
    }
}
