package headrace.spark;

import headrace.client.InputsClient;
import headrace.client.Warming;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.hadoop.fs.Path;
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
 * <p>A file is asked for once, however often it is read, as long as it stays the same: it is kept until the application ends. Where
 * it is let go as it is read each query asks anew.
 */
final class AppInputs extends SparkListener implements Warming.Owner {
    /** Remembered, and asked for at once; of a job the manager takes as many blocks. */
    static final int MOST_FILES = 500_000;
    /** Remembered; RDDs too. */
    private static final int MOST_QUERIES = 1000;
    private static final Logger LOG = LoggerFactory.getLogger(AppInputs.class);

    private final SparkContext spark;
    private final Warming warming;
    private final Warming.Job job;
    /** By name, as requests name them. Only the thread of warming uses it. */
    private final Map<String, Known> known = remembering(MOST_FILES);
    /** RDDs whose files were looked at. Only the thread of warming uses it. */
    private final Map<Integer, Boolean> seen = remembering(MOST_QUERIES);
    /** When each query's lead is over, by System.nanoTime. */
    private final Map<String, Long> deadlines = remembering(MOST_QUERIES);

    /** A file as it was asked for. @param query null: none has */
    private record Known(FileVersion version, String query) { }

    /** Forgets what was not used for longest. */
    private static <K, V> Map<K, V> remembering(int most) {
        return new LinkedHashMap<>(16, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
                return size() > most;
            }
        };
    }

    AppInputs(SparkContext spark, Warming warming, Warming.Job job) {
        this.spark = spark;
        this.warming = warming;
        this.job = job;
    }

    /** Files that were not asked for yet, or are others now. */
    private final class New implements Warming.Inputs {
        private final Callable<Map<Path, FileVersion>> all;
        private final String query;
        private final Map<String, FileVersion> fresh = new LinkedHashMap<>();

        /** @param query null: it is a job that asks, and may only read what it has computed before */
        New(Callable<Map<Path, FileVersion>> all, String query) {
            this.all = all;
            this.query = query;
        }

        @Override
        public boolean passes() {
            return query != null;
        }

        @Override
        public Collection<String> files() throws Exception {
            all.call().forEach((file, version) -> InputsClient.name(file.toUri()).ifPresent(name -> {
                if (isNew(known.get(name), version) && fresh.size() < MOST_FILES) {
                    fresh.put(name, version);
                }
            }));
            return fresh.keySet();
        }

        private boolean isNew(Known before, FileVersion version) {
            return before == null || !version.equals(FileVersion.UNKNOWN) && !version.equals(before.version)
                || job.implicit() && query != null && !query.equals(before.query);
        }

        @Override
        public void accepted(List<String> files) {
            files.forEach(file -> known.put(file, new Known(fresh.get(file), query)));
        }
    }

    /** A query reads files. It is called more than once when it is planned again while it runs. */
    void query(String query, Callable<Map<Path, FileVersion>> files) {
        Duration left = leadOf(query);
        if (left.isNegative() || left.isZero()) {
            ask(job, new New(files, query));
            return;
        }
        try {
            Warming.Job waiting = new Warming.Job(job.socket(), job.id(), job.patience(), left, job.implicit());
            if (!ask(waiting, new New(files, query)).warm()) {
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
            return List.copyOf(known.keySet());
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
                    return still == null ? Map.of() : files(JobFiles.of(still));
                }, null));
            }
        } catch (RuntimeException | LinkageError e) {
            LOG.debug("It is not known what job {} reads", event.jobId(), e);
        }
    }

    /** Returns the files of a job. Those of an RDD are looked at once: it stays with the splits that it has found. */
    private Map<Path, FileVersion> files(JobFiles found) {
        Map<Path, FileVersion> files = found.files();
        found.unknown().forEach((rdd, unknown) -> {
            if (seen.put(rdd, true) == null) {
                files.putAll(FileVersion.of(unknown, spark.hadoopConfiguration()));
            }
        });
        return files;
    }
}
