package headrace.yarn.nm;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** A directory that looks like /proc. */
final class FakeProcfs {
    final Path root;

    FakeProcfs(Path root) {
        this.root = root;
    }

    /**
     * A process with memory in MB (resident, and ten times as much virtual) and processor time in jiffies, which takes
     * the place of one with the same pid.
     */
    void process(int pid, int parent, long megabytes, long jiffies, String... arguments) {
        try {
            Path directory = Files.createDirectories(root.resolve(Integer.toString(pid)));
            String name = arguments.length == 0 ? "none" : arguments[0];
            long pages = (megabytes << 20) / 4096;
            Files.writeString(directory.resolve("stat"), pid + " (" + name + ") S " + parent + " " + pid + " " + pid
                + " 0 -1 4194304 0 0 0 0 " + jiffies + " 0 0 0 20 0 1 0 100 " + (megabytes << 20) * 10 + " " + pages
                + " 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
            Files.writeString(directory.resolve("cmdline"),
                arguments.length == 0 ? "" : String.join("\0", arguments) + "\0");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    void end(int... pids) {
        try {
            for (int pid : pids) {
                Path directory = root.resolve(Integer.toString(pid));
                Files.delete(directory.resolve("stat"));
                Files.delete(directory.resolve("cmdline"));
                Files.delete(directory);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
