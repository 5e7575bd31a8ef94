package headrace.cluster;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Makes, asks for, renames and deletes names by many threads, one kind of operation after the other. */
final class NameLoad {
  private final FileOrder order;
  private final List<FileSystem> clients;

  NameLoad(FileOrder order, List<FileSystem> clients) {
    this.order = order;
    this.clients = clients;
  }

  /** One operation on the names in a directory; false: it has not done what it was to do. */
  private interface Operation {
    boolean on(FileSystem fs, Path directory) throws IOException;
  }

  Map<String, Object> run() throws Exception {
    List<Map<String, Object>> phases = new ArrayList<>();
    phases.add(phase("mkdir", (fs, dir) -> fs.mkdirs(dir)));
    phases.add(phase("create", (fs, dir) -> {
      fs.create(new Path(dir, "a"), false).close();
      return true;
    }));
    phases.add(phase("stat", (fs, dir) -> fs.getFileStatus(new Path(dir, "a")).isFile()));
    phases.add(phase("open", (fs, dir) -> {
      fs.open(new Path(dir, "a")).close();
      return true;
    }));
    phases.add(phase("list", (fs, dir) -> {
      FileStatus[] all = fs.listStatus(dir);
      return all.length == 1 && all[0].getPath().getName().equals("a");
    }));
    phases.add(phase("rename", (fs, dir) -> fs.rename(new Path(dir, "a"), new Path(dir, "b"))));
    phases.add(phase("delete", (fs, dir) -> fs.delete(new Path(dir, "b"), false)));
    int left = clients.get(0).listStatus(new Path(order.path(), "t0/d0")).length;
    if (left != 0) {
      throw new IOException("there are still " + left + " names");
    }
    return Map.of("phases", phases);
  }

  private Map<String, Object> phase(String what, Operation operation) throws Exception {
    long[] took = new long[order.threads() * order.count()];
    long began = System.nanoTime();
    FileLoad.together(order.threads(), t -> {
      FileSystem fs = clients.get(t % clients.size());
      for (int i = 0; i < order.count(); i++) {
        Path dir = new Path(order.path(), "t" + t + "/d" + i);
        long start = System.nanoTime();
        if (!operation.on(fs, dir)) {
          throw new IOException(what + " of " + dir + " has not worked");
        }
        took[t * order.count() + i] = System.nanoTime() - start;
      }
    });
    double seconds = (System.nanoTime() - began) / 1e9;
    Arrays.sort(took);
    return Map.of("what", what, "count", took.length, "took", seconds, "half", took[took.length / 2] / 1e9,
        "most", took[(int) (took.length * 0.99)] / 1e9, "max", took[took.length - 1] / 1e9);
  }
}
