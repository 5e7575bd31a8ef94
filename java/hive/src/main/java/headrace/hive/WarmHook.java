package headrace.hive;

import headrace.client.Settings;
import org.apache.hadoop.hive.ql.hooks.HookContext;
import org.apache.hadoop.hive.ql.hooks.QueryLifeTimeHook;
import org.apache.hadoop.hive.ql.hooks.QueryLifeTimeHookContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Named in {@code hive.query.lifetime.hooks}, it has what a query reads from HDFS read into memory before its first task
 * starts, and let go when the query has ended, whether it succeeds, fails or is cancelled. Each of Hive's drivers has
 * one, and runs one query at a time.
 */
public final class WarmHook implements QueryLifeTimeHook {
    private static final Logger LOG = LoggerFactory.getLogger(WarmHook.class);

    /** Null: nothing was asked for. */
    private QueryWarming warming;

    /** Called by Hive. */
    public WarmHook() { }

    @Override
    public void beforeExecution(QueryLifeTimeHookContext context) {
        warming = null;
        try {
            HookContext query = context.getHookContext();
            if (Settings.warm(query.getConf())) {
                warming = QueryWarming.start(query);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // the query is cancelled, and finds it out itself
        } catch (Throwable e) { // the query must not fail because of this, not even when its plan is too deep
            LOG.warn("The input of a query is not read into memory before it starts", e);
        }
    }

    @Override
    public void afterExecution(QueryLifeTimeHookContext context, boolean failed) {
        try {
            if (warming != null) {
                warming.end(failed);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (Throwable e) {
            LOG.warn("The input of a query is not let go", e);
        }
    }

    @Override
    public void beforeCompile(QueryLifeTimeHookContext context) { }

    @Override
    public void afterCompile(QueryLifeTimeHookContext context, boolean failed) { }
}
