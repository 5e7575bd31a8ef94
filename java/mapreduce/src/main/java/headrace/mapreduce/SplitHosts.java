package headrace.mapreduce;

import headrace.client.InputsClient;
import java.io.DataInputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.WritableUtils;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.JobSubmissionFiles;
import org.apache.hadoop.mapreduce.split.JobSplit.SplitMetaInfo;
import org.apache.hadoop.mapreduce.split.JobSplit.TaskSplitMetaInfo;
import org.apache.hadoop.mapreduce.split.SplitMetaInfoReader;

/**
 * Names in the splits of a job that is about to be submitted the machines on which they are in memory, each alone: YARN
 * tries to run a task on any of the machines that its split names, one as good as the other. It falls back on others by
 * itself, after its usual delay.
 */
final class SplitHosts {
    private static final int HEADER = 8; // of the file: META-SPL, then its version, then the number of splits

    /** File systems that replace a file when another one is renamed to it; others remove it first, and may fail before there is another. */
    private static final Set<String> REPLACE = Set.of("hdfs", "file");

    private SplitHosts() { }

    /**
     * Writes the file with the splits' machines again, if that changes any.
     *
     * @param parts that the splits have of files
     * @param places of the blocks of files
     * @return how many splits name another machine than before
     */
    static int name(JobID job, Path dir, Configuration conf, List<List<SplitFiles.Part>> parts,
        Map<String, List<InputsClient.Place>> places) throws IOException {
        FileSystem fs = dir.getFileSystem(conf);
        TaskSplitMetaInfo[] splits = SplitMetaInfoReader.readSplitMetaInfo(job, fs, conf, dir);
        String[][] hosts = new String[splits.length][];
        int changed = 0;
        for (int i = 0; i < splits.length; i++) {
            hosts[i] = splits[i].getLocations();
            String host = host(parts.get(i), places);
            if (host != null && !Arrays.equals(hosts[i], new String[] {host})) {
                hosts[i] = new String[] {host};
                changed++;
            }
        }
        if (changed > 0) {
            write(fs, JobSubmissionFiles.getJobSplitMetaFile(dir), splits, hosts, conf);
        }
        return changed;
    }

    /** Returns the machine that has at least half of a split; null: there is none. */
    static String host(List<SplitFiles.Part> split, Map<String, List<InputsClient.Place>> places) {
        Map<String, Long> bytes = new TreeMap<>();
        long all = 0;
        for (SplitFiles.Part part : split) {
            all += part.length();
            long at = 0;
            for (InputsClient.Place block : places.getOrDefault(part.file(), List.of())) {
                long from = Math.max(at, part.start());
                at += block.bytes();
                long length = Math.min(at, part.start() + part.length()) - from;
                if (length > 0 && !block.host().isEmpty()) {
                    bytes.merge(block.host(), length, Long::sum);
                }
            }
        }
        for (Map.Entry<String, Long> host : bytes.entrySet()) {
            if (2 * host.getValue() >= all) {
                return host.getKey();
            }
        }
        return null;
    }

    /** The file is replaced as a whole, so that whatever happens a job finds one. */
    private static void write(FileSystem fs, Path file, TaskSplitMetaInfo[] splits, String[][] hosts, Configuration conf)
        throws IOException {
        byte[] header = new byte[HEADER];
        int version;
        try (DataInputStream in = fs.open(file)) {
            in.readFully(header);
            version = WritableUtils.readVInt(in);
        }
        FileStatus old = fs.getFileStatus(file);
        String scheme = fs.resolvePath(file).toUri().getScheme(); // of viewfs what it stands for
        if (!REPLACE.contains(scheme)) {
            throw new IOException("on " + scheme + " a file is not replaced as a whole: have the staging directory in HDFS");
        }
        Path next = new Path(file.getParent(), file.getName() + ".headrace");
        try (FSDataOutputStream out = fs.create(next, true, conf.getInt("io.file.buffer.size", 4096), old.getReplication(),
            fs.getDefaultBlockSize(next))) {
            out.write(header);
            WritableUtils.writeVInt(out, version);
            WritableUtils.writeVInt(out, splits.length);
            for (int i = 0; i < splits.length; i++) {
                new SplitMetaInfo(hosts[i], splits[i].getStartOffset(), splits[i].getInputDataLength()).write(out);
            }
        }
        fs.setPermission(next, old.getPermission());
        FileContext.getFileContext(fs.getUri(), conf).rename(next, file, Options.Rename.OVERWRITE);
    }
}
