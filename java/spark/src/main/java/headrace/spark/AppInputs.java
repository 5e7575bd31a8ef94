package headrace.spark;

import headrace.client.Warming;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.ActiveJob;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * What an application reads. Queries tell it when they are planned, before anything of them runs; for everything else
 * there is Spark's listener bus, which tells of each job when it starts. The scheduler and queries without a lead never
 * wait for any of that.
 *
 * <p>A file is asked for once, however often it is read: it is kept until the application ends.
 */
final class AppInputs extends SparkListener implements Warming.Owner {
    /** Remembered, and asked for; for a job the manager takes as many blocks. */
    private static final int MOST_FILES = 500_000;
    private static final int MOST_QUERIES = 1000;
    private static final Logger LOG = LoggerFactory.getLogger(AppInputs.class);

    private final SparkContext spark;
    private final Warming warming;
    private final Warming.Job job;
    /** Only the thread of warming uses it. */
    private final Set<String> known = new HashSet<>();
    private boolean full;
    /** When each query's lead is over, by System.nanoTime. */
    private final Map<String, Long> deadlines = new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Long> eldest) {
            return size() > MOST_QUERIES;
        }
    };

    AppInputs(SparkContext spark, Warming warming, Warming.Job job) {
        this.spark = spark;
        this.warming = warming;
        this.job = job;
    }

    /** Files that were not asked for yet. */
    private final class New implements Warming.Inputs {
        private final Callable<Collection<String>> all;
        private final boolean passes;

        New(Callable<Collection<String>> all, boolean passes) {
            this.all = all;
            this.passes = passes;
        }

        @Override
        public boolean passes() {
            return passes;
        }

        @Override
        public Collection<String> files() throws Exception {
            List<String> fresh = all.call().stream().filter(file -> !known.contains(file)).distinct().toList();
            int room = MOST_FILES - known.size();
            if (fresh.size() > room && !full) {
                full = true;
                LOG.warn("Of more than {} files no more are read into memory before; only this is written of it", MOST_FILES);
            }
            return fresh.subList(0, Math.min(room, fresh.size()));
        }

        @Override
        public void accepted(List<String> files) {
            known.addAll(files);
        }
    }

    /** A query reads files. It is called more than once when it is planned again while it runs. */
    void query(String query, Callable<Collection<String>> files) {
        Duration left = leadOf(query);
        if (left.isNegative() || left.isZero()) {
            ask(job, new New(files, true));
            return;
        }
        try {
            Warming.Job waiting = new Warming.Job(job.socket(), job.id(), job.patience(), left, job.implicit());
            if (!ask(waiting, new New(files, true)).warm()) {
                giveUp(query);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // the query is cancelled, and finds it out itself
        }
    }

    // YARN says when its applications end. Of others nobody does if the driver does not live to say it.
    private Warming.Asked ask(Warming.Job as, Warming.Inputs inputs) {
        long now = System.nanoTime();
        return spark.master().startsWith("yarn") ? warming.watch(as, this, now, inputs) : warming.ask(as, this, now, inputs);
    }

    /** Asks again for what it had; of what was ended, or is let go as it is read, only for what is read from now on. */
    @Override
    public void lost(boolean ended) {
        ask(job, () -> {
            if (ended || job.implicit()) {
                known.clear();
            }
            return List.copyOf(known);
        });
    }

    private Duration leadOf(String query) {
        if (job.lead().isZero()) {
            return Duration.ZERO;
        }
        synchronized (deadlines) {
            long now = System.nanoTime();
            long deadline = deadlines.computeIfAbsent(query, q -> now + job.lead().toNanos());
            return Duration.ofNanos(deadline - now);
        }
    }

    /** A query is planned again with each of its stages; it does not wait again each time. */
    private void giveUp(String query) {
        synchronized (deadlines) {
            deadlines.put(query, System.nanoTime());
        }
    }

    @Override
    public void onJobStart(SparkListenerJobStart event) {
        try {
            Option<ActiveJob> active = spark.dagScheduler().jobIdToActiveJob().get(event.jobId());
            if (active.isDefined()) {
                // It may wait for long, and Spark frees what a job has left in executors when nobody knows its RDDs any more.
                WeakReference<ActiveJob> running = new WeakReference<>(active.get());
                ask(job, new New(() -> {
                    ActiveJob still = running.get();
                    return still == null ? List.of() : JobFiles.of(still);
                }, false));
            }
        } catch (RuntimeException | LinkageError e) {
            LOG.debug("It is not known what job {} reads", event.jobId(), e);
        }
    }
}
