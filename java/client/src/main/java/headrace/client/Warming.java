package headrace.client;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Has the input of jobs of this process read into memory before they read it. What takes time is done by one daemon
 * thread of its own, and goes on there when a job does not wait for it any longer. Whatever fails is counted and logged
 * once, until it works again, and the job goes on as it would without.
 *
 * <p>Safe for use by several threads.
 */
public final class Warming {
    /** Setting: whether input is to be read into memory before. */
    static final String WANTED = "headrace.warm";
    /** Setting: how long to wait for an answer; milliseconds, or with a unit. */
    static final String PATIENCE = "headrace.warm.patience";
    /** Setting: how long to wait until the input is in memory; seconds, or with a unit. */
    static final String LEAD = "headrace.warm.lead";
    /** Setting: whether each block is let go as it is read. */
    static final String IMPLICIT = "headrace.warm.implicit";
    /** Setting: whether a job with a lead names the machines on which its input is in memory, and no others. */
    public static final String HOSTS = "headrace.warm.hosts";
    /** The patience where none is set, in milliseconds. */
    static final long USUAL_PATIENCE = 200;

    /** Files in a request, and characters of their names: less than daemon and manager take. */
    private static final int MOST_FILES = 10_000;
    private static final int MOST_CHARACTERS = 2 << 20;
    /** Refusals that are about the files of one request: others may be taken. */
    private static final Set<String> OF_FILES = Set.of("failed_precondition", "permission_denied");
    /** For an answer that no job waits for. */
    private static final Duration UNHURRIED = Duration.ofMinutes(1);
    /** After a silence whoever would ask that daemon is refused for so long. What waits else keeps what it would ask about, for very long. */
    private static final Duration REFUSAL = Duration.ofSeconds(10);
    /** Between questions how it stands, in milliseconds: the first ones, and after twice as long each time. */
    private static final long PAUSE = 100;
    private static final long LONGEST_PAUSE = 500;
    /** Requests that wait for the thread. */
    private static final int QUEUE = 1000;
    /** With so many waiting those that pass are not taken. */
    private static final int PASSING_QUEUE = 100;
    /** What passes is asked for within that time, or within the job's lead. */
    private static final Duration PASSING = Duration.ofMinutes(1);

    private static final Logger LOG = LoggerFactory.getLogger(Warming.class);

    /**
     * A job.
     *
     * @param socket of the daemon of this machine
     * @param id as the job's scheduler writes it: application_...
     * @param patience for an answer
     * @param lead until its input is in memory, if there are answers meanwhile; zero: it has none
     * @param implicit each block is let go as the job reads it
     */
    public record Job(Path socket, String id, Duration patience, Duration lead, boolean implicit) {
        /** Refuses what is negative. */
        public Job {
            check(PATIENCE, patience);
            check(LEAD, lead);
            if (patience.isZero()) {
                patience = Duration.ofNanos(1); // a time-out of zero would be none
            }
        }

        private static void check(String name, Duration given) {
            if (given.isNegative()) {
                throw new IllegalArgumentException(name + " is negative");
            }
        }
    }

    /** Finds out which files a job reads, as {@link InputsClient#name} names them. Called by the thread. */
    public interface Inputs {
        Collection<String> files() throws Exception;

        /** These were asked for. Called by the thread. */
        default void accepted(List<String> files) { }

        /**
         * Whether they are read soon or not at all, and it keeps much until then, such as the plan of a query: so it is not taken
         * while many wait, and passed over when it has waited for long.
         */
        default boolean passes() {
            return false;
        }

        /** Returns where parts of the files will be read, as far as that is known. Called after the files were. */
        default Collection<InputsClient.Reader> readers() {
            return List.of();
        }
    }

    /** Who runs a job, and may ask for its input once more. */
    public interface Owner {
        /**
         * Nothing is kept for the job any more; or the manager was started again, and knows only what nodes have of it. Called
         * now and then as long as that is so, by a thread of its own, and must not wait.
         *
         * @param ended somebody has ended it, or for too long nobody could say that it goes on
         */
        void lost(boolean ended);
    }

    private final ThreadPoolExecutor thread =
        new ThreadPoolExecutor(1, 1, 10, TimeUnit.SECONDS, new ArrayBlockingQueue<>(QUEUE), Warming::daemon);
    private final AtomicLong asked = new AtomicLong();
    private final AtomicLong late = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private final Leases leases;
    private final Duration unhurried;
    private final Duration refusal;
    private final Duration passing;
    /** Of daemons that were silent, by System.nanoTime. */
    private final Map<Path, Long> refusedUntil = new ConcurrentHashMap<>();
    private boolean failing;

    public Warming() {
        this(Leases.USUAL_BEAT, UNHURRIED, REFUSAL, PASSING);
    }

    /**
     * @param beat between renewals of leases
     * @param unhurried for an answer that no job waits for
     * @param refusal how long nothing is asked after a silence
     * @param passing after which time what passes is not asked for any more
     */
    Warming(Duration beat, Duration unhurried, Duration refusal, Duration passing) {
        this.unhurried = unhurried;
        this.refusal = refusal;
        this.passing = passing;
        thread.allowCoreThreadTimeOut(true);
        leases = new Leases(beat, Warming::daemon);
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work, "headrace warming");
        thread.setDaemon(true);
        return thread;
    }

    /** How often input was asked for. */
    public long asked() {
        return asked.get();
    }

    /** How often a job did not wait for the answer. */
    public long late() {
        return late.get();
    }

    /** How often it failed. */
    public long failed() {
        return failed.get();
    }

    /** How many jobs have a lease, or are looked after. */
    int leased() {
        return leases.size();
    }

    /** What was asked for. It comes whether anybody waits for it or not. */
    public final class Asked {
        private final Job job;
        private final long began;
        private final CompletableFuture<Long> left;

        private Asked(Job job, long began, CompletableFuture<Long> left) {
            this.job = job;
            this.began = began;
            this.left = left;
        }

        /**
         * Waits until there is an answer, or the job's patience is over.
         *
         * @throws InterruptedException when the thread is interrupted
         */
        public void answered() throws InterruptedException {
            if (!answered(job.patience)) {
                tooLate();
            }
        }

        private boolean answered(Duration patience) throws InterruptedException {
            try {
                left.get(patience.toNanos() - (System.nanoTime() - began), TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                return false;
            } catch (ExecutionException e) {
                LOG.debug("{} goes on without", job.id); // why has been told
            }
            return true;
        }

        private void tooLate() {
            late.incrementAndGet();
            LOG.info("{} does not wait longer than {} ms for Headrace's answer; its input may be warmed all the same",
                job.id, job.patience.toMillis());
        }

        /**
         * Waits until everything is in memory, or the job's lead is over, or nothing is heard within its patience. While
         * the files are looked up, which may take long, questions are answered.
         *
         * @return false: it has failed, or nothing is heard, so there is no use in waiting once more
         * @throws InterruptedException when the thread is interrupted
         */
        public boolean warm() throws InterruptedException {
            if (job.lead.isZero()) {
                return true;
            }
            // One patience for the answer and the first question together.
            Duration patience = job.patience.minus(job.patience.dividedBy(2));
            answered(job.patience.dividedBy(2));
            try {
                for (long pause = PAUSE, rest; (rest = job.lead.toNanos() - (System.nanoTime() - began)) > 0;) {
                    boolean done = left.isDone();
                    if (done && left.join() == 0) {
                        return true;
                    }
                    if (Warming.warm(job, patience) && done) {
                        return true;
                    }
                    patience = job.patience;
                    Thread.sleep(Math.min(pause, TimeUnit.NANOSECONDS.toMillis(rest) + 1));
                    pause = Math.min(2 * pause, LONGEST_PAUSE);
                }
                return true;
            } catch (RuntimeException e) {
                LOG.debug("{} goes on without", job.id); // why has been told
            } catch (IOException e) {
                if (Thread.interrupted()) {
                    throw new InterruptedException();
                }
                if (!left.isDone()) {
                    tooLate();
                }
                fails(job, e);
            }
            return false;
        }
    }

    private static boolean warm(Job job, Duration patience) throws IOException {
        try {
            return client(job, patience).status(job.id).map(s -> s.left() == 0).orElse(true);
        } catch (RefusedException e) {
            if (!e.code().equals("resource_exhausted")) {
                throw e;
            }
            return false; // others of the application ask the same at this moment
        }
    }

    /**
     * Asks for the input of a job, and does not wait.
     *
     * @param began since when the job waits, by System.nanoTime
     */
    public Asked ask(Job job, long began, Inputs inputs) {
        return ask(job, Duration.ZERO, began, inputs);
    }

    /**
     * Asks for the input of a job that no scheduler names, and does not wait. It is let go some minutes after this
     * process has died, or nobody refers to its owner any more, if it is not ended before.
     *
     * @param owner whoever runs the job; an {@link Owner} is told when it is lost
     * @param began since when the job waits, by System.nanoTime
     */
    public Asked ask(Job job, Object owner, long began, Inputs inputs) {
        leases.add(job, owner, Leases.LENGTH);
        return ask(job, Leases.LENGTH, began, inputs);
    }

    /**
     * Asks for the input of a job, and does not wait.
     *
     * @param owner is told when it is lost, as long as somebody refers to it
     * @param began since when the job waits, by System.nanoTime
     */
    public Asked watch(Job job, Owner owner, long began, Inputs inputs) {
        leases.add(job, owner, Duration.ZERO);
        return ask(job, Duration.ZERO, began, inputs);
    }

    private Asked ask(Job job, Duration lease, long began, Inputs inputs) {
        long submitted = System.currentTimeMillis();
        CompletableFuture<Long> left = run(inputs.passes() ? PASSING_QUEUE : QUEUE, () -> {
            refuse(job);
            long waited = System.nanoTime() - began;
            if (inputs.passes() && waited > Math.max(passing.toNanos(), job.lead.toNanos())) {
                throw new IOException("what a query reads was not asked for within " + waited / 1_000_000_000 + " s");
            }
            long rest = 0;
            boolean some = false;
            RefusedException refused = null;
            List<List<String>> parts = parts(new LinkedHashSet<>(inputs.files()));
            Map<String, List<InputsClient.Reader>> readers =
                inputs.readers().stream().collect(Collectors.groupingBy(InputsClient.Reader::file));
            for (List<String> part : parts) {
                try {
                    rest = request(job, part, readers, submitted, lease);
                } catch (RefusedException e) {
                    if (!OF_FILES.contains(e.code())) {
                        throw e;
                    }
                    refused = refused == null ? e : refused;
                    continue;
                }
                some = true;
                asked.incrementAndGet();
                inputs.accepted(part);
            }
            if (refused != null && !some) {
                throw refused;
            } else if (refused != null) {
                fails(job, refused);
            } else if (some) {
                works();
            }
            return rest;
        }).whenComplete((rest, e) -> { // before anybody who waits goes on
            if (e != null) {
                fails(job, e);
            }
        });
        return new Asked(job, began, left);
    }

    /** Keeps nobody waiting while there are no answers. */
    private void refuse(Job job) throws IOException {
        Long until = refusedUntil.get(job.socket);
        if (until != null && System.nanoTime() - until < 0) {
            throw new IOException("Headrace's daemon was silent a moment ago");
        }
        refusedUntil.remove(job.socket);
    }

    private void silent(Job job) {
        refusedUntil.put(job.socket, System.nanoTime() + refusal.toNanos());
    }

    /** Returns how many bytes are still to be read. */
    private long request(Job job, List<String> files, Map<String, List<InputsClient.Reader>> readers, long submitted,
            Duration lease) throws IOException {
        try {
            InputsClient.Status status = client(job, unhurried).warm(job.id, files, readers, job.implicit, submitted, lease);
            LOG.info("The input of {} is warmed: {} bytes, {} to be read", job.id, status.bytes(), status.left());
            return status.left();
        } catch (SilentException e) {
            silent(job);
            throw e;
        } catch (RefusedException e) {
            if (!e.code().equals("not_found")) {
                throw e;
            }
            LOG.info("There is nothing to be read for {}: {}", job.id, e.getMessage());
            return 0;
        }
    }

    /** Lets go what is kept for a job when its lease is over, which is not renewed any more. */
    public void leave(Job job) {
        leases.remove(job);
    }

    /** Lets go what is kept for a job. Waits no longer than its patience. */
    public void end(Job job) throws InterruptedException {
        end(job, job.patience);
    }

    /** @param patience how long to wait until that is done; zero: not at all */
    public void end(Job job, Duration patience) throws InterruptedException {
        leases.remove(job);
        try {
            run(QUEUE, () -> {
                refuse(job);
                try {
                    client(job, unhurried).cool(job.id);
                } catch (SilentException e) {
                    silent(job);
                    throw e;
                }
                return null;
            }).get(patience.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            LOG.debug("Headrace has not answered yet at the end of {}", job.id);
        } catch (ExecutionException e) {
            // Others let it go, too: the scheduler when the job has ended, the manager when its lease is over or memory is short.
            LOG.debug("At the end of {}: {}", job.id, e.getCause().getMessage());
        }
    }

    /** Returns files in parts that daemon and manager take. */
    static List<List<String>> parts(Collection<String> files) {
        List<List<String>> parts = new ArrayList<>();
        List<String> part = new ArrayList<>();
        int characters = 0;
        for (String file : files) {
            if (!part.isEmpty() && (part.size() == MOST_FILES || characters + file.length() > MOST_CHARACTERS)) {
                parts.add(part);
                part = new ArrayList<>();
                characters = 0;
            }
            part.add(file);
            characters += file.length();
        }
        if (!part.isEmpty()) {
            parts.add(part);
        }
        return parts;
    }

    private static InputsClient client(Job job, Duration timeout) {
        return new InputsClient(job.socket, timeout);
    }

    private interface Work<T> {
        T call() throws Exception;
    }

    /** @param most that may wait before it */
    private <T> CompletableFuture<T> run(int most, Work<T> work) {
        CompletableFuture<T> result = new CompletableFuture<>();
        if (thread.getQueue().size() >= most) {
            result.completeExceptionally(new IOException(most + " requests wait for Headrace's answer already"));
            return result;
        }
        ClassLoader classes = Thread.currentThread().getContextClassLoader();
        try {
            thread.execute(() -> {
                Thread.currentThread().setContextClassLoader(classes);
                try {
                    result.complete(work.call());
                } catch (Throwable e) { // a job must not fail because of this
                    result.completeExceptionally(e);
                }
            });
        } catch (RejectedExecutionException e) {
            result.completeExceptionally(new IOException(QUEUE + " requests wait for Headrace's answer already"));
        }
        return result;
    }

    private synchronized void works() {
        if (failing) {
            LOG.info("The input of jobs is warmed again; it has failed {} times so far", failed);
        }
        failing = false;
    }

    private synchronized void fails(Job job, Throwable e) {
        failed.incrementAndGet();
        if (failing) {
            LOG.debug("The input of {} is not warmed", job.id, e);
            return;
        }
        failing = true;
        if (e instanceof IOException) {
            LOG.warn("The input of {} is not read into memory before it starts ({}); while this lasts, only this is"
                + " written of it", job.id, e.getMessage());
        } else {
            LOG.warn("The input of {} is not read into memory before it starts; while this lasts, only this is written"
                + " of it", job.id, e);
        }
    }
}
