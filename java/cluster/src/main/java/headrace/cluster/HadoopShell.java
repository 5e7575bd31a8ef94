package headrace.cluster;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.security.PrivilegedExceptionAction;
import java.util.Arrays;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.tools.CacheAdmin;
import org.apache.hadoop.hdfs.tools.DFSAdmin;
import org.apache.hadoop.hdfs.tools.DFSHAAdmin;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.ToolRunner;

/**
 * Does what each line that comes in says, as the user that is its first word, and answers with "> " and the exit
 * code. "write FILE" writes a file by parts: it says ">> " after each hflush or hsync, and goes on when
 * the next line comes. "recover FILE" waits until nobody writes it. "cached FILE" says which hosts have blocks of it in memory, "located FILE"
 * which have them at all, and in which racks. "crc FILE" says its composite checksum. "admin WORDS" is hdfs
 * dfsadmin, "haadmin WORDS" hdfs haadmin, "cacheadmin WORDS" hdfs cacheadmin. Anything else is hdfs dfs.
 */
public final class HadoopShell {
  private HadoopShell() {}

  public static void main(String[] args) throws Exception {
    Configuration conf = new Configuration(); // from the class path, as client-config has written it
    conf.set("ipc.client.connect.max.retries", "1");
    conf.set("fs.hdfs.impl.disable.cache", "true");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    System.out.println("> 0");
    for (String line; (line = in.readLine()) != null;) {
      String[] words = line.split(" ");
      String[] rest = Arrays.copyOfRange(words, 1, words.length);
      int code = UserGroupInformation.createRemoteUser(words[0])
          .doAs((PrivilegedExceptionAction<Integer>) () -> run(conf, rest, in));
      System.out.println("> " + code);
    }
  }

  private static int run(Configuration conf, String[] words, BufferedReader in) throws Exception {
    switch (words[0]) {
      case "write":
        return write(conf, new Path(words[1]), in);
      case "recover":
        try (FileSystem fs = FileSystem.get(conf)) {
          while (!((DistributedFileSystem) fs).recoverLease(new Path(words[1]))) {
            Thread.sleep(50);
          }
        }
        return 0;
      case "cached":
        try (FileSystem fs = FileSystem.get(conf)) {
          for (BlockLocation l : fs.getFileBlockLocations(new Path(words[1]), 0, Long.MAX_VALUE)) {
            System.out.println(l.getOffset() + " " + String.join(" ", new TreeSet<>(Arrays.asList(l.getCachedHosts()))));
          }
        }
        return 0;
      case "located":
        try (FileSystem fs = FileSystem.get(conf)) {
          for (BlockLocation l : fs.getFileBlockLocations(new Path(words[1]), 0, Long.MAX_VALUE)) {
            System.out.println(l.getOffset() + " " + String.join(" ", l.getHosts()) + " " + String.join(" ", l.getTopologyPaths()));
          }
        }
        return 0;
      case "crc":
        Configuration composite = new Configuration(conf);
        composite.set("dfs.checksum.combine.mode", "COMPOSITE_CRC");
        try (FileSystem fs = FileSystem.newInstance(composite)) {
          System.out.println("= " + fs.getFileChecksum(new Path(words[1])));
        }
        return 0;
      case "admin":
        return ToolRunner.run(new DFSAdmin(conf), Arrays.copyOfRange(words, 1, words.length));
      case "haadmin":
        return ToolRunner.run(new Configuration(conf), new DFSHAAdmin(), Arrays.copyOfRange(words, 1, words.length));
      case "cacheadmin":
        return ToolRunner.run(new CacheAdmin(conf), Arrays.copyOfRange(words, 1, words.length));
      default:
        return ToolRunner.run(new FsShell(new Configuration(conf)), words); // which keeps what -D says
    }
  }

  private static int write(Configuration conf, Path file, BufferedReader in) throws Exception {
    byte[] part = new byte[300_001];
    try (FileSystem fs = FileSystem.get(conf)) {
      FSDataOutputStream out = fs.create(file); // closed twice it would throw what it has thrown before
      for (int i = 0; i < 4; i++) {
        Arrays.fill(part, (byte) ('a' + i));
        out.write(part);
        if (i % 2 == 0) {
          out.hflush();
        } else {
          out.hsync();
        }
        // Another reader sees it: the length of what is being written comes from a data node.
        long n = 0;
        try (FSDataInputStream reader = fs.open(file)) {
          byte[] b = new byte[65536];
          for (int k; (k = reader.read(b)) >= 0;) {
            n += k;
          }
        }
        System.out.println(">> " + n);
        in.readLine();
      }
      out.close();
      return 0;
    } catch (IOException e) {
      System.out.println(">> failed: " + e.getMessage());
      return 1;
    }
  }
}
