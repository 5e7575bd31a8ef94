package headrace.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.locality.FirstTask;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.lib.input.CombineFileSplit;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.split.JobSplitWriter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MapInputsTest {
    @TempDir
    java.nio.file.Path dir;

    /** Returns the maps in the order in which a job takes equal ones. */
    private List<Integer> order(int job, long... sizes) throws Exception {
        Configuration conf = new Configuration();
        conf.set("fs.defaultFS", "hdfs://c");
        Path staging = new Path(dir.resolve("job" + job).toUri());
        InputSplit[] splits = new InputSplit[sizes.length];
        for (int i = 0; i < sizes.length; i++) {
            splits[i] = new FileSplit(new Path("hdfs://c/" + i), 0, sizes[i], new String[] {"a"});
        }
        JobSplitWriter.createSplitFiles(staging, conf, FileSystem.getLocal(conf).getRawFileSystem(), splits);
        MapInputs inputs = new MapInputs(new JobID("1", job), staging, conf);
        inputs.files();
        return IntStream.range(0, sizes.length).boxed().sorted(Comparator.comparing(map -> !inputs.early(map))).toList();
    }

    @Test
    void itBeginsInItsOwnPlaceOfTheLargeOnesAndSmallOnesStayLast() throws Exception {
        Random random = new Random(1);
        for (int job = 0; job < 200; job++) {
            int many = 1 + random.nextInt(20);
            long[] sizes = random.longs(many, 1, 100).map(n -> -n).sorted().map(n -> -n).toArray();
            List<Integer> large = new ArrayList<>();
            List<Integer> small = new ArrayList<>();
            IntStream.range(0, many).forEach(map -> (10 * sizes[map] >= 9 * sizes[0] ? large : small).add(map));
            int first = FirstTask.of(job, large.size());
            List<Integer> want = new ArrayList<>(large.subList(first, large.size()));
            want.addAll(large.subList(0, first));
            want.addAll(small);
            assertEquals(want, order(job, sizes), "job " + job);
        }
    }

    /** So a job whose maps differ takes hardly longer than in MapReduce's own order: with these it would take half as long again. */
    @Test
    void thoseOfHalfTheSizeStayBehind() throws Exception {
        long[] sizes = {100, 100, 100, 100, 100, 51, 51, 51, 51, 51, 51, 51, 51, 51, 51};
        for (int job = 0; job < 10; job++) {
            List<Integer> order = order(job, sizes);
            assertEquals(List.of(5, 6, 7, 8, 9, 10, 11, 12, 13, 14), order.subList(5, sizes.length), "job " + job);
        }
    }

    @Test
    void ofTooManyFilesNoneIsKept() throws Exception {
        Configuration conf = new Configuration();
        conf.set("fs.defaultFS", "hdfs://c");
        Path staging = new Path(dir.resolve("many").toUri());
        InputSplit[] splits = new InputSplit[3];
        for (int i = 0; i < splits.length; i++) {
            int at = i * 34_000;
            Path[] files = IntStream.range(at, at + 34_000).mapToObj(n -> new Path("/" + n)).toArray(Path[]::new);
            long[] one = new long[files.length];
            Arrays.fill(one, 1);
            splits[i] = new CombineFileSplit(files, new long[files.length], one, new String[] {"a"});
        }
        JobSplitWriter.createSplitFiles(staging, conf, FileSystem.getLocal(conf).getRawFileSystem(), splits);
        MapInputs inputs = new MapInputs(new JobID("1", 1), staging, conf);
        assertThrows(IOException.class, inputs::files);
        assertTrue(inputs.over(), "it is asked again");
        assertFalse(inputs.early(0));
    }

    @Test
    void oneWithoutMapsHasNoOrder() throws Exception {
        assertEquals(List.of(), order(1));
    }
}
