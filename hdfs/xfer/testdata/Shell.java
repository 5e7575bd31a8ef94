import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.ToolRunner;

/**
 * Runs "hdfs dfs" with the words of each line that comes in, against a name node, HOST:PORT, and says
 * "> " and the exit code. "write FILE" writes a file by parts: says ">>" after each hflush, and goes on
 * when the next line comes. "crc FILE" says the composite checksum.
 */
class Shell {
  public static void main(String[] args) throws Exception {
    Configuration conf = new Configuration();
    conf.set("fs.defaultFS", "hdfs://" + args[0]);
    conf.set("dfs.replication", "3");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null;) {
      String[] words = line.split(" ");
      int code = 0;
      if (words[0].equals("write")) {
        write(conf, new Path(words[1]), in);
      } else if (words[0].equals("crc")) {
        Configuration composite = new Configuration(conf);
        composite.set("dfs.checksum.combine.mode", "COMPOSITE_CRC");
        System.out.println("= " + FileSystem.newInstance(composite).getFileChecksum(new Path(words[1])));
      } else {
        code = ToolRunner.run(new FsShell(conf), words);
      }
      System.out.println("> " + code);
    }
  }

  private static void write(Configuration conf, Path file, BufferedReader in) throws Exception {
    byte[] part = new byte[300_001];
    FileSystem fs = FileSystem.get(conf);
    try (FSDataOutputStream out = fs.create(file)) {
      for (int i = 0; i < 4; i++) {
        Arrays.fill(part, (byte) ('a' + i));
        out.write(part);
        if (i % 2 == 0) {
          out.hflush();
        } else {
          out.hsync();
        }
        // Another reader sees it: the length of what is being written comes from a data node.
        int n = 0;
        try (FSDataInputStream reader = fs.open(file)) {
          for (byte[] b = new byte[65536]; ;) {
            int k = reader.read(b);
            if (k < 0) {
              break;
            }
            n += k;
          }
        }
        System.out.println(">> " + n);
        in.readLine();
      }
    }
  }
}
