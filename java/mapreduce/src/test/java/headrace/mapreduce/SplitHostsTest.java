package headrace.mapreduce;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.InputsClient.Place;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.JobSubmissionFiles;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.split.JobSplit.TaskSplitMetaInfo;
import org.apache.hadoop.mapreduce.split.JobSplitWriter;
import org.apache.hadoop.mapreduce.split.SplitMetaInfoReader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** With splits as Hadoop's job submitter writes them. */
class SplitHostsTest {
    private static final JobID JOB = new JobID("1", 1);
    private static final String A = "hdfs://c/a";
    private static final String B = "hdfs://c/b";

    @TempDir
    java.nio.file.Path temporary;

    private static SplitFiles.Part part(String file, long start, long length) {
        return new SplitFiles.Part(file, start, length, null);
    }

    private static Map<String, List<Place>> places(String file, Place... blocks) {
        return Map.of(file, List.of(blocks));
    }

    private static Place on(String host, long bytes) {
        return new Place(bytes, host);
    }

    @Test
    void findsTheMachineThatHasMost() {
        Map<String, List<Place>> a = places(A, on("x", 100), on("y", 100), on("", 100), on("z", 50));
        assertEquals("x", SplitHosts.host(List.of(part(A, 0, 100)), a));
        assertEquals("y", SplitHosts.host(List.of(part(A, 100, 100)), a));
        assertEquals("y", SplitHosts.host(List.of(part(A, 60, 120)), a));
        assertNull(SplitHosts.host(List.of(part(A, 200, 100)), a));
        assertEquals("z", SplitHosts.host(List.of(part(A, 250, 100)), a));
        assertNull(SplitHosts.host(List.of(part(A, 0, 350)), a));
        assertNull(SplitHosts.host(List.of(part(B, 0, 100)), a));
        assertNull(SplitHosts.host(List.of(), a));
    }

    @Test
    void addsUpWhatIsCombined() {
        Map<String, List<Place>> both = Map.of(A, List.of(on("x", 100), on("y", 100)), B, List.of(on("y", 100)));
        assertEquals("y", SplitHosts.host(List.of(part(A, 0, 200), part(B, 0, 100)), both));
        assertNull(SplitHosts.host(List.of(part(A, 0, 10), part(B, 0, 10), part("hdfs://c/d", 0, 30)), both));
    }

    @Test
    void takesTheFirstOfEqualOnes() {
        assertEquals("x", SplitHosts.host(List.of(part(A, 0, 200)), places(A, on("y", 100), on("x", 100))));
    }

    @Test
    void writesTheMachinesAndNothingElse() throws Exception {
        Configuration conf = new Configuration();
        conf.set("fs.defaultFS", "hdfs://c");
        Path dir = new Path(temporary.toUri());
        FileSystem fs = dir.getFileSystem(conf);
        String[] all = {"x", "y", "z"};
        JobSplitWriter.createSplitFiles(dir, conf, fs, new InputSplit[] {new FileSplit(new Path(A), 0, 100, all),
            new FileSplit(new Path(A), 100, 100, all), new FileSplit(new Path(B), 0, 70, all)});
        TaskSplitMetaInfo[] before = SplitMetaInfoReader.readSplitMetaInfo(JOB, fs, conf, dir);
        Path meta = JobSubmissionFiles.getJobSplitMetaFile(dir);
        fs.setPermission(meta, new FsPermission("640"));

        assertEquals(0, SplitHosts.name(JOB, dir, conf, SplitFiles.parts(JOB, dir, conf), Map.of()));
        assertEquals(1, SplitHosts.name(JOB, dir, conf, SplitFiles.parts(JOB, dir, conf), places(A, on("y", 100), on("", 100))));
        assertEquals(0, SplitHosts.name(JOB, dir, conf, SplitFiles.parts(JOB, dir, conf), places(A, on("y", 100), on("", 100))));
        assertEquals(1, SplitHosts.name(JOB, dir, conf, SplitFiles.parts(JOB, dir, conf), places(A, on("y", 100), on("z", 100))));

        TaskSplitMetaInfo[] after = SplitMetaInfoReader.readSplitMetaInfo(JOB, fs, conf, dir);
        String[][] want = {{"y"}, {"z"}, all};
        for (int i = 0; i < want.length; i++) {
            assertArrayEquals(want[i], after[i].getLocations());
            assertEquals(before[i].getStartOffset(), after[i].getStartOffset());
            assertEquals(before[i].getInputDataLength(), after[i].getInputDataLength());
        }
        assertEquals(List.of(A, B), List.copyOf(SplitFiles.of(SplitFiles.parts(JOB, dir, conf))));
        assertEquals(new FsPermission("640"), fs.getFileStatus(meta).getPermission());
        assertEquals(2, Arrays.stream(temporary.toFile().list()).filter(name -> !name.startsWith(".")).count());
    }

    /** Local files as other://c/.... */
    public static final class Other extends RawLocalFileSystem {
        @Override
        public URI getUri() {
            return URI.create("other://c");
        }

        @Override
        protected void checkPath(Path path) { }

        @Override
        public FileStatus getFileStatus(Path path) throws IOException {
            FileStatus status = super.getFileStatus(path);
            status.setPath(new Path("other://c" + status.getPath().toUri().getPath()));
            return status;
        }
    }

    /** There a rename that fails half way would leave the job without the file. */
    @Test
    void leavesAFileWhereItCannotBeReplacedAsAWhole() throws Exception {
        Configuration conf = new Configuration();
        conf.set("fs.defaultFS", "hdfs://c");
        conf.setClass("fs.other.impl", Other.class, FileSystem.class);
        Path dir = new Path("other://c" + temporary);
        JobSplitWriter.createSplitFiles(dir, conf, dir.getFileSystem(conf),
            new InputSplit[] {new FileSplit(new Path(A), 0, 100, new String[] {"x", "y"})});
        byte[] before = Files.readAllBytes(temporary.resolve("job.splitmetainfo"));
        IOException e = assertThrows(IOException.class,
            () -> SplitHosts.name(JOB, dir, conf, SplitFiles.parts(JOB, dir, conf), places(A, on("y", 100))));
        assertTrue(e.getMessage().contains("other"), e.getMessage());
        assertArrayEquals(before, Files.readAllBytes(temporary.resolve("job.splitmetainfo")));
    }
}
