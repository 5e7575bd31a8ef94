package headrace.hive;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.hive.ql.hooks.QueryLifeTimeHook;
import org.apache.hadoop.hive.ql.hooks.QueryLifeTimeHookContext;

/** The hook, and how long it delays queries. */
public final class TimedHook implements QueryLifeTimeHook {
    private static final AtomicLong NANOS = new AtomicLong();

    private final WarmHook hook = new WarmHook();

    /** Returns how long all queries since the last call were delayed. */
    static Duration delay() {
        return Duration.ofNanos(NANOS.getAndSet(0));
    }

    private static void timed(Runnable work) {
        long began = System.nanoTime();
        work.run();
        NANOS.addAndGet(System.nanoTime() - began);
    }

    @Override
    public void beforeExecution(QueryLifeTimeHookContext context) {
        timed(() -> hook.beforeExecution(context));
    }

    @Override
    public void afterExecution(QueryLifeTimeHookContext context, boolean failed) {
        timed(() -> hook.afterExecution(context, failed));
    }

    @Override
    public void beforeCompile(QueryLifeTimeHookContext context) {
        hook.beforeCompile(context);
    }

    @Override
    public void afterCompile(QueryLifeTimeHookContext context, boolean failed) {
        hook.afterCompile(context, failed);
    }
}
