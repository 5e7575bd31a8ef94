package headrace.spark;

import headrace.client.InputsClient;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.Dependency;
import org.apache.spark.NarrowDependency;
import org.apache.spark.Partition;
import org.apache.spark.rdd.RDD;
import org.apache.spark.scheduler.ActiveJob;
import org.apache.spark.scheduler.ResultStage;
import org.apache.spark.scheduler.Stage;

/**
 * Walks from the partitions that a job computes to those that it reads from files: through narrow dependencies to the
 * partitions that these need, through others to all. So a job that takes a few lines of a large file, as {@code take}
 * does, is not taken for one that reads the file.
 */
final class JobFiles {
    private final Map<Path, FileVersion> files = new LinkedHashMap<>();
    private final Map<Integer, Set<Path>> unknown = new HashMap<>();
    /** By RDD, the partitions that were seen. */
    private final Map<Integer, BitSet> seen = new HashMap<>();

    private JobFiles() { }

    /** Finds the files of HDFS that a job reads. */
    static JobFiles of(ActiveJob job) {
        JobFiles found = new JobFiles();
        Stage last = job.finalStage();
        BitSet wanted = new BitSet();
        if (last instanceof ResultStage) {
            for (int partition : ((ResultStage) last).partitions()) {
                wanted.set(partition);
            }
        } else {
            wanted.set(0, last.rdd().partitions().length);
        }
        found.walk(last.rdd(), wanted);
        return found;
    }

    /** The files. */
    Map<Path, FileVersion> files() {
        return files;
    }

    /** Those of which the version is not known, by RDD, which finds its files once. */
    Map<Integer, Set<Path>> unknown() {
        return unknown;
    }

    private void walk(RDD<?> rdd, BitSet wanted) {
        BitSet fresh = (BitSet) wanted.clone();
        BitSet before = seen.computeIfAbsent(rdd.id(), id -> new BitSet());
        fresh.andNot(before);
        if (fresh.isEmpty()) {
            return;
        }
        before.or(fresh);
        if (rdd.dependencies().isEmpty()) {
            Partition[] partitions = rdd.partitions();
            fresh.stream().forEach(i -> InputRanges.of(partitions[i], (file, start, length, version) -> add(rdd.id(), file, version)));
        }
        scala.collection.Iterator<? extends Dependency<?>> dependencies = rdd.dependencies().iterator();
        while (dependencies.hasNext()) {
            Dependency<?> dependency = dependencies.next();
            walk(dependency.rdd(), parents(dependency, fresh));
        }
    }

    private static BitSet parents(Dependency<?> dependency, BitSet children) {
        BitSet parents = new BitSet();
        if (dependency instanceof NarrowDependency) {
            children.stream().forEach(child -> {
                scala.collection.Iterator<?> of = ((NarrowDependency<?>) dependency).getParents(child).iterator();
                while (of.hasNext()) {
                    parents.set((Integer) of.next());
                }
            });
        } else {
            parents.set(0, dependency.rdd().partitions().length);
        }
        return parents;
    }

    private void add(int rdd, Path file, FileVersion version) {
        if (InputsClient.name(file.toUri()).isEmpty()) {
            return;
        }
        files.put(file, version);
        if (version.equals(FileVersion.UNKNOWN)) {
            unknown.computeIfAbsent(rdd, id -> new HashSet<>()).add(file);
        }
    }
}
