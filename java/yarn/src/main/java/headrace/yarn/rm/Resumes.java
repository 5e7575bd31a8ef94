package headrace.yarn.rm;

import headrace.client.ManagerClient;
import headrace.client.SilentException;
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

    // When a call was last given up; used by the caller's thread only.
    private long silentMs = Long.MIN_VALUE;

    Resumes(ManagerClient manager, Timing timing) {
        this.manager = manager;
        this.timing = timing;
    }

    /**
     * Returns at once. The result is in the suspension: delivered, or when to try again.
     *
     * @param hears false: it is known that nobody can be told now, and only the time counts
     */
    void deliver(Suspension s, boolean hears) {
        if (s.calling) {
            return;
        }
        long now = Reconciler.clock();
        s.undeliveredMs = s.undeliveredMs == 0 ? now : s.undeliveredMs;
        if (!hears) {
            return;
        }
        s.calling = true;
        try {
            caller.execute(() -> call(s, now));
        } catch (RejectedExecutionException e) {
            s.calling = false; // stopping
        }
    }

    private void call(Suspension s, long since) {
        try {
            if (since <= silentMs) { // one after the other they would wait for minutes
                throw new SilentException("the manager was silent a moment ago");
            }
            manager.resume(s.id.toString());
            s.deliveredMs = Reconciler.clock();
            s.undeliveredMs = 0;
            s.delivered = true;
            warnings.works();
        } catch (Throwable e) {
            long now = Reconciler.clock();
            if (e instanceof SilentException && since > silentMs) {
                silentMs = now;
            }
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
