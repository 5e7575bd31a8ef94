package headrace.cluster;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Map;

/** Tells what happens as JSON, one object a line. */
final class Events {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final PrintStream out;
  private final String job;

  Events(PrintStream out) {
    this(out, null);
  }

  /** Events of one of several jobs, whose name each of them has; null: of the only one. */
  Events(PrintStream out, String job) {
    this.out = out;
    this.job = job;
  }

  /** Writes an event with the time and the given names and values, by turns. */
  void tell(String event, Object... fields) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("atMs", System.currentTimeMillis());
    line.put("event", event);
    if (job != null) {
      line.put("job", job);
    }
    for (int i = 0; i + 1 < fields.length; i += 2) {
      line.put((String) fields[i], fields[i + 1]);
    }
    try {
      // One call, so that lines of several threads do not mix.
      out.print(JSON.writeValueAsString(line) + "\n");
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException("event " + event, e);
    }
    out.flush();
  }
}
