package headrace.cluster;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.PrivilegedExceptionAction;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * Reads, writes and names files by many threads, through Hadoop's own client, as often as it is told to, so that nothing
 * that is measured begins with the start of a virtual machine. Reads a {@link FileOrder} a line from standard input, as
 * JSON, and tells as {@link Events}, by its name, how it has ended: "finished" with a report, or "broken" with a reason.
 * Ends with its input.
 */
public final class FileLoad {
  /** How many clients there are for the threads that give names: each has a connection of its own. */
  private static final int CLIENTS = 16;

  private final FileOrder order;
  private final List<FileSystem> clients = new ArrayList<>();

  private FileLoad(FileOrder order) {
    this.order = order;
  }

  public static void main(String[] args) throws Exception {
    new Events(System.out).tell("ready");
    ObjectMapper json = new ObjectMapper();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    String line;
    while ((line = lines.readLine()) != null) {
      FileOrder order = json.readValue(line, FileOrder.class);
      new Thread(() -> carryOut(order), order.name()).start();
    }
    System.exit(0);
  }

  private static void carryOut(FileOrder order) {
    Events events = new Events(System.out, order.name());
    try {
      events.tell("finished", "report", new FileLoad(order).run());
    } catch (Exception | LinkageError e) {
      e.printStackTrace();
      events.tell("broken", "reason", e.toString());
    }
  }

  private Map<String, Object> run() throws Exception {
    try {
      connect(order.kind().equals("names") ? CLIENTS : 1);
      return switch (order.kind()) {
        case "write" -> move(this::write);
        case "read" -> move(this::read);
        case "names" -> new NameLoad(order, clients).run();
        case "load" -> new SteadyLoad(order, clients.get(0)).run();
        case "delete" -> Map.of("bytes", clients.get(0).delete(new Path(order.path()), true) ? 1 : 0);
        default -> throw new IllegalArgumentException(order.kind());
      };
    } finally {
      for (FileSystem fs : clients) {
        fs.close();
      }
    }
  }

  /** Clients of one user share a connection, unless each has logged in for itself. */
  private void connect(int count) throws Exception {
    Configuration conf = new Configuration();
    order.resources().forEach(file -> conf.addResource(new Path(file)));
    order.properties().forEach(conf::set);
    String user = UserGroupInformation.getCurrentUser().getShortUserName();
    for (int i = 0; i < count; i++) {
      clients.add(UserGroupInformation.createRemoteUser(user)
          .doAs((PrivilegedExceptionAction<FileSystem>) () -> FileSystem.newInstance(conf)));
    }
  }

  /** What one thread does with its file. */
  private interface Move {
    void file(Path path) throws IOException;
  }

  private Map<String, Object> move(Move what) throws Exception {
    long began = System.nanoTime();
    together(order.threads(), i -> what.file(new Path(order.path(), "f" + i)));
    return Map.of("took", (System.nanoTime() - began) / 1e9, "bytes", order.threads() * order.bytes());
  }

  private void write(Path path) throws IOException {
    Pieces pieces = new Pieces(path.toUri().getPath());
    try (FSDataOutputStream out = clients.get(0).create(path)) {
      for (long at = 0; at < order.bytes(); at += Pieces.SIZE) {
        out.write(pieces.at(at), 0, (int) Math.min(Pieces.SIZE, order.bytes() - at));
      }
    }
  }

  private void read(Path path) throws IOException {
    Pieces pieces = new Pieces(path.toUri().getPath());
    byte[] piece = new byte[Pieces.SIZE];
    try (FSDataInputStream in = clients.get(0).open(path)) {
      for (long at = 0; at < order.bytes(); at += Pieces.SIZE) {
        int length = (int) Math.min(Pieces.SIZE, order.bytes() - at);
        in.readFully(piece, 0, length);
        pieces.check(piece, length, at);
      }
      if (in.read() >= 0) {
        throw new IOException(path + " has more than the " + order.bytes() + " bytes that were written");
      }
    }
  }

  /** What one of several threads does. */
  interface Work {
    void thread(int number) throws Exception;
  }

  /** Returns when all threads are done; fails as the first of them. */
  static void together(int threads, Work work) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      List<Future<?>> all = new ArrayList<>();
      for (int i = 0; i < threads; i++) {
        int number = i;
        all.add(pool.submit(() -> {
          work.thread(number);
          return null;
        }));
      }
      for (Future<?> f : all) {
        f.get();
      }
    } finally {
      pool.shutdownNow();
    }
  }
}
