package headrace.yarn.nm;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** What /proc tells of processes. One that has ended is like one that never was. */
final class Procfs {
    private final Path root;

    /** @param root /proc, except in tests */
    Procfs(String root) {
        this.root = Path.of(root);
    }

    /** The arguments of a process, its name the first; empty when there is none. */
    List<String> arguments(String pid) {
        String line = read(pid, "cmdline");
        return line.isEmpty() ? List.of() : List.of(line.split("\0", -1));
    }

    /** Whether the process is there and has this parent. */
    boolean isChild(String pid, String parent) {
        String stat = read(pid, "stat");
        // pid (name) state ppid ...; the name may hold anything.
        String[] fields = stat.substring(stat.lastIndexOf(')') + 1).trim().split(" ");
        return fields.length > 1 && fields[1].equals(parent);
    }

    /**
     * The processes that this one has started and that have not ended, in no order. One may be missing while another one
     * ends.
     */
    List<String> children(String parent) {
        List<String> listed = new ArrayList<>();
        try (DirectoryStream<Path> threads = Files.newDirectoryStream(root.resolve(parent).resolve("task"))) {
            for (Path thread : threads) { // each has those that it has started
                for (String child : Files.readString(thread.resolve("children")).split(" ")) {
                    if (!child.isBlank()) {
                        listed.add(child);
                    }
                }
            }
            return listed;
        } catch (IOException | DirectoryIteratorException e) { // a thread has just ended, or this kernel has no such lists
            return searched(parent);
        }
    }

    private List<String> searched(String parent) {
        List<String> children = new ArrayList<>();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(root, "[1-9]*")) {
            for (Path directory : all) {
                String pid = directory.getFileName().toString();
                if (isChild(pid, parent)) {
                    children.add(pid);
                }
            }
        } catch (IOException | DirectoryIteratorException e) {
            return List.of();
        }
        return children;
    }

    private String read(String pid, String file) {
        try {
            return new String(Files.readAllBytes(root.resolve(pid).resolve(file)), StandardCharsets.UTF_8);
        } catch (IOException e) {
            return "";
        }
    }
}
