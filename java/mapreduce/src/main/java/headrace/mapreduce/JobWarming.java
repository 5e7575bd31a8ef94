package headrace.mapreduce;

import headrace.client.InputsClient;
import headrace.client.Settings;
import headrace.client.Warming;
import java.io.IOException;
import java.security.PrivilegedExceptionAction;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.TypeConverter;
import org.apache.hadoop.security.UserGroupInformation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What was asked for, for one job. */
final class JobWarming implements Warming.Owner {
    private static final Logger LOG = LoggerFactory.getLogger(JobWarming.class);

    /** That of all jobs that this process submits. */
    private static final class Of {
        private static final Warming PROCESS = new Warming();
    }

    /** What the job reads. One thread uses it. */
    private static final class Splits implements Warming.Inputs {
        private final Callable<List<List<SplitFiles.Part>>> read;
        private List<InputsClient.Reader> readers;

        Splits(Callable<List<List<SplitFiles.Part>>> read) {
            this.read = read;
        }

        @Override
        public Set<String> files() throws Exception {
            List<List<SplitFiles.Part>> parts = read.call();
            readers = SplitFiles.readers(parts);
            return SplitFiles.of(parts);
        }

        @Override
        public List<InputsClient.Reader> readers() {
            return readers;
        }
    }

    private final JobID id;
    private final Warming.Job job;
    private final Warming.Inputs files;
    private Warming.Asked asked;

    private JobWarming(JobID id, Warming.Job job, Warming.Inputs files) {
        this.id = id;
        this.job = job;
        this.files = files;
    }

    /**
     * Asks for the input of a job, and waits for as much of its lead as is needed, if it has declared one.
     *
     * @param dir with the job's splits
     * @return null when that is not possible
     */
    static JobWarming start(JobID id, String dir, Configuration conf) throws InterruptedException {
        long began = System.nanoTime();
        try {
            Warming.Job job = Settings.job(TypeConverter.toYarn(id).getAppId().toString(), conf);
            UserGroupInformation user = UserGroupInformation.getCurrentUser();
            org.apache.hadoop.fs.Path at = new org.apache.hadoop.fs.Path(dir);
            PrivilegedExceptionAction<List<List<SplitFiles.Part>>> read = () -> SplitFiles.parts(id, at, conf);
            JobWarming warming = new JobWarming(id, job, new Splits(() -> user.doAs(read)));
            warming.asked = Of.PROCESS.watch(job, warming, began, warming.files);
            boolean heard = warming.asked.warm();
            if (heard && !job.lead().isZero() && conf.getBoolean(Warming.HOSTS, true)) {
                warming.nameHosts(at, conf);
            }
            return warming;
        } catch (IOException | RuntimeException | LinkageError e) {
            LOG.warn("The input of {} is not read into memory before it starts", id, e);
            return null;
        }
    }

    /** Has its tasks run where their input is in memory, as far as that is known and possible. */
    private void nameHosts(org.apache.hadoop.fs.Path dir, Configuration conf) {
        try {
            InputsClient client = new InputsClient(job.socket(), job.patience());
            List<List<SplitFiles.Part>> parts = SplitFiles.parts(id, dir, conf);
            int changed = SplitHosts.name(id, dir, conf, parts, client.places(job.id(), SplitFiles.of(parts)));
            LOG.info("{} splits of {} name the machine that has them in memory", changed, id);
        } catch (IOException | RuntimeException e) {
            LOG.info("The splits of {} name all machines that have a replica: {}", id, e.getMessage());
        }
    }

    boolean of(JobID job) {
        return id.equals(job);
    }

    /**
     * Waits for the answer, so that a process which ends now has it, for no longer than the job's patience since start. With
     * a lead it has waited.
     */
    void answered() {
        try {
            if (job.lead().isZero()) {
                asked.answered();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // the job is submitted all the same
        }
    }

    /** Asks again, unless it was ended: then so has the job, or somebody wants the memory. */
    @Override
    public void lost(boolean ended) {
        if (ended || job.implicit()) {
            Of.PROCESS.leave(job);
        } else {
            Of.PROCESS.watch(job, this, System.nanoTime(), files);
        }
    }

    /** Lets go what is kept for it. */
    void end() throws InterruptedException {
        Of.PROCESS.end(job);
    }
}
