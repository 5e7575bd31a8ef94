import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.fs.GlobPattern;

/** Says of each line, a pattern, a tab and a name, whether Hadoop matches them. */
class Globs {
  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    StringBuilder out = new StringBuilder();
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] both = line.split("\t", -1);
      try {
        out.append(new GlobPattern(both[0]).matches(both[1])).append('\n');
      } catch (RuntimeException e) {
        out.append("error\n");
      }
    }
    System.out.print(out);
  }
}
