package headrace.mapreduce;

import headrace.client.InputsClient;
import java.io.IOException;
import java.lang.reflect.Method;
import java.util.LinkedHashSet;
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
    private final Set<String> files = new LinkedHashSet<>();

    private SplitFiles(Configuration conf) {
        this.conf = conf;
    }

    /** Returns the files of HDFS, as requests name them, those of the largest splits first. */
    static Set<String> of(JobID job, Path dir, Configuration conf) throws IOException {
        FileSystem fs = dir.getFileSystem(conf);
        SplitFiles found = new SplitFiles(conf);
        try (FSDataInputStream in = fs.open(JobSubmissionFiles.getJobSplitFile(dir))) {
            for (TaskSplitMetaInfo split : SplitMetaInfoReader.readSplitMetaInfo(job, fs, conf, dir)) {
                in.seek(split.getStartOffset());
                found.add(found.read(in, Text.readString(in)));
            }
        } catch (ReflectiveOperationException e) {
            throw new IOException("a split cannot be read: " + e, e);
        }
        return found.files;
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
            add(((org.apache.hadoop.mapred.FileSplit) split).getPath());
        } else if (split instanceof org.apache.hadoop.mapreduce.lib.input.FileSplit) {
            add(((org.apache.hadoop.mapreduce.lib.input.FileSplit) split).getPath());
        } else if (split instanceof CombineFileSplit) {
            for (Path path : ((CombineFileSplit) split).getPaths()) {
                add(path);
            }
        } else if (split.getClass().getSimpleName().equals("TaggedInputSplit")) { // of MultipleInputs; not public
            Method inner = split.getClass().getMethod("getInputSplit");
            inner.setAccessible(true);
            add(inner.invoke(split));
        }
    }

    private void add(Path path) {
        Path whole = path.makeQualified(FileSystem.getDefaultUri(conf), new Path("/"));
        InputsClient.name(whole.toUri()).ifPresent(files::add);
    }
}
