package headrace.mapreduce;

import headrace.client.KeepAlive;
import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.BiConsumer;
import org.apache.hadoop.mapreduce.v2.api.records.TaskState;
import org.apache.hadoop.mapreduce.v2.app.AppContext;
import org.apache.hadoop.mapreduce.v2.app.MRAppMaster;
import org.apache.hadoop.mapreduce.v2.app.TaskAttemptListener;
import org.apache.hadoop.mapreduce.v2.app.TaskHeartbeatHandler;
import org.apache.hadoop.mapreduce.v2.app.job.Job;
import org.apache.hadoop.mapreduce.v2.app.job.Task;
import org.apache.hadoop.mapreduce.v2.app.job.TaskAttempt;
import org.apache.hadoop.service.CompositeService;
import org.apache.hadoop.service.Service;
import org.apache.hadoop.yarn.api.records.ContainerId;

/**
 * The attempts of an application master, which times out those that it does not hear of, and knows how far they are.
 */
final class Attempts implements KeepAlive.Framework {
    private final AppContext context;
    private final MRAppMaster master;

    /** @throws IllegalArgumentException when the context is not that of an application master as Hadoop has it */
    Attempts(AppContext context) {
        this.context = context;
        this.master = master(context);
    }

    /** The master that the context is an inner object of: nothing public leads there. */
    static MRAppMaster master(AppContext context) {
        for (Class<?> c = context.getClass(); c != null; c = c.getSuperclass()) {
            for (Field field : c.getDeclaredFields()) {
                if (MRAppMaster.class.isAssignableFrom(field.getType())) {
                    return read(field, context);
                }
            }
        }
        throw new IllegalArgumentException(context.getClass().getName() + " has no application master");
    }

    private static MRAppMaster read(Field field, AppContext context) {
        try {
            field.setAccessible(true);
            return (MRAppMaster) field.get(context);
        } catch (IllegalAccessException e) {
            throw new IllegalArgumentException(e);
        }
    }

    @Override
    public void alive(Set<String> containers) {
        TaskHeartbeatHandler heartbeats = heartbeats();
        running((container, attempt) -> {
            if (containers.contains(container)) {
                heartbeats.progressing(attempt.getID());
            }
        });
    }

    /** What the tasks have told the master last. Without any progress nothing can be expected of them. */
    @Override
    public Map<String, Double> progress() {
        Map<String, Double> shares = new HashMap<>();
        running((container, attempt) -> {
            double share = attempt.getProgress();
            if (share > 0 && share <= 1) {
                shares.put(container, share);
            }
        });
        return shares;
    }

    private void running(BiConsumer<String, TaskAttempt> each) {
        for (Job job : context.getAllJobs().values()) {
            for (Task task : job.getTasks().values()) {
                if (task.getState() == TaskState.RUNNING) {
                    running(task, each);
                }
            }
        }
    }

    private static void running(Task task, BiConsumer<String, TaskAttempt> each) {
        for (TaskAttempt attempt : task.getAttempts().values()) {
            ContainerId container = attempt.getAssignedContainerID();
            if (container != null && !attempt.isFinished()) {
                each.accept(container.toString(), attempt);
            }
        }
    }

    /** What the master hands the heartbeats of its tasks to, a part of what listens to them. */
    private TaskHeartbeatHandler heartbeats() {
        TaskAttemptListener listener = master.getTaskAttemptListener();
        if (listener instanceof CompositeService) {
            for (Service part : ((CompositeService) listener).getServices()) {
                if (part instanceof TaskHeartbeatHandler) {
                    return (TaskHeartbeatHandler) part;
                }
            }
        }
        throw new IllegalStateException("the application master's " + listener + " has no task heartbeat handler");
    }
}
