package headrace.yarn.nm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.yarn.Unlinkable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.util.ProcfsBasedProcessTree;
import org.apache.hadoop.yarn.util.ResourceCalculatorProcessTree;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The processes: 100 is what the NodeManager started, 200 the supervisor, 210 its init, 220 and above the command. */
class HeadraceProcessTreeTest {
    private static final long JIFFY = ProcfsBasedProcessTree.JIFFY_LENGTH_IN_MILLIS;
    private static final String[] ATTACHED =
        {"/opt/headrace/headrace-shim", "attached", "-shim-pid", "200", "-id", "c", "-fd", "3", "--", "/bin/bash"};

    @TempDir
    Path dir;
    private final AtomicLong now = new AtomicLong(1_000_000);
    private FakeProcfs procfs;
    private HeadraceProcessTree tree;

    @BeforeEach
    void setUp() {
        procfs = new FakeProcfs(dir);
        procfs.process(1, 0, 1, 1, "init");
        procfs.process(50, 1, 500, 5000, "java", "NodeManager");
        procfs.process(300, 1, 4000, 9000, "stranger");
        tree = new HeadraceProcessTree("100", dir.toString() + "/", now::get);
    }

    private void attach() {
        procfs.process(100, 50, 11, 3, ATTACHED);
        procfs.process(200, 40, 12, 4, "/var/lib/headrace/bin/headrace-shim-1f", "supervise", "-dir", "x");
        procfs.process(210, 200, 13, 5, "headrace-shim", "init", "/var/lib/headrace/tasks/c");
    }

    private void assertUsed(long megabytes, long jiffies) {
        tree.updateProcessTree();
        assertEquals(megabytes << 20, tree.getRssMemorySize());
        assertEquals((megabytes << 20) * 10, tree.getVirtualMemorySize());
        assertEquals(jiffies * JIFFY, tree.getCumulativeCpuTime());
        assertEquals(jiffies * JIFFY, tree.getCumulativeCpuTime(), "asked again");
    }

    private Set<String> pids() {
        return new TreeSet<>(tree.getCurrentProcessIDs());
    }

    @Test
    void anErrorIsMeasuredAsUsual() {
        attach();
        tree = new HeadraceProcessTree("100", dir.toString() + "/", now::get) {
            @Override
            public Configuration getConf() { // which a container's own processes are measured with
                Unlinkable.use();
                return null;
            }
        };
        assertUsed(11, 3);
    }

    @Test
    void measuresOtherContainersAsUsual() {
        procfs.process(100, 50, 10, 7, "/bin/bash", "-c", "x");
        procfs.process(101, 100, 20, 8, "sleep", "1");
        assertUsed(30, 15);
        assertEquals(Set.of("100", "101"), pids());
        assertTrue(tree.contains("101"));
        assertFalse(tree.contains("300"));
        assertTrue(tree.getProcessTreeDump().contains("sleep 1"));
        procfs.end(101);
        procfs.process(100, 50, 10, 9, "/bin/bash", "-c", "x");
        assertUsed(10, 17);
    }

    @Test
    void measuresTheCommandButNotHeadrace() {
        attach();
        procfs.process(220, 210, 100, 50, "/bin/bash", "-c", "x");
        procfs.process(221, 220, 200, 60, "python3");
        assertUsed(300, 110);
        assertEquals(Set.of("100", "220", "221"), pids());
        assertTrue(tree.contains("100"));
        assertTrue(tree.contains("221"));
        assertFalse(tree.contains("210"));
        assertFalse(tree.contains("300"));
        assertTrue(tree.getProcessTreeDump().contains("python3"));
        procfs.process(221, 220, 250, 65, "python3");
        assertUsed(350, 115);
    }

    @Test
    void followsAContainerFromItsScriptToItsCommand() {
        procfs.process(100, 50, 5, 2, "/bin/bash", "/x/launch_container.sh");
        assertUsed(5, 2);
        procfs.process(100, 50, 11, 3, "/opt/headrace/headrace-shim", "attach", "-socket", "s", "--", "x");
        assertUsed(0, 2);
        attach();
        procfs.process(220, 210, 900, 1, "headrace-shim", "exec", "/var/lib/headrace/tasks/c");
        tree.updateProcessTree();
        assertEquals(0, tree.getVirtualMemorySize());
        procfs.process(220, 210, 100, 50, "/bin/bash", "-c", "x");
        tree.updateProcessTree();
        assertEquals(100 << 20, tree.getRssMemorySize());
        assertTrue(tree.getCumulativeCpuTime() >= 50 * JIFFY);
    }

    @Test
    void measuresACommandThatRunsAfterAllWithoutHeadrace() {
        procfs.process(100, 50, 11, 3, "/opt/headrace/headrace-shim", "attach", "-socket", "s", "--", "x");
        assertUsed(0, 0);
        procfs.process(100, 50, 70, 30, "/bin/bash", "-c", "x");
        assertUsed(70, 30);
    }

    @Test
    void aCheckpointedContainerHasNothingAndComesBackWithItsTime() {
        attach();
        procfs.process(220, 210, 100, 50, "/bin/bash", "-c", "x");
        assertUsed(100, 50);
        // Dumping: the helper is not the container's.
        procfs.process(230, 200, 60, 70, "headrace-shim", "dump");
        procfs.process(231, 230, 80, 90, "criu", "dump");
        assertUsed(100, 50);
        procfs.end(210, 220, 230, 231);
        assertUsed(0, 50);
        assertUsed(0, 50);
        assertEquals(Set.of("100"), pids());
        procfs.process(410, 200, 13, 0, "headrace-shim", "init", "/var/lib/headrace/tasks/c");
        procfs.process(420, 410, 90, 1, "/bin/bash", "-c", "x");
        assertUsed(90, 51);
        procfs.process(420, 410, 90, 11, "/bin/bash", "-c", "x");
        assertUsed(90, 61);
    }

    /** For a container without processes not all of /proc is looked through each time. */
    @Test
    void takesChildrenFromTheListsOfTheKernel() throws Exception {
        attach();
        procfs.process(220, 210, 100, 50, "/bin/bash", "-c", "x");
        Path threads = dir.resolve("200/task");
        Files.writeString(Files.createDirectories(threads.resolve("200")).resolve("children"), "");
        Path second = Files.createDirectories(threads.resolve("201")).resolve("children");
        Files.writeString(second, "205 ");
        assertUsed(0, 0);
        Files.writeString(second, "205 210 ");
        assertUsed(100, 50);
    }

    @Test
    void noticesNewProcessesBetweenTwoUpdates() {
        attach();
        procfs.process(220, 210, 100, 50, "/bin/bash", "-c", "x");
        assertUsed(100, 50);
        procfs.end(210, 220);
        procfs.process(410, 200, 13, 0, "headrace-shim", "init", "/var/lib/headrace/tasks/c");
        procfs.process(420, 410, 90, 5, "/bin/bash", "-c", "x");
        assertUsed(90, 55);
    }

    @Test
    void timeNeverGoesBack() {
        attach();
        procfs.process(220, 210, 100, 50, "/bin/bash", "-c", "x");
        assertUsed(100, 50);
        procfs.process(220, 210, 100, 10, "/bin/bash", "-c", "x");
        assertUsed(100, 50);
    }

    @Test
    void usageGoesOnAfterARestore() {
        attach();
        procfs.process(220, 210, 100, 1000, "/bin/bash", "-c", "x");
        assertUsed(100, 1000);
        assertEquals(ResourceCalculatorProcessTree.UNAVAILABLE, tree.getCpuUsagePercent());
        now.addAndGet(1000 * JIFFY);
        procfs.process(220, 210, 100, 1500, "/bin/bash", "-c", "x");
        assertUsed(100, 1500);
        assertEquals(50, tree.getCpuUsagePercent());
        now.addAndGet(1000 * JIFFY);
        procfs.end(210, 220);
        assertUsed(0, 1500);
        assertEquals(0, tree.getCpuUsagePercent());
        now.addAndGet(1000 * JIFFY);
        procfs.process(410, 200, 13, 0, "headrace-shim", "init", "/var/lib/headrace/tasks/c");
        procfs.process(420, 410, 90, 250, "/bin/bash", "-c", "x");
        assertUsed(90, 1750);
        assertEquals(25, tree.getCpuUsagePercent());
    }

    @Test
    void olderProcessesAreToldFromYounger() {
        attach();
        procfs.process(220, 210, 100, 1, "/bin/bash", "-c", "x");
        tree.updateProcessTree();
        assertEquals(0, tree.getRssMemorySize(1));
        procfs.process(221, 220, 300, 1, "child");
        tree.updateProcessTree();
        assertEquals(100 << 20, tree.getRssMemorySize(1));
        assertEquals(1000 << 20, tree.getVirtualMemorySize(1));
        assertEquals(400 << 20, tree.getRssMemorySize());
    }

    @Test
    void withoutASupervisorThereIsNothing() {
        procfs.process(100, 50, 11, 3, ATTACHED);
        assertUsed(0, 0);
    }

    @Test
    void aContainerThatHasEndedCannotBeMeasured() {
        tree.updateProcessTree();
        assertEquals(ResourceCalculatorProcessTree.UNAVAILABLE, tree.getRssMemorySize());
        assertEquals(ResourceCalculatorProcessTree.UNAVAILABLE, tree.getVirtualMemorySize());
        assertEquals(ResourceCalculatorProcessTree.UNAVAILABLE, tree.getCumulativeCpuTime());
        assertEquals(ResourceCalculatorProcessTree.UNAVAILABLE, tree.getCpuUsagePercent());
        attach();
        procfs.process(220, 210, 100, 50, "/bin/bash", "-c", "x");
        assertUsed(100, 50);
        procfs.end(100, 200, 210, 220);
        tree.updateProcessTree();
        assertEquals(ResourceCalculatorProcessTree.UNAVAILABLE, tree.getRssMemorySize());
        assertEquals(50 * JIFFY, tree.getCumulativeCpuTime());
    }

    @Test
    void isWhatTheNodeManagerMakes() {
        String self = Long.toString(ProcessHandle.current().pid());
        ResourceCalculatorProcessTree made = ResourceCalculatorProcessTree.getResourceCalculatorProcessTree(self,
            HeadraceProcessTree.class, new Configuration());
        made.updateProcessTree();
        assertTrue(made.getRssMemorySize() > 10 << 20);
        assertTrue(made.getCumulativeCpuTime() > 0);
        assertTrue(((ProcfsBasedProcessTree) made).contains(self));
    }
}
