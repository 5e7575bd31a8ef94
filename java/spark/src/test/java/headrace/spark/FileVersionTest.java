package headrace.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import headrace.client.ClaimedFiles;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** With local files that claim to be in HDFS. */
class FileVersionTest {
    @TempDir
    java.nio.file.Path dir;

    private Path write(String name, int length) throws IOException {
        java.nio.file.Path file = dir.resolve(name);
        Files.createDirectories(file.getParent());
        Files.write(file, new byte[length]);
        return new Path("hdfs://c" + file);
    }

    @Test
    void asksForSeveralFilesOfADirectoryByItsList() throws IOException {
        Configuration conf = new Configuration(false);
        conf.set("fs.hdfs.impl", ClaimedFiles.class.getName());
        conf.set("fs.hdfs.impl.disable.cache", "true");
        List<Path> files = new ArrayList<>(List.of(write("few/a", 100), new Path("hdfs://c" + dir + "/none/b")));
        Map<Path, Long> want = new HashMap<>(Map.of(files.get(0), 100L));
        for (int i = 0; i < 20; i++) {
            Path file = write("many/" + i, i);
            if (i % 2 == 0) {
                files.add(file);
                want.put(file, (long) i);
            }
        }
        Map<Path, Long> got = new HashMap<>();
        FileVersion.of(files, conf).forEach((file, version) -> got.put(file, version.length()));
        assertEquals(want, got);
        Map<Path, FileVersion> before = FileVersion.of(files, conf);
        assertEquals(before, FileVersion.of(files, conf));
        write("many/2", 3);
        assertNotEquals(before, FileVersion.of(files, conf));
    }
}
