package headrace.cluster;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Reads and writes at a steady pace for some time, and tells which operations took long. Readers read files that are there,
 * again and again; writers have each piece flushed to all copies. All that was written is read at the end.
 */
final class SteadyLoad {
  private static final long TELLING_NANOS = 100_000_000L;

  private final FileOrder order;
  private final FileSystem fs;
  private final long end;
  private final AtomicLong moved = new AtomicLong();
  private final List<Map<String, Object>> held = Collections.synchronizedList(new ArrayList<>());
  private final List<String> errors = Collections.synchronizedList(new ArrayList<>());
  private final List<Path> written = Collections.synchronizedList(new ArrayList<>());

  SteadyLoad(FileOrder order, FileSystem fs) {
    this.order = order;
    this.fs = fs;
    this.end = System.nanoTime() + (long) (order.seconds() * 1e9);
  }

  Map<String, Object> run() throws Exception {
    long began = System.nanoTime();
    FileLoad.together(order.readers() + order.writers(), t -> {
      boolean writes = t >= order.readers();
      Client c = new Client(writes);
      for (int n = 0; System.nanoTime() < end; n++) {
        Path path = writes ? new Path(order.path(), "w" + t + "-" + n) : new Path(order.path(), "f" + t);
        try {
          if (writes) {
            c.write(path);
          } else {
            c.read(path, true);
          }
        } catch (IOException e) {
          e.printStackTrace();
          errors.add((writes ? "write " : "read ") + path + ": " + e);
        }
      }
    });
    double took = (System.nanoTime() - began) / 1e9;
    Client c = new Client(false);
    for (Path path : written) {
      c.read(path, false);
    }
    return Map.of("took", took, "bytes", moved.get(), "held", held, "errors", errors);
  }

  /** One operation that somebody held for. */
  private interface Step<T> {
    T take() throws IOException;
  }

  /** A reader or a writer. */
  private final class Client {
    private final boolean writes;
    private final byte[] piece = new byte[Pieces.SIZE];
    private long next = System.nanoTime();

    Client(boolean writes) {
      this.writes = writes;
    }

    private <T> T step(String what, Step<T> step) throws IOException {
      long at = System.currentTimeMillis();
      long began = System.nanoTime();
      try {
        return step.take();
      } finally {
        long took = System.nanoTime() - began;
        if (took > TELLING_NANOS) {
          held.add(Map.of("writer", writes, "atMs", at, "took", took / 1e9, "what", what));
        }
      }
    }

    /** Waits until the next piece is due. Who was kept waiting does not make up for it. */
    private void pace() throws IOException {
      long now = System.nanoTime();
      next = Math.max(next + order.everyMs() * 1_000_000L, now);
      try {
        Thread.sleep((next - now) / 1_000_000L, (int) ((next - now) % 1_000_000L));
      } catch (InterruptedException e) {
        throw new IOException(e);
      }
    }

    void write(Path path) throws IOException {
      Pieces pieces = new Pieces(path.toUri().getPath());
      FSDataOutputStream out = step("create", () -> fs.create(path));
      try {
        for (long at = 0; at < order.bytes(); at += Pieces.SIZE) {
          long place = at;
          step("write", () -> {
            out.write(pieces.at(place));
            out.hflush();
            return null;
          });
          moved.addAndGet(Pieces.SIZE);
          pace();
        }
      } finally {
        step("close", () -> {
          out.close();
          return null;
        });
      }
      written.add(path);
    }

    void read(Path path, boolean paced) throws IOException {
      Pieces pieces = new Pieces(path.toUri().getPath());
      try (FSDataInputStream in = step("open", () -> fs.open(path))) {
        for (long at = 0; at < order.bytes() && !(paced && System.nanoTime() > end); at += Pieces.SIZE) {
          step("read", () -> {
            in.readFully(piece);
            return null;
          });
          pieces.check(piece, piece.length, at);
          if (paced) {
            moved.addAndGet(piece.length);
            pace();
          }
        }
      }
    }
  }
}
