package headrace.yarn.rm;

import static org.junit.jupiter.api.Assertions.fail;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.test.GenericTestUtils;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.webproxy.ProxyCA;
import org.slf4j.event.Level;

/** A real ResourceManager with its scheduler in this JVM. Its nodes and masters say what the test has them say. */
final class TestCluster implements AutoCloseable {
    static final int GB = 1024;
    private static final int WAIT_BEFORE_KILL_MS = 400;
    private static final long PATIENCE_NANOS = 180_000_000_000L;

    /** By which all vouch for their proxies. Each would look for primes of its own for a second or two. */
    private static ProxyCA authority;

    final MockRM rm;
    final List<MockNM> nodes = new ArrayList<>();

    TestCluster(Configuration conf) {
        rm = quiet(new MockRM(conf));
        synchronized (TestCluster.class) {
            if (authority != null) {
                rm.getRMStateStore().storeProxyCACert(authority.getCaCert(), authority.getCaKeyPair().getPrivate());
            }
            rm.start();
            authority = rm.getRMContext().getProxyCAManager().getProxyCA();
        }
    }

    TestCluster(Configuration conf, TestCluster before) {
        rm = quiet(new MockRM(conf, before.rm.getRMStateStore()));
        rm.start();
    }

    // It sets everything to DEBUG.
    private static MockRM quiet(MockRM rm) {
        GenericTestUtils.setRootLogLevel(Level.WARN);
        return rm;
    }

    /** Two queues, low with a tenth of the cluster and high with the rest; each may use all of it. */
    static Configuration conf(FakeManager manager) {
        Configuration conf = new YarnConfiguration();
        conf.set(YarnConfiguration.RM_SCHEDULER, TestScheduler.class.getName());
        conf.set(Settings.URL, manager.url());
        conf.set(Settings.TOKEN_FILE, manager.tokenFile.toString());
        conf.setInt(Settings.TIMEOUT_MS, 60_000); // however busy this machine is
        conf.setBoolean(YarnConfiguration.RECOVERY_ENABLED, true);
        conf.set(YarnConfiguration.RM_STORE, "org.apache.hadoop.yarn.server.resourcemanager.recovery.MemoryRMStateStore");
        conf.setBoolean(YarnConfiguration.RM_WORK_PRESERVING_RECOVERY_ENABLED, true);
        conf.setLong(YarnConfiguration.RM_WORK_PRESERVING_RECOVERY_SCHEDULING_WAIT_MS, 0);
        conf.setInt(YarnConfiguration.RM_MAX_COMPLETED_APPLICATIONS, 10);
        conf.setInt(YarnConfiguration.RM_AM_MAX_ATTEMPTS, 2);
        conf.setInt("yarn.scheduler.capacity.node-locality-delay", 0);
        conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
        conf.set("yarn.scheduler.capacity.root.queues", "low,high");
        queue(conf, "low", 10);
        queue(conf, "high", 90);
        return conf;
    }

    static void queue(Configuration conf, String name, int percent) {
        String prefix = "yarn.scheduler.capacity.root." + name + ".";
        conf.setInt(prefix + "capacity", percent);
        conf.setInt(prefix + "maximum-capacity", 100);
        conf.setInt(prefix + "user-limit-factor", 10);
    }

    /** Has YARN's own preemption choose victims, several times a second. */
    static void preempts(Configuration conf) {
        String prefix = "yarn.resourcemanager.monitor.capacity.preemption.";
        conf.setBoolean(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS, true);
        conf.set(YarnConfiguration.RM_SCHEDULER_MONITOR_POLICIES, HeadracePreemptionPolicy.class.getName());
        conf.setInt(prefix + "monitoring_interval", 100);
        conf.setInt(prefix + "max_wait_before_kill", WAIT_BEFORE_KILL_MS);
        conf.setFloat(prefix + "total_preemption_per_round", 1.0f);
        conf.setFloat(prefix + "natural_termination_factor", 1.0f);
        conf.setFloat(prefix + "max_ignored_over_capacity", 0.0f);
    }

    MockNM node(String name, int gigabytes) throws Exception {
        MockNM node = rm.registerNode(name, gigabytes * GB, 16);
        nodes.add(node);
        return node;
    }

    HeadraceScheduler scheduler() {
        return (HeadraceScheduler) rm.getResourceScheduler();
    }

    MockAM application(String queue, MockNM node) throws Exception {
        return application(queue, node, 0, false);
    }

    MockAM application(String queue, MockNM node, int priority, boolean keepContainers) throws Exception {
        RMApp app = MockRMAppSubmitter.submit(rm, MockRMAppSubmissionData.Builder.createWithMemory(GB, rm)
            .withAppName(queue).withUser("user").withQueue(queue).withMaxAppAttempts(2)
            .withAppPriority(Priority.newInstance(priority)).withKeepContainers(keepContainers).build());
        return MockRM.launchAndRegisterAM(app, rm, node);
    }

    /** Containers of 1 GB that run on the node. */
    List<ContainerId> containers(MockAM am, MockNM node, int count) throws Exception {
        return containers(am, node, count, 1);
    }

    List<ContainerId> containers(MockAM am, MockNM node, int count, int gigabytes) throws Exception {
        am.allocate("*", gigabytes * GB, count, new ArrayList<>());
        List<ContainerId> got = new ArrayList<>();
        await("containers", () -> {
            am.allocate(new ArrayList<>(), new ArrayList<>()).getAllocatedContainers().forEach(c -> got.add(c.getId()));
            return got.size() == count;
        });
        for (ContainerId id : got) {
            node.nodeHeartbeat(am.getApplicationAttemptId(), id.getContainerId(), ContainerState.RUNNING);
            rm.drainEvents();
        }
        await("running", () -> got.stream().allMatch(id -> container(id).getState() == RMContainerState.RUNNING));
        return got;
    }

    void finish(MockAM am, MockNM node, ContainerId id) throws Exception {
        node.nodeHeartbeat(am.getApplicationAttemptId(), id.getContainerId(), ContainerState.COMPLETE);
        rm.drainEvents();
    }

    RMContainer container(ContainerId id) {
        return scheduler().getRMContainer(id);
    }

    FiCaSchedulerApp app(MockAM am) {
        return scheduler().getApplicationAttempt(am.getApplicationAttemptId());
    }

    /** What YARN's policy does when it has chosen a container. */
    void preempt(MockAM am, ContainerId id) {
        scheduler().markContainerForPreemption(am.getApplicationAttemptId(), container(id));
    }

    void awaitPhase(ContainerId id, Suspension.Phase phase) throws Exception {
        await(phase + " of " + id, () -> scheduler().plugin().phase(id) == phase);
    }

    /** Lets the nodes send heartbeats until the condition holds. */
    void await(String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + PATIENCE_NANOS;
        while (!condition.call()) {
            if (System.nanoTime() > deadline) {
                fail("not within three minutes: " + what);
            }
            beat();
        }
    }

    /** Lets YARN's own preemption have rounds: in which it chooses, and others in which it kills what it has chosen. */
    void rounds() throws Exception {
        TestScheduler scheduler = (TestScheduler) scheduler();
        long began = System.nanoTime();
        int first = scheduler.policyRounds.get();
        await("rounds in which it chooses", () -> scheduler.policyRounds.get() > first + 2);
        await("the time before it kills", () -> System.nanoTime() - began > 2_000_000L * WAIT_BEFORE_KILL_MS);
        int later = scheduler.policyRounds.get();
        await("rounds in which it kills", () -> scheduler.policyRounds.get() > later + 2);
    }

    void beat() throws Exception {
        for (MockNM node : nodes) {
            node.nodeHeartbeat(true);
        }
        rm.drainEvents();
        Thread.sleep(5);
    }

    @Override
    public void close() {
        rm.stop();
    }
}
