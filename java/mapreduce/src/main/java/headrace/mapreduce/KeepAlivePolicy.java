package headrace.mapreduce;

import headrace.client.KeepAlive;
import headrace.client.Settings;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.checkpoint.TaskCheckpointID;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptId;
import org.apache.hadoop.mapreduce.v2.api.records.TaskId;
import org.apache.hadoop.mapreduce.v2.app.AppContext;
import org.apache.hadoop.mapreduce.v2.app.rm.preemption.AMPreemptionPolicy;
import org.apache.hadoop.mapreduce.v2.app.rm.preemption.NoopAMPreemptionPolicy;
import org.apache.hadoop.util.ReflectionUtils;
import org.apache.hadoop.yarn.api.records.PreemptionMessage;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Set as {@code yarn.app.mapreduce.am.preemption.policy}, it keeps the application master from taking suspended tasks
 * for dead. Preemption itself it leaves to another policy, by default the one that would be there without it.
 */
public class KeepAlivePolicy implements AMPreemptionPolicy, Configurable {
    /** The class of the policy that it leaves preemption to. */
    static final String INNER = "headrace.mapreduce.preemption.policy";

    private static final Logger LOG = LoggerFactory.getLogger(KeepAlivePolicy.class);

    private Configuration conf;
    private AMPreemptionPolicy inner = new NoopAMPreemptionPolicy();

    /** @throws RuntimeException when there is no such policy, as the application master does itself */
    @Override
    public void setConf(Configuration conf) {
        this.conf = conf;
        Class<? extends AMPreemptionPolicy> named =
            conf.getClass(INNER, NoopAMPreemptionPolicy.class, AMPreemptionPolicy.class);
        if (KeepAlivePolicy.class.isAssignableFrom(named)) { // was set before; it would wrap itself without end
            named = NoopAMPreemptionPolicy.class;
        }
        inner = ReflectionUtils.newInstance(named, conf);
    }

    @Override
    public Configuration getConf() {
        return conf;
    }

    @Override
    public void init(AppContext context) {
        inner.init(context);
        try {
            Path socket = Settings.socket(conf);
            KeepAlive.start(socket, context.getApplicationID().toString(), new Attempts(context));
        } catch (RuntimeException | LinkageError e) {
            LOG.warn("Tasks that are suspended for longer than mapreduce.task.timeout are taken for dead", e);
        }
    }

    @Override
    public void preempt(Context context, PreemptionMessage requests) {
        inner.preempt(context, requests);
    }

    @Override
    public boolean isPreempted(TaskAttemptId attempt) {
        return inner.isPreempted(attempt);
    }

    @Override
    public void reportSuccessfulPreemption(TaskAttemptId attempt) {
        inner.reportSuccessfulPreemption(attempt);
    }

    @Override
    public void handleFailedContainer(TaskAttemptId attempt) {
        inner.handleFailedContainer(attempt);
    }

    @Override
    public void handleCompletedContainer(TaskAttemptId attempt) {
        inner.handleCompletedContainer(attempt);
    }

    @Override
    public TaskCheckpointID getCheckpointID(TaskId task) {
        return inner.getCheckpointID(task);
    }

    @Override
    public void setCheckpointID(TaskId task, TaskCheckpointID checkpoint) {
        inner.setCheckpointID(task, checkpoint);
    }
}
