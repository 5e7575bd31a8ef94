package headrace.client;

import java.io.IOException;
import java.net.URI;
import java.util.Arrays;
import java.util.function.Consumer;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** For tests: local files as hdfs://c/.... */
public class ClaimedFiles extends RawLocalFileSystem {
    /** What comes before a file is read, of which it is told the path. */
    public static volatile Consumer<String> opening = path -> { };

    @Override
    public FSDataInputStream open(Path path, int buffer) throws IOException {
        opening.accept(path.toUri().getPath());
        return super.open(path, buffer);
    }

    @Override
    public URI getUri() {
        return URI.create("hdfs://c");
    }

    @Override
    public String getScheme() {
        return "hdfs";
    }

    @Override
    protected void checkPath(Path path) { }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        return claim(super.getFileStatus(path));
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        return Arrays.stream(super.listStatus(path)).map(ClaimedFiles::claim).sorted().toArray(FileStatus[]::new);
    }

    private static FileStatus claim(FileStatus s) {
        return new FileStatus(s.getLen(), s.isDirectory(), 1, 1 << 20, s.getModificationTime(),
            new Path("hdfs://c" + s.getPath().toUri().getPath()));
    }
}
