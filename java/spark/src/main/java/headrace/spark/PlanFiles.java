package headrace.spark;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.apache.hadoop.fs.Path;
import org.apache.spark.Partition;
import org.apache.spark.sql.catalyst.expressions.DynamicPruning;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.LimitExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.FileScan;
import org.apache.spark.sql.execution.exchange.Exchange;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Finds what a query reads from files in its physical plan: sources of both versions, without the partitions that its
 * own conditions rule out. Left out is what is only known when the query runs: partitions that depend on another table
 * (dynamic pruning) or on a query of its own, and how much a limit reads. The jobs of the query tell these ({@link JobFiles}).
 */
final class PlanFiles {
    /** A scan of files under conditions. They are listed once, whoever asks for them. */
    static final class Scan {
        private final FileIndex index;
        private final Seq<Expression> partitions;
        private final Seq<Expression> data;
        private final FutureTask<Map<Path, FileVersion>> files = new FutureTask<>(this::list);

        Scan(FileIndex index, Seq<Expression> partitions, Seq<Expression> data) {
            this.index = index;
            this.partitions = partitions;
            this.data = data;
        }

        FileIndex index() {
            return index;
        }

        /** Tells scans of the same files apart. */
        int conditions() {
            return 31 * partitions.hashCode() + data.hashCode();
        }

        private Map<Path, FileVersion> list() {
            Map<Path, FileVersion> all = new LinkedHashMap<>();
            for (PartitionDirectory directory : CollectionConverters.asJava(index.listFiles(partitions, data))) {
                for (FileStatusWithMetadata file : CollectionConverters.asJava(directory.files())) {
                    all.put(file.getPath(), new FileVersion(file.getLen(), file.getModificationTime()));
                }
            }
            return all;
        }

        /** Whoever comes first lists them, others wait for that. */
        private Map<Path, FileVersion> files() throws ExecutionException, InterruptedException {
            files.run();
            return files.get();
        }
    }

    private PlanFiles() { }

    /** Returns the scans below; nothing is listed yet. */
    static List<Scan> scans(SparkPlan plan) {
        List<Scan> scans = new ArrayList<>();
        walk(plan, false, scans);
        return scans;
    }

    /** @param limited whether it may not be read to its end */
    private static void walk(SparkPlan plan, boolean limited, List<Scan> scans) {
        boolean below = plan instanceof LimitExec
            || limited && !(plan instanceof Exchange || plan instanceof SortExec || plan instanceof BaseAggregateExec);
        Scan scan = scan(plan);
        if (scan != null && !below && !dynamic(scan.partitions)) {
            scans.add(scan);
        }
        CollectionConverters.asJava(plan.children()).forEach(child -> walk(child, below, scans));
    }

    private static Scan scan(SparkPlan plan) {
        if (plan instanceof FileSourceScanExec) {
            FileSourceScanExec scan = (FileSourceScanExec) plan;
            return new Scan(scan.relation().location(), scan.partitionFilters(), scan.dataFilters());
        }
        if (plan instanceof BatchScanExec && ((BatchScanExec) plan).scan() instanceof FileScan) {
            FileScan scan = (FileScan) ((BatchScanExec) plan).scan();
            return new Scan(scan.fileIndex(), scan.partitionFilters(), scan.dataFilters());
        }
        return null;
    }

    private static boolean dynamic(Seq<Expression> conditions) {
        return CollectionConverters.asJava(conditions).stream().anyMatch(PlanFiles::dynamic);
    }

    private static boolean dynamic(Expression condition) {
        return condition instanceof DynamicPruning || condition instanceof PlanExpression
            || CollectionConverters.asJava(condition.children()).stream().anyMatch(PlanFiles::dynamic);
    }

    /** Returns their files. */
    static Map<Path, FileVersion> of(List<Scan> scans) throws ExecutionException, InterruptedException {
        Map<Path, FileVersion> files = new LinkedHashMap<>();
        for (Scan scan : scans) {
            files.putAll(scan.files());
        }
        return files;
    }

    /** Finds the parts of files of a partition of an RDD of a query. */
    static void of(Object partition, InputRanges.Taker ranges) {
        if (partition instanceof FilePartition) {
            for (PartitionedFile file : ((FilePartition) partition).files()) {
                boolean known = file.modificationTime() > 0; // else whoever has made the partition has not said
                ranges.take(file.toPath(), file.start(), file.length(),
                    known ? new FileVersion(file.fileSize(), file.modificationTime()) : FileVersion.UNKNOWN);
            }
        } else if (partition instanceof Partition && partition.getClass().getSimpleName().equals("DataSourceRDDPartition")) {
            parts(partition).forEach(part -> of(part, ranges));
        }
    }

    /** Spark 3 has several in one, Spark 4 has one or none. */
    private static Iterable<?> parts(Object partition) {
        for (String name : new String[] {"inputPartition", "inputPartitions"}) {
            try {
                Object parts = partition.getClass().getMethod(name).invoke(partition);
                return CollectionConverters.asJava(((scala.collection.IterableOnce<?>) parts).iterator().toList());
            } catch (NoSuchMethodException e) {
                continue;
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }
        return List.of();
    }
}
