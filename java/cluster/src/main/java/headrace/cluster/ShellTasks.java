package headrace.cluster;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.ApplicationConstants;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.FinalApplicationStatus;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.UpdatedContainer;
import org.apache.hadoop.yarn.client.api.AMRMClient;
import org.apache.hadoop.yarn.client.api.AMRMClient.ContainerRequest;
import org.apache.hadoop.yarn.client.api.NMClient;
import org.apache.hadoop.yarn.client.api.NMTokenCache;
import org.apache.hadoop.yarn.exceptions.YarnException;
import org.apache.hadoop.yarn.exceptions.YarnRuntimeException;

/** The tasks of a {@link ShellJob} and their containers. One thread. */
final class ShellTasks {
  private static final long HEARTBEAT_MS = 100;

  // A NodeManager that was killed while it started a container does not know what has become of it.
  private static final int LOST = 154;

  /** Exit statuses of containers that have ended by no fault of their own. */
  private static final Set<Integer> TAKEN_AWAY = Set.of(ContainerExitStatus.PREEMPTED, ContainerExitStatus.ABORTED,
      ContainerExitStatus.DISKS_FAILED, ContainerExitStatus.KILLED_BY_RESOURCEMANAGER, LOST);

  // The launch itself has failed: one that was killed before may launch a container that it has not taken up yet. After
  // another restart it does not say why any more.
  private static final int NOT_LAUNCHED = -1;
  private static final int LAUNCHES = 10; // of all tasks, again

  private final ShellJob job;
  private final Events events;
  private final AMRMClient<ContainerRequest> scheduler = AMRMClient.createAMRMClient();
  private final NMClient nodes = NMClient.createNMClient();

  /** By allocation request id, of which every request has its own. */
  private final Map<Long, ContainerRequest> asked = new HashMap<>();
  private final Map<Long, Integer> askedFor = new HashMap<>();
  private final Map<ContainerId, Integer> running = new HashMap<>();
  private long lastRequest;
  private int launchedAgain;
  private int ended;
  private int failed;

  ShellTasks(Configuration conf, ShellJob job, Events events) {
    this.job = job;
    this.events = events;
    // Of this job alone: tokens are kept by node, and others may have containers there.
    NMTokenCache tokens = new NMTokenCache();
    scheduler.setNMTokenCache(tokens);
    nodes.setNMTokenCache(tokens);
    scheduler.init(conf);
    nodes.init(conf);
    // What still runs when this process ends is the scheduler's business.
    nodes.cleanupRunningContainersOnStop(false);
  }

  /** Returns whether every task has ended with 0. */
  boolean run() throws YarnException, IOException, InterruptedException {
    scheduler.start();
    nodes.start();
    try {
      return runTasks();
    } finally {
      nodes.stop();
      scheduler.stop();
    }
  }

  private boolean runTasks() throws YarnException, IOException, InterruptedException {
    scheduler.registerApplicationMaster("localhost", 0, "");
    events.tell("registered");
    for (int task = 0; task < job.tasks(); task++) {
      ask(task);
    }
    while (ended < job.tasks()) {
      heartbeat();
      Thread.sleep(HEARTBEAT_MS);
    }
    FinalApplicationStatus status = failed == 0 ? FinalApplicationStatus.SUCCEEDED : FinalApplicationStatus.FAILED;
    scheduler.unregisterApplicationMaster(status, failed + " tasks have failed", "");
    return failed == 0;
  }

  private void ask(int task) {
    long id = ++lastRequest;
    ContainerRequest request = ContainerRequest.newBuilder()
        .capability(Resource.newInstance(job.memory(), job.vcores()))
        .priority(Priority.newInstance(1))
        .allocationRequestId(id)
        .build();
    asked.put(id, request);
    askedFor.put(id, task);
    scheduler.addContainerRequest(request);
  }

  private void heartbeat() throws YarnException, IOException {
    AllocateResponse response;
    try {
      response = scheduler.allocate((float) ended / job.tasks());
    } catch (YarnRuntimeException e) {
      // A ResourceManager that ends interrupts what it is asked. MapReduce's masters ask again too.
      System.err.println("heartbeat again: " + e.getMessage());
      return;
    }
    for (Container container : response.getAllocatedContainers()) {
      allocated(container);
    }
    for (UpdatedContainer update : response.getUpdatedContainers()) {
      events.tell("updated", "container", update.getContainer().getId().toString(),
          "update", update.getUpdateType().toString());
    }
    if (response.getPreemptionMessage() != null) {
      events.tell("asked-to-release");
    }
    for (ContainerStatus status : response.getCompletedContainersStatuses()) {
      completed(status);
    }
  }

  private void allocated(Container container) {
    ContainerRequest request = asked.remove(container.getAllocationRequestId());
    if (request == null) {
      scheduler.releaseAssignedContainer(container.getId());
      return;
    }
    scheduler.removeContainerRequest(request);
    int task = askedFor.remove(container.getAllocationRequestId());
    try {
      nodes.startContainer(container, launch(task));
    } catch (YarnException | IOException e) {
      // Its NodeManager is not there, or was started anew in between.
      events.tell("refused", "task", task, "container", container.getId().toString(), "diagnostics", e.toString());
      scheduler.releaseAssignedContainer(container.getId());
      ask(task);
      return;
    }
    running.put(container.getId(), task);
    events.tell("started", "task", task, "container", container.getId().toString(),
        "node", container.getNodeId().toString());
  }

  private ContainerLaunchContext launch(int task) {
    String logs = ApplicationConstants.LOG_DIR_EXPANSION_VAR;
    String line = job.command() + " 1>" + logs + "/stdout 2>" + logs + "/stderr";
    Map<String, String> environment = new HashMap<>();
    environment.put("HEADRACE_TASK", Integer.toString(task));
    return ContainerLaunchContext.newInstance(new HashMap<>(), environment, List.of(line), null, null, null);
  }

  private void completed(ContainerStatus status) {
    Integer task = running.remove(status.getContainerId());
    if (task == null) {
      return;
    }
    events.tell("completed", "task", task, "container", status.getContainerId().toString(),
        "exit", status.getExitStatus(), "diagnostics", status.getDiagnostics().strip());
    if (TAKEN_AWAY.contains(status.getExitStatus())
        || status.getExitStatus() == NOT_LAUNCHED && launchedAgain++ < LAUNCHES) {
      ask(task);
      return;
    }
    ended++;
    if (status.getExitStatus() != 0) {
      failed++;
    }
  }
}
