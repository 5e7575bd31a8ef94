package headrace.mapreduce;

import headrace.client.NodeSocket;
import headrace.client.Warming;
import java.io.IOException;
import java.nio.file.Path;
import java.security.PrivilegedExceptionAction;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.TypeConverter;
import org.apache.hadoop.security.UserGroupInformation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What was asked for, for one job.
 *
 * @param job of which that is the input
 */
record JobWarming(JobID job, Warming.Job asked) {
    /** Whether a job's input is to be read into memory before it starts. */
    static final String WANTED = "headrace.warm";
    /** How long submission waits for an answer; milliseconds, or with a unit. */
    static final String PATIENCE = "headrace.warm.patience";
    /** How long submission waits until the input is in memory; seconds, or with a unit. */
    static final String LEAD = "headrace.warm.lead";
    /** Whether each block is let go as the job reads it. */
    static final String IMPLICIT = "headrace.warm.implicit";

    private static final long USUAL_PATIENCE = 200;
    private static final Logger LOG = LoggerFactory.getLogger(JobWarming.class);
    /** Of all jobs that this process submits. */
    private static final Warming WARMING = new Warming();

    static boolean wanted(Configuration conf) {
        return conf.getBoolean(WANTED, true);
    }

    /**
     * Asks for the input of a job.
     *
     * @param dir with the job's splits
     * @return null when that is not possible
     */
    static JobWarming before(JobID job, String dir, Configuration conf) throws InterruptedException {
        try {
            JobWarming warming = new JobWarming(job, asked(job, conf));
            UserGroupInformation user = UserGroupInformation.getCurrentUser();
            PrivilegedExceptionAction<Set<String>> read = () -> SplitFiles.of(job, new org.apache.hadoop.fs.Path(dir), conf);
            WARMING.before(warming.asked, () -> user.doAs(read));
            return warming;
        } catch (IOException | RuntimeException | LinkageError e) {
            LOG.warn("The input of {} is not read into memory before it starts", job, e);
            return null;
        }
    }

    private static Warming.Job asked(JobID job, Configuration conf) {
        Path socket = Path.of(conf.getTrimmed(KeepAlivePolicy.SOCKET, NodeSocket.DEFAULT_PATH));
        String application = TypeConverter.toYarn(job).getAppId().toString();
        Duration patience = duration(conf, PATIENCE, USUAL_PATIENCE, TimeUnit.MILLISECONDS);
        return new Warming.Job(socket, application, patience.isZero() ? Duration.ofNanos(1) : patience,
            duration(conf, LEAD, 0, TimeUnit.SECONDS), conf.getBoolean(IMPLICIT, false));
    }

    private static Duration duration(Configuration conf, String name, long otherwise, TimeUnit unit) {
        Duration given = Duration.ofMillis(conf.getTimeDuration(name, otherwise, unit, TimeUnit.MILLISECONDS));
        if (given.isNegative()) {
            throw new IllegalArgumentException(name + " is negative");
        }
        return given;
    }

    void end() throws InterruptedException {
        WARMING.end(asked);
    }
}
