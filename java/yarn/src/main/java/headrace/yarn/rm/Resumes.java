package headrace.yarn.rm;

import headrace.client.ManagerClient;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import org.slf4j.LoggerFactory;

/** Tells the manager which containers go on. */
final class Resumes {
    private final ManagerClient manager;
    private final Timing timing;
    private final ExecutorService caller = Executors.newSingleThreadExecutor(work -> {
        Thread thread = new Thread(work, "headrace-resumes");
        thread.setDaemon(true);
        return thread;
    });
    private final Warnings warnings = new Warnings(LoggerFactory.getLogger(Resumes.class),
        "A container cannot be told to go on");

    Resumes(ManagerClient manager, Timing timing) {
        this.manager = manager;
        this.timing = timing;
    }

    /** Returns at once. The result is in the suspension: delivered, or when to try again. */
    void deliver(Suspension s) {
        if (s.calling) {
            return;
        }
        s.calling = true;
        try {
            caller.execute(() -> call(s));
        } catch (RejectedExecutionException e) {
            s.calling = false; // stopping
        }
    }

    private void call(Suspension s) {
        try {
            manager.resume(s.id.toString());
            s.deliveredMs = Reconciler.clock();
            s.undeliveredMs = 0;
            s.delivered = true;
            warnings.works();
        } catch (Throwable e) {
            long now = Reconciler.clock();
            s.undeliveredMs = s.undeliveredMs == 0 ? now : s.undeliveredMs;
            s.notBeforeMs = now + timing.retry();
            if (!Thread.currentThread().isInterrupted()) {
                warnings.fails(e);
            }
        } finally {
            s.calling = false;
        }
    }

    void stop() {
        caller.shutdownNow();
    }
}
