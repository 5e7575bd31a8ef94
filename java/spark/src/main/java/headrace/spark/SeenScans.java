package headrace.spark;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.execution.datasources.FileIndex;

/**
 * Which scans of a query were seen: it is planned again with each of its stages, and both kinds of rules see it. What it
 * reads would else be listed each time. Safe for use by several threads.
 */
final class SeenScans {
    /** What is forgotten is listed again. */
    private static final int MOST_QUERIES = 1000;

    /** Of the files nothing is kept, nor of the conditions, which may have whole plans. */
    private record Seen(WeakReference<FileIndex> index, int conditions) { }

    private final Map<String, List<Seen>> queries = new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, List<Seen>> eldest) {
            return size() > MOST_QUERIES;
        }
    };

    /** Returns those of the scans of a query that were not seen before. */
    synchronized List<PlanFiles.Scan> first(String query, List<PlanFiles.Scan> scans) {
        List<PlanFiles.Scan> fresh = new ArrayList<>();
        for (PlanFiles.Scan scan : scans) {
            List<Seen> seen = queries.computeIfAbsent(query, q -> new ArrayList<>());
            if (seen.stream().noneMatch(one -> one.index.refersTo(scan.index()) && one.conditions == scan.conditions())) {
                seen.add(new Seen(new WeakReference<>(scan.index()), scan.conditions()));
                fresh.add(scan);
            }
        }
        return fresh;
    }
}
