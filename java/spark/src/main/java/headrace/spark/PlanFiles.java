package headrace.spark;

import headrace.locality.StageInputs;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.Partition;
import org.apache.spark.sql.catalyst.expressions.DynamicPruning;
import org.apache.spark.sql.catalyst.expressions.Expression;
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
 * (dynamic pruning), and how much a limit reads. The jobs of the query tell these ({@link JobFiles}).
 */
final class PlanFiles {
    /** A scan of files under conditions. */
    private record Scan(FileIndex files, Seq<Expression> partitions, Seq<Expression> data) { }

    private PlanFiles() { }

    /** Returns the scans below; nothing is listed yet. */
    static List<Object> scans(SparkPlan plan) {
        List<Object> scans = new ArrayList<>();
        walk(plan, false, scans);
        return scans;
    }

    /** @param limited whether it may not be read to its end */
    private static void walk(SparkPlan plan, boolean limited, List<Object> scans) {
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
        return condition instanceof DynamicPruning
            || CollectionConverters.asJava(condition.children()).stream().anyMatch(PlanFiles::dynamic);
    }

    /** Returns their files. */
    static Collection<Path> of(List<Object> scans) {
        Set<Path> files = new LinkedHashSet<>();
        for (Object each : scans) {
            Scan scan = (Scan) each;
            for (PartitionDirectory directory : CollectionConverters.asJava(scan.files.listFiles(scan.partitions, scan.data))) {
                for (FileStatusWithMetadata file : CollectionConverters.asJava(directory.files())) {
                    files.add(file.getPath());
                }
            }
        }
        return files;
    }

    /** Finds the parts of files of a partition of an RDD of a query. */
    static void of(Object partition, StageInputs.Taker ranges) {
        if (partition instanceof FilePartition) {
            for (PartitionedFile file : ((FilePartition) partition).files()) {
                ranges.take(file.toPath(), file.start(), file.length());
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
