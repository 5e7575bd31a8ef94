package headrace.spark;

import java.io.IOException;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Tells apart files that have had the same name: one that was written anew, or appended to, has other blocks. */
record FileVersion(long length, long modified) {
    /** It is not known which one it is. */
    static final FileVersion UNKNOWN = new FileVersion(-1, -1);

    /** So many questions about files are more work for a name node than one about their directory. */
    private static final int SEVERAL = 10;
    /** Of a directory at most so many files are looked at for each that is wanted. */
    private static final int PASSED_OVER = 10;
    private static final Logger LOG = LoggerFactory.getLogger(FileVersion.class);

    private static FileVersion of(FileStatus file) {
        return new FileVersion(file.getLen(), file.getModificationTime());
    }

    /** Asks the file system which versions of files there are now. Those that it does not tell are left out. */
    static Map<Path, FileVersion> of(Collection<Path> files, Configuration conf) {
        Map<Path, Map<String, Path>> directories = new HashMap<>();
        files.forEach(file -> directories.computeIfAbsent(file.getParent(), dir -> new HashMap<>()).put(file.getName(), file));
        Map<Path, FileVersion> found = new HashMap<>();
        directories.forEach((directory, wanted) -> {
            try {
                FileSystem fs = directory.getFileSystem(conf);
                if (wanted.size() >= SEVERAL) {
                    list(fs, directory, wanted, found);
                    return;
                }
                for (Path file : wanted.values()) {
                    found.put(file, of(fs.getFileStatus(file)));
                }
            } catch (IOException | RuntimeException e) { // whoever reads them will tell
                LOG.debug("It is not known whether files of {} are as they were", directory, e);
            }
        });
        return found;
    }

    private static void list(FileSystem fs, Path directory, Map<String, Path> wanted, Map<Path, FileVersion> found) throws IOException {
        RemoteIterator<FileStatus> all = fs.listStatusIterator(directory);
        for (int left = PASSED_OVER * wanted.size(); left > 0 && !wanted.isEmpty() && all.hasNext(); left--) {
            FileStatus status = all.next();
            Path file = wanted.remove(status.getPath().getName());
            if (file != null) {
                found.put(file, of(status));
            }
        }
    }
}
