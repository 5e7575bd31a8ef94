package headrace.spark;

import headrace.locality.StageInputs;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.lib.input.CombineFileSplit;
import org.apache.spark.Partition;
import org.apache.spark.rdd.CartesianPartition;
import org.apache.spark.rdd.CoalescedRDDPartition;
import org.apache.spark.rdd.HadoopPartition;
import org.apache.spark.rdd.NewHadoopPartition;
import org.apache.spark.rdd.PartitionPruningRDDPartition;
import org.apache.spark.rdd.PartitionerAwareUnionRDDPartition;
import org.apache.spark.rdd.UnionPartition;
import org.apache.spark.rdd.ZippedPartitionsPartition;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Tells which parts of files a partition is: its own, or those of the partitions that it is made of. Nothing is read
 * or asked for that. Partitions of other kinds, such as those of a shuffle, are none.
 */
final class InputRanges {
    /** Partitions in partitions in ...: more than a query has, less than a stack. */
    private static final int DEEPEST = 100;

    /** Takes parts of files. */
    interface Taker {
        void take(Path file, long start, long length, FileVersion version);
    }

    private final Taker taker;

    private InputRanges(Taker taker) {
        this.taker = taker;
    }

    static void of(Partition partition, StageInputs.Taker taker) {
        of(partition, (file, start, length, version) -> taker.take(file, start, length));
    }

    static void of(Partition partition, Taker taker) {
        new InputRanges(taker).walk(partition, 0);
    }

    private void walk(Partition partition, int depth) {
        if (partition == null || depth > DEEPEST) {
            return;
        }
        if (partition instanceof HadoopPartition) {
            split(((HadoopPartition) partition).inputSplit().value());
        } else if (partition instanceof NewHadoopPartition) {
            split(((NewHadoopPartition) partition).serializableHadoopSplit().value());
        } else if (partition instanceof UnionPartition) {
            walk(((UnionPartition<?>) partition).parentPartition(), depth + 1);
        } else if (partition instanceof CoalescedRDDPartition) {
            walk(((CoalescedRDDPartition) partition).parents(), depth);
        } else if (partition instanceof ZippedPartitionsPartition) {
            walk(((ZippedPartitionsPartition) partition).partitions(), depth);
        } else if (partition instanceof PartitionerAwareUnionRDDPartition) {
            for (Partition parent : ((PartitionerAwareUnionRDDPartition) partition).parents()) {
                walk(parent, depth + 1);
            }
        } else if (partition instanceof PartitionPruningRDDPartition) {
            walk(((PartitionPruningRDDPartition) partition).parentSplit(), depth + 1);
        } else if (partition instanceof CartesianPartition) {
            walk(((CartesianPartition) partition).s1(), depth + 1);
            walk(((CartesianPartition) partition).s2(), depth + 1);
        } else if (partition.getClass().getName().startsWith("org.apache.spark.sql.")) { // which need not be there
            PlanFiles.of(partition, taker);
        }
    }

    private void walk(scala.collection.immutable.Seq<Partition> partitions, int depth) {
        CollectionConverters.asJava(partitions).forEach(each -> walk(each, depth + 1));
    }

    private void split(Object split) {
        if (split instanceof org.apache.hadoop.mapred.FileSplit) {
            org.apache.hadoop.mapred.FileSplit file = (org.apache.hadoop.mapred.FileSplit) split;
            take(file.getPath(), file.getStart(), file.getLength());
        } else if (split instanceof org.apache.hadoop.mapreduce.lib.input.FileSplit) {
            org.apache.hadoop.mapreduce.lib.input.FileSplit file = (org.apache.hadoop.mapreduce.lib.input.FileSplit) split;
            take(file.getPath(), file.getStart(), file.getLength());
        } else if (split instanceof CombineFileSplit) {
            CombineFileSplit files = (CombineFileSplit) split;
            for (int i = 0; i < files.getNumPaths(); i++) {
                take(files.getPath(i), files.getOffset(i), files.getLength(i));
            }
        }
    }

    private void take(Path file, long start, long length) {
        taker.take(file, start, length, FileVersion.UNKNOWN); // splits do not say
    }
}
