package headrace.cluster;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.mapreduce.util.ConfigUtil;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/**
 * Submits jobs of MapReduce and waits for them, makes their inputs, and has HDFS cache them, many in one process, so that a job begins
 * without the start of a virtual machine. Reads an {@link Order} a line from standard input, as JSON, and carries it out
 * at once, beside all others. Tells how each has ended as {@link Events}, by its name: "made", "finished", or "broken"
 * with a reason. Ends with its input, without waiting.
 */
public final class Submitter {
  private Submitter() {}

  public static void main(String[] args) throws Exception {
    ConfigUtil.loadResources();
    Configuration conf = new YarnConfiguration();
    FileSystem.get(conf).exists(new org.apache.hadoop.fs.Path("/")); // what the first one would have to wait for
    new Events(System.out).tell("ready");
    ObjectMapper json = new ObjectMapper();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    String line;
    while ((line = lines.readLine()) != null) {
      Order order = json.readValue(line, Order.class);
      new Thread(() -> carryOut(conf, order), order.name()).start();
    }
    System.exit(0);
  }

  private static void carryOut(Configuration conf, Order order) {
    Events events = new Events(System.out, order.name());
    try {
      switch (order.kind()) {
        case "make-bytes", "make-text", "make-sequence" -> new InputMaker(FileSystem.get(conf), order).make();
        case "cache" -> new CacheDirectives((DistributedFileSystem) FileSystem.get(conf)).add(order.inputs());
        case "uncache" -> new CacheDirectives((DistributedFileSystem) FileSystem.get(conf)).removeAll();
        default -> {
          new Submission(conf, order).run(events);
          return;
        }
      }
      events.tell("made");
    } catch (Exception | LinkageError e) {
      e.printStackTrace();
      events.tell("broken", "reason", e.toString());
    }
  }
}
