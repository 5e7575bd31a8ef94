package headrace.mapreduce;

import headrace.client.InputsClient;
import java.io.IOException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.serializer.Deserializer;
import org.apache.hadoop.io.serializer.SerializationFactory;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.JobSubmissionFiles;
import org.apache.hadoop.mapreduce.lib.input.CombineFileSplit;
import org.apache.hadoop.mapreduce.split.JobSplit.TaskSplitMetaInfo;
import org.apache.hadoop.mapreduce.split.SplitMetaInfoReader;

/**
 * Reads which files a job reads from its splits, as its tasks do (MapTask): that holds for every input format, and for
 * what a job has chosen of the files in its directories.
 */
final class SplitFiles {
    private final Configuration conf;
    /** How many more parts may be found. */
    private int left;
    private List<Part> parts;
    private String host;

    private SplitFiles(Configuration conf, int most) {
        this.conf = conf;
        this.left = most;
    }

    /**
     * What a split has of a file.
     *
     * @param file as requests name it
     * @param host the only one that the split names; null: it names several, or none
     */
    record Part(String file, long start, long length, String host) {
        /** The file as file systems name it. */
        Path path() {
            return new Path(file.replaceAll("\\\\(.)", "$1"));
        }
    }

    /** Returns the files of splits, as requests name them, in the order of the splits: those of the largest first. */
    static Set<String> of(List<List<Part>> splits) {
        Set<String> files = new LinkedHashSet<>();
        for (List<Part> split : splits) {
            split.forEach(part -> files.add(part.file));
        }
        return files;
    }

    /**
     * Returns where splits will be read that name one host: also those do of which each block has several replicas, if
     * they combine blocks (CombineFileInputFormat).
     */
    static List<InputsClient.Reader> readers(List<List<Part>> splits) {
        return splits.stream().flatMap(List::stream).filter(part -> part.host != null && part.length > 0)
            .map(part -> new InputsClient.Reader(part.file, part.start, part.length, part.host)).toList();
    }

    /** There are more parts than are wanted. */
    static final class TooManyException extends IOException {
        private static final long serialVersionUID = 1;

        TooManyException(String text) {
            super(text);
        }
    }

    /** Returns what each split has of files of HDFS, in the order of the splits. */
    static List<List<Part>> parts(JobID job, Path dir, Configuration conf) throws IOException {
        return parts(job, dir, conf, Integer.MAX_VALUE);
    }

    /** Returns the same if it is no more than most parts, and throws TooManyException otherwise, without having read the rest. */
    static List<List<Part>> parts(JobID job, Path dir, Configuration conf, int most) throws IOException {
        FileSystem fs = dir.getFileSystem(conf);
        SplitFiles found = new SplitFiles(conf, most);
        List<List<Part>> splits = new ArrayList<>();
        try (FSDataInputStream in = fs.open(JobSubmissionFiles.getJobSplitFile(dir))) {
            for (TaskSplitMetaInfo split : SplitMetaInfoReader.readSplitMetaInfo(job, fs, conf, dir)) {
                in.seek(split.getStartOffset());
                found.parts = new ArrayList<>();
                String[] hosts = split.getLocations();
                found.host = hosts != null && hosts.length == 1 ? hosts[0] : null;
                found.add(found.read(in, Text.readString(in)));
                splits.add(found.parts);
                found.left -= found.parts.size();
                if (found.left < 0) {
                    throw new TooManyException("the splits of " + job + " have more than " + most + " parts of files");
                }
            }
        } catch (ReflectiveOperationException e) {
            throw new IOException("a split cannot be read: " + e, e);
        }
        return splits;
    }

    @SuppressWarnings("unchecked")
    private Object read(FSDataInputStream in, String type) throws IOException, ClassNotFoundException {
        Deserializer<Object> reader =
            new SerializationFactory(conf).getDeserializer((Class<Object>) conf.getClassByName(type));
        reader.open(in);
        return reader.deserialize(null);
    }

    private void add(Object split) throws ReflectiveOperationException {
        if (split instanceof org.apache.hadoop.mapred.FileSplit) {
            org.apache.hadoop.mapred.FileSplit file = (org.apache.hadoop.mapred.FileSplit) split;
            add(file.getPath(), file.getStart(), file.getLength());
        } else if (split instanceof org.apache.hadoop.mapreduce.lib.input.FileSplit) {
            org.apache.hadoop.mapreduce.lib.input.FileSplit file = (org.apache.hadoop.mapreduce.lib.input.FileSplit) split;
            add(file.getPath(), file.getStart(), file.getLength());
        } else if (split instanceof CombineFileSplit) {
            CombineFileSplit files = (CombineFileSplit) split;
            for (int i = 0; i < files.getNumPaths(); i++) {
                add(files.getPath(i), files.getOffset(i), files.getLength(i));
            }
        } else if (split.getClass().getSimpleName().equals("TaggedInputSplit")) { // of MultipleInputs; not public
            Method inner = split.getClass().getMethod("getInputSplit");
            inner.setAccessible(true);
            add(inner.invoke(split));
        }
    }

    private void add(Path path, long start, long length) {
        Path whole = path.makeQualified(FileSystem.getDefaultUri(conf), new Path("/"));
        InputsClient.name(whole.toUri()).ifPresent(file -> parts.add(new Part(file, start, length, host)));
    }
}
