package headrace.cluster;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.yarn.client.api.YarnClient;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/**
 * What {@link ShellMaster} does, for many jobs in one process, so that a job begins without the start of a virtual
 * machine. Reads a job a line from standard input, as a JSON array of the arguments of ShellMaster, and starts it at
 * once. Names tell the jobs apart: every event has the job's. A job that could not be run to its end has the event
 * "broken", with a reason. Ends with its input, without waiting for jobs.
 */
public final class ShellMasters {
  private ShellMasters() {}

  public static void main(String[] args) throws Exception {
    YarnConfiguration conf = new YarnConfiguration();
    YarnClient client = YarnClient.createYarnClient();
    client.init(conf);
    client.start();
    new Events(System.out).tell("ready");
    ObjectMapper json = new ObjectMapper();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    String line;
    while ((line = lines.readLine()) != null) {
      ShellJob job = ShellJob.parse(json.readValue(line, String[].class));
      new Thread(() -> run(client, conf, job), job.name()).start();
    }
    System.exit(0);
  }

  private static void run(YarnClient client, YarnConfiguration conf, ShellJob job) {
    Events events = new Events(System.out, job.name());
    try {
      ShellMaster.run(client, conf, job, events);
    } catch (Exception e) {
      events.tell("broken", "reason", e.toString());
    }
  }
}
