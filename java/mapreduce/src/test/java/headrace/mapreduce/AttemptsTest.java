package headrace.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.TaskAttemptListenerImpl;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.mapreduce.v2.api.records.JobId;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptId;
import org.apache.hadoop.mapreduce.v2.api.records.TaskState;
import org.apache.hadoop.mapreduce.v2.api.records.TaskType;
import org.apache.hadoop.mapreduce.v2.app.MRAppMaster;
import org.apache.hadoop.mapreduce.v2.app.TaskAttemptListener;
import org.apache.hadoop.mapreduce.v2.app.TaskHeartbeatHandler;
import org.apache.hadoop.mapreduce.v2.app.job.Job;
import org.apache.hadoop.mapreduce.v2.app.job.Task;
import org.apache.hadoop.mapreduce.v2.app.job.TaskAttempt;
import org.apache.hadoop.mapreduce.v2.app.job.event.TaskAttemptEvent;
import org.apache.hadoop.mapreduce.v2.app.job.event.TaskAttemptEventType;
import org.apache.hadoop.mapreduce.v2.util.MRBuilderUtils;
import org.apache.hadoop.service.Service;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.event.Event;
import org.apache.hadoop.yarn.event.EventHandler;
import org.apache.hadoop.yarn.util.Clock;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** With the application master's own listener and time-out, and a clock of ours. */
class AttemptsTest {
    private static final long TIMEOUT = 60_000;
    private static final ApplicationAttemptId APPLICATION =
        ApplicationAttemptId.newInstance(ApplicationId.newInstance(1, 1), 1);

    /** Stands still until it is moved. */
    private static final class TestClock implements Clock {
        private final AtomicLong now = new AtomicLong(1_000_000);
        private final AtomicLong asked = new AtomicLong();

        @Override
        public long getTime() {
            asked.incrementAndGet();
            return now.get();
        }
    }

    private final TestClock clock = new TestClock();
    private final BlockingQueue<TaskAttemptId> timedOut = new LinkedBlockingQueue<>();
    private final JobId job = MRBuilderUtils.newJobId(APPLICATION.getApplicationId(), 1);
    private final TaskAttemptId suspended = attempt(1);
    private final TaskAttemptId hanging = attempt(2);
    private TaskHeartbeatHandler heartbeats;
    private Attempts attempts;

    /** A master that has one job and has not been started. */
    private final class Master extends MRAppMaster {
        private final TaskAttemptListenerImpl listener;
        private final RunningAppContext context;

        Master(Configuration conf) {
            super(APPLICATION, ContainerId.newContainerId(APPLICATION, 1), "localhost", 1, 2, clock, 0);
            context = new Context(this, conf);
            listener = new TaskAttemptListenerImpl(context, null, null, null);
            listener.init(conf);
        }

        @Override
        public TaskAttemptListener getTaskAttemptListener() {
            return listener;
        }
    }

    private final class Context extends MRAppMaster.RunningAppContext {
        Context(MRAppMaster master, Configuration conf) {
            master.super(conf, null);
        }

        @Override
        public Map<JobId, Job> getAllJobs() {
            return Map.of(job, AttemptsTest.this.job());
        }

        @SuppressWarnings({"unchecked", "rawtypes"})
        @Override
        public EventHandler<Event> getEventHandler() {
            return event -> {
                if (event.getType() == TaskAttemptEventType.TA_TIMED_OUT) {
                    timedOut.add(((TaskAttemptEvent) event).getTaskAttemptID());
                }
            };
        }
    }

    @BeforeEach
    void setUp() {
        Configuration conf = new Configuration(false);
        conf.setLong(MRJobConfig.TASK_TIMEOUT, TIMEOUT);
        conf.setInt(MRJobConfig.TASK_TIMEOUT_CHECK_INTERVAL_MS, 2);
        Master master = new Master(conf);
        attempts = new Attempts(master.context);
        for (Service part : master.listener.getServices()) {
            heartbeats = (TaskHeartbeatHandler) part;
        }
        heartbeats.register(suspended);
        heartbeats.register(hanging);
        heartbeats.start();
    }

    @AfterEach
    void tearDown() {
        heartbeats.stop();
    }

    private TaskAttemptId attempt(int number) {
        return MRBuilderUtils.newTaskAttemptId(MRBuilderUtils.newTaskId(job, number, TaskType.MAP), 0);
    }

    private static ContainerId container(TaskAttemptId attempt) {
        return ContainerId.newContainerId(APPLICATION, 10 + attempt.getTaskId().getId());
    }

    private Job job() {
        return view(Job.class, Map.of("getTasks", Map.of(suspended.getTaskId(), task(suspended),
            hanging.getTaskId(), task(hanging))));
    }

    private Task task(TaskAttemptId attempt) {
        TaskAttempt view = view(TaskAttempt.class, Map.of("getID", attempt, "getAssignedContainerID", container(attempt),
            "isFinished", false, "getProgress", attempt.equals(suspended) ? 0.25f : 0f));
        return view(Task.class, Map.of("getState", TaskState.RUNNING, "getAttempts", Map.of(attempt, view)));
    }

    private static <T> T view(Class<T> type, Map<String, Object> values) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, args) -> {
            Object value = values.get(method.getName());
            if (value == null) {
                throw new UnsupportedOperationException(method.getName());
            }
            return value;
        }));
    }

    /** Moves the clock, and returns when all attempts have been looked at since. */
    private void pass(long milliseconds) throws InterruptedException {
        clock.now.addAndGet(milliseconds);
        long asked = clock.asked.get();
        while (clock.asked.get() < asked + 2) {
            Thread.sleep(1);
        }
    }

    @Test
    void onlyTheSuspendedOneIsKeptAlive() throws Exception {
        Set<String> containers = Set.of(container(suspended).toString(), "container_of_somebody_else");
        for (int i = 0; i < 4; i++) {
            pass(TIMEOUT / 2);
            attempts.alive(containers);
        }
        assertEquals(hanging, timedOut.take());
        assertNull(timedOut.poll());
    }

    @Test
    void tellsHowFarAttemptsAre() {
        assertEquals(Map.of(container(suspended).toString(), 0.25), attempts.progress());
    }

    @Test
    void afterTheResumeItHasAllTheTimeAgain() throws Exception {
        pass(TIMEOUT);
        attempts.alive(Set.of(container(suspended).toString(), container(hanging).toString()));
        pass(TIMEOUT);
        assertNull(timedOut.poll());
        pass(1);
        TaskAttemptId first = timedOut.take();
        TaskAttemptId second = timedOut.take();
        assertEquals(Set.of(suspended, hanging), Set.of(first, second));
    }

    @Test
    void withoutItBothTimeOut() throws Exception {
        pass(TIMEOUT + 1);
        timedOut.take();
        timedOut.take();
        assertTrue(timedOut.isEmpty());
    }
}
