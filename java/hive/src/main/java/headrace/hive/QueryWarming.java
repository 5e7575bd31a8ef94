package headrace.hive;

import headrace.client.Settings;
import headrace.client.Warming;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.common.metrics.common.Metrics;
import org.apache.hadoop.hive.common.metrics.common.MetricsFactory;
import org.apache.hadoop.hive.common.metrics.common.MetricsVariable;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.QueryPlan;
import org.apache.hadoop.hive.ql.hooks.HookContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What was asked for, for one query. It is called as Hive calls the query. No scheduler of the cluster knows that name:
 * the applications that a query runs in are not there yet, and there may be several. So it has a lease, which is also
 * over when Hive holds its plan no longer and has not told its end.
 */
final class QueryWarming {
    private static final Logger LOG = LoggerFactory.getLogger(QueryWarming.class);

    /** That of all queries of this process. */
    static final class Of {
        static final Warming PROCESS = new Warming();

        static {
            try {
                Metrics metrics = MetricsFactory.getInstance();
                if (metrics != null) { // HiveServer2 has them if it is told to
                    gauge(metrics, "headrace_warm_asked", PROCESS::asked);
                    gauge(metrics, "headrace_warm_late", PROCESS::late);
                    gauge(metrics, "headrace_warm_failed", PROCESS::failed);
                }
            } catch (RuntimeException | LinkageError e) {
                LOG.warn("Hive's metrics do not have those of warming", e);
            }
        }

        private static void gauge(Metrics metrics, String name, MetricsVariable<Long> value) {
            metrics.addGauge(name, value);
        }
    }

    /** The server's own node, whatever a session sets: all its queries share one Warming, whose time a daemon that is silent takes. */
    private static final class Server {
        static final Path SOCKET;

        static {
            Configuration own = new Configuration();
            own.setClassLoader(QueryWarming.class.getClassLoader()); // that of a session has what it has added
            SOCKET = Settings.socket(new HiveConf(own, QueryWarming.class));
        }
    }

    /** What a query reads. With many queries at once it would be much that waits, and be read by then. */
    private record Paths(Set<String> files) implements Warming.Inputs {
        @Override
        public boolean passes() {
            return true;
        }
    }

    private final Warming.Job job;
    /** How long its end may wait for the answer. */
    private final Duration patience;
    /** Hive reads it when the query has ended. */
    private final boolean fetched;

    private QueryWarming(Warming.Job job, Duration patience, boolean fetched) {
        this.job = job;
        this.patience = patience;
        this.fetched = fetched;
    }

    /**
     * Asks for the input of a query, and waits for as much of its lead as is needed, if it has declared one.
     *
     * @return null: it reads nothing of HDFS
     * @throws IllegalArgumentException when a setting makes no sense
     */
    static QueryWarming start(HookContext query) throws InterruptedException {
        long began = System.nanoTime();
        QueryPlan plan = query.getQueryPlan();
        Configuration conf = query.getConf();
        String id = name(plan.getQueryId());
        Warming.Job job = query.isHiveServerQuery() ? Settings.job(Server.SOCKET, id, conf) : Settings.job(id, conf);
        Set<String> tasks = PlanPaths.ofTasks(plan, conf);
        Set<String> paths = tasks.isEmpty() ? PlanPaths.ofFetch(plan, conf) : tasks;
        if (paths.isEmpty()) {
            return null;
        }
        Of.PROCESS.ask(job, plan, began, new Paths(paths)).warm();
        // A server does not end with the query, so that what it has to say will be said.
        Duration left = query.isHiveServerQuery() ? Duration.ZERO
            : job.patience().minusNanos(System.nanoTime() - began);
        return new QueryWarming(job, left.isNegative() ? Duration.ZERO : left, tasks.isEmpty());
    }

    /** With the user in it, who may be called anything. */
    private static String name(String query) {
        return query.replaceAll("[^A-Za-z0-9_.:-]", "_");
    }

    /**
     * Lets go what is kept for it, unless its rows are still to be read, then some minutes later.
     *
     * @param failed nobody will read its rows
     */
    void end(boolean failed) throws InterruptedException {
        if (failed || !fetched) {
            Of.PROCESS.end(job, patience);
        } else {
            Of.PROCESS.leave(job);
        }
    }
}
