package headrace.mapreduce;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.YARNRunner;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.security.Credentials;

/** Hadoop's own client of YARN; a job's input is asked for when its splits are written, beside its submission. */
final class WarmRunner extends YARNRunner {
    private final Configuration conf;
    private volatile JobWarming warming;

    /** @param conf that of the job */
    WarmRunner(Configuration conf) {
        super(conf);
        this.conf = conf;
    }

    @Override
    public JobStatus submitJob(JobID job, String dir, Credentials credentials) throws IOException, InterruptedException {
        JobWarming warming = JobWarming.start(job, dir, conf);
        JobStatus status = null;
        try {
            status = super.submitJob(job, dir, credentials);
            this.warming = warming;
            if (warming != null) {
                warming.answered();
            }
            return status;
        } finally {
            if (status == null && warming != null) {
                warming.end();
            }
        }
    }

    /** Whoever waits for the job asks again and again. */
    @Override
    public JobStatus getJobStatus(JobID job) throws IOException, InterruptedException {
        JobStatus status = super.getJobStatus(job);
        JobWarming warming = this.warming;
        if (warming != null && warming.of(job) && status != null && status.isJobComplete()) {
            this.warming = null;
            warming.end();
        }
        return status;
    }
}
