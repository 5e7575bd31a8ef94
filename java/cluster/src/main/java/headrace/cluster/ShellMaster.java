package headrace.cluster;

import java.io.IOException;
import java.security.PrivilegedExceptionAction;
import java.util.Map;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationReport;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.YarnApplicationAttemptState;
import org.apache.hadoop.yarn.api.records.YarnApplicationState;
import org.apache.hadoop.yarn.client.api.YarnClient;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.exceptions.YarnException;

/**
 * Submits an application and is its application master, outside of any container: runs a command in a number of
 * containers, and again, from the beginning, in a new container where YARN has taken one away. So what stock
 * preemption costs shows, which DistributedShell does not make good. Tells on standard output what happens, as
 * {@link Events}. Exit code 0: every task has ended with 0.
 */
public final class ShellMaster {
  private static final long POLL_MS = 20;
  private static final long ACCEPT_MS = 8 * 60_000; // as long as a test waits: a busy machine is no reason to give up

  private ShellMaster() {}

  public static void main(String[] args) throws Exception {
    ShellJob job = ShellJob.parse(args);
    Events events = new Events(System.out);
    YarnConfiguration conf = new YarnConfiguration();
    YarnClient client = YarnClient.createYarnClient();
    client.init(conf);
    client.start();
    System.exit(run(client, conf, job, events) ? 0 : 1);
  }

  /** Submits a job and returns when it has ended, whether every task has ended with 0. */
  static boolean run(YarnClient client, YarnConfiguration conf, ShellJob job, Events events)
      throws YarnException, IOException, InterruptedException {
    ApplicationId id = submit(client, job);
    events.tell("submitted", "application", id.toString(), "name", job.name());
    awaitAttempt(client, id);

    UserGroupInformation master = UserGroupInformation.createRemoteUser(
        UserGroupInformation.getCurrentUser().getUserName());
    master.addToken(client.getAMRMToken(id));
    boolean good = master.doAs((PrivilegedExceptionAction<Boolean>) () -> new ShellTasks(conf, job, events).run());
    events.tell("finished", "application", id.toString(), "good", good);
    return good;
  }

  private static ApplicationId submit(YarnClient client, ShellJob job) throws YarnException, IOException {
    ApplicationSubmissionContext context = client.createApplication().getApplicationSubmissionContext();
    context.setApplicationName(job.name());
    context.setQueue(job.queue());
    context.setPriority(Priority.newInstance(job.priority()));
    context.setUnmanagedAM(true);
    context.setMaxAppAttempts(1);
    context.setResource(Resource.newInstance(1, 1));
    context.setAMContainerSpec(ContainerLaunchContext.newInstance(Map.of(), Map.of(), null, null, null, null));
    return client.submitApplication(context);
  }

  /** Waits until the attempt may register. */
  private static void awaitAttempt(YarnClient client, ApplicationId id)
      throws YarnException, IOException, InterruptedException {
    long deadline = System.currentTimeMillis() + ACCEPT_MS;
    while (true) {
      ApplicationReport report = client.getApplicationReport(id);
      YarnApplicationState state = report.getYarnApplicationState();
      if (state == YarnApplicationState.ACCEPTED && launched(client, report)) {
        return;
      }
      if (state == YarnApplicationState.FAILED || state == YarnApplicationState.KILLED) {
        throw new IllegalStateException(id + " is " + state + ": " + report.getDiagnostics());
      }
      if (System.currentTimeMillis() > deadline) {
        throw new IllegalStateException(id + " is still " + state + ": " + report.getDiagnostics());
      }
      Thread.sleep(POLL_MS);
    }
  }

  private static boolean launched(YarnClient client, ApplicationReport report) throws YarnException, IOException {
    return client.getApplicationAttemptReport(report.getCurrentApplicationAttemptId()).getYarnApplicationAttemptState()
        == YarnApplicationAttemptState.LAUNCHED;
  }
}
