import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.GlobExpander;
import org.apache.hadoop.fs.GlobPattern;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** Says of each line, whose fields have tabs between them, what Hadoop makes of it. */
class Globs {
  /** That of FileInputFormat. */
  private static final PathFilter SHOWN = p -> !p.getName().startsWith("_") && !p.getName().startsWith(".");

  public static void main(String[] args) throws Exception {
    FileSystem fs = new RawLocalFileSystem();
    fs.initialize(URI.create("file:///"), new Configuration(false));
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    StringBuilder out = new StringBuilder();
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] field = line.split("\t", -1);
      try {
        switch (field[0]) {
          case "matches": // PATTERN NAME
            out.append(new GlobPattern(field[1]).matches(field[2]));
            break;
          case "expand": // PATTERN
            out.append(String.join("\t", GlobExpander.expand(field[1])));
            break;
          case "find": // DIRECTORY PATTERN, for a path below it
            out.append(String.join("\t", find(fs, field[1], field[2])));
            break;
          default:
            throw new AssertionError(line);
        }
      } catch (RuntimeException | IOException e) {
        out.append("error");
      }
      out.append('\n');
    }
    byte[] all = out.toString().getBytes(StandardCharsets.UTF_8);
    System.out.write(all, 0, all.length);
    System.out.flush();
  }

  /** The files that an input format would read, without the directory. */
  private static TreeSet<String> find(FileSystem fs, String dir, String pattern) throws IOException {
    TreeSet<String> found = new TreeSet<>();
    FileStatus[] matches = fs.globStatus(new Path(dir + pattern), SHOWN);
    List<FileStatus> todo = new ArrayList<>(matches == null ? List.of() : List.of(matches));
    while (!todo.isEmpty()) {
      FileStatus s = todo.remove(todo.size() - 1);
      if (s.isDirectory()) {
        todo.addAll(List.of(fs.listStatus(s.getPath(), SHOWN)));
      } else {
        found.add(s.getPath().toUri().getPath().substring(dir.length()));
      }
    }
    return found;
  }
}
