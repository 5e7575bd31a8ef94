package headrace.hive;

import headrace.client.InputsClient;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.QueryPlan;
import org.apache.hadoop.hive.ql.exec.FilterOperator;
import org.apache.hadoop.hive.ql.exec.LimitOperator;
import org.apache.hadoop.hive.ql.exec.Operator;
import org.apache.hadoop.hive.ql.exec.SelectOperator;
import org.apache.hadoop.hive.ql.exec.TableScanOperator;
import org.apache.hadoop.hive.ql.exec.Task;
import org.apache.hadoop.hive.ql.plan.FetchWork;
import org.apache.hadoop.hive.ql.plan.MapWork;
import org.apache.hadoop.hive.ql.plan.MapredLocalWork;
import org.apache.hadoop.hive.ql.plan.MapredWork;
import org.apache.hadoop.hive.ql.plan.MergeJoinWork;
import org.apache.hadoop.hive.ql.plan.TezWork;

/**
 * Finds what a query reads in its physical plan: the directories of tables and of the partitions that its conditions do
 * not rule out, and files where it reads only these. Left out is what is only known when the query runs: partitions that
 * depend on another table (dynamic pruning), how much a limit reads, and what is read by storage handlers, such as the
 * files of Iceberg. What the query writes and reads again itself belongs to no table.
 */
final class PlanPaths {
    /** Of more paths some are asked for: until then they are in memory. */
    private static final int MOST_PATHS = 100_000;

    private final Configuration conf;
    private final int most;
    private final Set<String> paths = new LinkedHashSet<>();
    private final Set<Task<?>> seen = Collections.newSetFromMap(new IdentityHashMap<>());

    private PlanPaths(Configuration conf, int most) {
        this.conf = conf;
        this.most = most;
    }

    /** Returns the paths in HDFS that its tasks read, as requests name them; nothing is listed. */
    static Set<String> ofTasks(QueryPlan plan, Configuration conf) {
        return ofTasks(plan, conf, MOST_PATHS);
    }

    static Set<String> ofTasks(QueryPlan plan, Configuration conf, int most) {
        PlanPaths found = new PlanPaths(conf, most);
        found.walk(plan.getRootTasks());
        return found.paths;
    }

    /** Returns those that Hive itself reads when the query has ended, where its rows are those of a table. */
    static Set<String> ofFetch(QueryPlan plan, Configuration conf) {
        PlanPaths found = new PlanPaths(conf, MOST_PATHS);
        if (plan.getFetchTask() != null && plan.getFetchTask().getWork() != null) {
            FetchWork work = plan.getFetchTask().getWork();
            found.add(work, work.getSource());
        }
        return found.paths;
    }

    private void walk(List<? extends Task<?>> tasks) {
        if (tasks == null) {
            return;
        }
        for (Task<?> task : tasks) {
            if (seen.add(task)) {
                add(task.getWork());
                walk(task.getDependentTasks()); // also those of which only some will run
            }
        }
    }

    private void add(Object work) {
        if (work instanceof MapredWork) {
            add(((MapredWork) work).getMapWork());
        } else if (work instanceof TezWork) {
            ((TezWork) work).getAllWork().forEach(this::add);
        } else if (work instanceof MergeJoinWork) {
            ((MergeJoinWork) work).getBaseWorkList().forEach(this::add);
        } else if (work instanceof MapWork) {
            add((MapWork) work);
        } else if (work instanceof MapredLocalWork) { // small tables of joins in mappers
            MapredLocalWork local = (MapredLocalWork) work;
            local.getAliasToFetchWork().forEach((alias, fetch) -> add(fetch, local.getAliasToWork().get(alias)));
        }
    }

    private void add(MapWork work) {
        add(work.getMapRedLocalWork());
        if (!work.getEventSourceTableDescMap().isEmpty()) { // dynamic pruning
            return;
        }
        for (Map.Entry<Path, ? extends List<String>> each : work.getPathToAliases().entrySet()) {
            if (each.getValue().stream().anyMatch(alias -> readsTable(work.getAliasToWork().get(alias)))) {
                add(each.getKey());
            }
        }
    }

    private void add(FetchWork work, Operator<?> source) {
        if (work.getLimit() >= 0 || !readsTable(source)) {
            return;
        }
        if (work.isNotPartitioned()) {
            add(work.getTblDir());
        } else if (work.getPartDir() != null) {
            work.getPartDir().forEach(this::add);
        }
    }

    private static boolean readsTable(Operator<?> source) {
        if (!(source instanceof TableScanOperator)) {
            return false;
        }
        TableScanOperator scan = (TableScanOperator) source;
        return scan.getConf().getTableMetadata() != null && !scan.getConf().getTableMetadata().isNonNative()
            && scan.getConf().getRowLimit() < 0 && !limited(scan);
    }

    /** Whether it may not be read to its end. */
    private static boolean limited(Operator<?> operator) {
        List<? extends Operator<?>> children = operator.getChildOperators();
        boolean passes = operator instanceof TableScanOperator || operator instanceof SelectOperator
            || operator instanceof FilterOperator;
        return operator instanceof LimitOperator
            || passes && children != null && !children.isEmpty() && children.stream().allMatch(PlanPaths::limited);
    }

    private void add(Path path) {
        if (paths.size() >= most) {
            return;
        }
        Path whole = path.makeQualified(FileSystem.getDefaultUri(conf), new Path("/"));
        InputsClient.name(whole.toUri()).ifPresent(paths::add);
    }
}
