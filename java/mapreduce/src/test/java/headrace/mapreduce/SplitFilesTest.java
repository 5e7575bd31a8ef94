package headrace.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import headrace.client.InputsClient;
import java.io.DataInput;
import java.io.DataOutput;
import java.io.EOFException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.reflect.Constructor;
import java.nio.file.Files;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.lib.input.CombineFileSplit;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;
import org.apache.hadoop.mapreduce.split.JobSplitWriter;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** With splits as Hadoop's job submitter writes them. */
class SplitFilesTest {
    private static final JobID JOB = new JobID("1", 1);
    private static final String[] NOWHERE = {};

    @TempDir
    java.nio.file.Path temporary;
    private final Configuration conf = new Configuration();
    private Path dir;

    @BeforeEach
    void setUp() {
        dir = new Path(temporary.toUri());
        conf.set("fs.defaultFS", "hdfs://c");
    }

    private List<String> files() throws IOException {
        return List.copyOf(SplitFiles.of(SplitFiles.parts(JOB, dir, conf)));
    }

    private FileSystem local() throws IOException {
        return dir.getFileSystem(conf);
    }

    private List<String> files(InputSplit... splits) throws Exception {
        JobSplitWriter.createSplitFiles(dir, conf, local(), splits);
        return files();
    }

    private static FileSplit split(String path, long offset) {
        return new FileSplit(new Path(path), offset, 10, NOWHERE);
    }

    @Test
    void readsEachFileOnce() throws Exception {
        assertEquals(List.of("hdfs://c/a", "hdfs://d:8020/b c"), files(split("hdfs://c/a", 0),
            split("hdfs://d:8020/b c", 0), split("hdfs://c/a", 10), split("/a", 20)));
    }

    @Test
    void readsWhatIsCombined() throws Exception {
        CombineFileSplit split = new CombineFileSplit(new Path[] {new Path("hdfs://c/a"), new Path("hdfs://c/b")},
            new long[] {0, 0}, new long[] {1, 1}, NOWHERE);
        assertEquals(List.of("hdfs://c/a", "hdfs://c/b"), files(split));
    }

    @Test
    void readsWhatMultipleInputsHaveTagged() throws Exception {
        // As DelegatingInputFormat makes it; the class is not public.
        Constructor<?> tagged = Class.forName("org.apache.hadoop.mapreduce.lib.input.TaggedInputSplit")
            .getDeclaredConstructor(InputSplit.class, Configuration.class, Class.class, Class.class);
        tagged.setAccessible(true);
        Class<? extends InputFormat<?, ?>> format = TextInputFormat.class;
        assertEquals(List.of("hdfs://c/a"),
            files((InputSplit) tagged.newInstance(split("hdfs://c/a", 0), conf, format, Mapper.class)));
    }

    @Test
    void readsThoseOfTheOldInterface() throws Exception {
        org.apache.hadoop.mapred.InputSplit[] splits =
            {new org.apache.hadoop.mapred.FileSplit(new Path("hdfs://c/old"), 0, 10, NOWHERE)};
        JobSplitWriter.createSplitFiles(dir, new org.apache.hadoop.mapred.JobConf(conf), local(), splits);
        assertEquals(List.of("hdfs://c/old"), files());
    }

    /** A split of no file, such as that of a database. */
    public static final class Rows extends InputSplit implements Writable {
        @Override
        public long getLength() {
            return 1;
        }

        @Override
        public String[] getLocations() {
            return NOWHERE;
        }

        @Override
        public void write(DataOutput out) { }

        @Override
        public void readFields(DataInput in) { }
    }

    @Test
    void leavesOutWhatIsNotInHdfs() throws Exception {
        assertEquals(List.of("hdfs://c/a"), files(new Rows(), split("file:///tmp/x", 0), split("hdfs://c/a", 0)));
    }

    @Test
    void tellsWhereThoseAreReadThatNameOneHost() throws Exception {
        CombineFileSplit combined = new CombineFileSplit(new Path[] {new Path("/a"), new Path("/b")}, new long[] {0, 7},
            new long[] {5, 6}, new String[] {"h1"});
        CombineFileSplit rack = new CombineFileSplit(new Path[] {new Path("/a")}, new long[] {5}, new long[] {1}, new String[] {"h1", "h2"});
        assertEquals(List.of("hdfs://c/a", "hdfs://c/b"), files(combined, rack, split("/b", 0)));
        assertEquals(List.of(new InputsClient.Reader("hdfs://c/a", 0, 5, "h1"), new InputsClient.Reader("hdfs://c/b", 7, 6, "h1")),
            SplitFiles.readers(SplitFiles.parts(JOB, dir, conf)));
    }

    @Test
    void stopsWhereThereAreTooMany() throws Exception {
        InputSplit[] splits = {split("/a", 0), split("/b", 0), split("/c", 0), split("/d", 0)};
        JobSplitWriter.createSplitFiles(dir, conf, local(), splits);
        assertEquals(4, SplitFiles.parts(JOB, dir, conf, 4).size());
        try (RandomAccessFile file = new RandomAccessFile(temporary.resolve("job.split").toFile(), "rw")) {
            file.setLength(file.length() - 20); // so that it fails when the last one is read
        }
        Files.delete(temporary.resolve(".job.split.crc"));
        assertThrows(EOFException.class, () -> SplitFiles.parts(JOB, dir, conf, 3));
        assertThrows(SplitFiles.TooManyException.class, () -> SplitFiles.parts(JOB, dir, conf, 2));
    }

    @Test
    void failsWithoutSplits() {
        assertThrows(IOException.class, this::files);
    }
}
