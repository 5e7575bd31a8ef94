package headrace.yarn.nm;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.util.CpuTimeTracker;
import org.apache.hadoop.yarn.util.Clock;
import org.apache.hadoop.yarn.util.ProcfsBasedProcessTree;
import org.apache.hadoop.yarn.util.SystemClock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The process tree of a container: {@code yarn.nodemanager.container-monitor.process-tree.class}. What the
 * NodeManager has started is, for a container under Headrace, a process that stands for the container; the container's
 * own processes are below the supervisor whose pid is among its arguments. They are measured, but not
 * Headrace's: limits hold for what they would hold for without Headrace. A suspended container has the
 * memory that it keeps, one that is checkpointed has none. Processor time goes on where it was when a
 * container comes back with new processes. Other containers are measured as usual.
 *
 * <p>As with the stock class, values are those of the last {@link #updateProcessTree}, and one thread uses it.
 */
public class HeadraceProcessTree extends ProcfsBasedProcessTree {
    private static final Logger LOG = LoggerFactory.getLogger(HeadraceProcessTree.class);

    private final String pid;
    private final String procfsDir;
    private final Procfs procfs;
    private final Clock clock;
    private final CpuTimeTracker usage = new CpuTimeTracker(JIFFY_LENGTH_IN_MILLIS);
    /** Whether the container is under Headrace. */
    private boolean attached;
    /** Null while a container under Headrace has no processes, and for other containers. */
    private TaskProcessTree task;
    /** Milliseconds of all processes that were seen; UNAVAILABLE before there was one. */
    private long cpu = UNAVAILABLE;
    /** What the stock class has counted of it. */
    private long stockCpu;

    public HeadraceProcessTree(String pid) {
        this(pid, "/proc/", SystemClock.getInstance());
    }

    HeadraceProcessTree(String pid, String procfsDir, Clock clock) {
        super(pid, procfsDir, clock);
        this.pid = pid;
        this.procfsDir = procfsDir;
        this.procfs = new Procfs(procfsDir);
        this.clock = clock;
    }

    @Override
    public void updateProcessTree() {
        try {
            update();
        } catch (Throwable e) { // an error that leaves the thread ends the NodeManager
            LOG.error("{} is measured as without Headrace", pid, e);
            attached = false;
            task = null;
            super.updateProcessTree();
            updateStockCpu();
        }
    }

    private void update() {
        ShimArguments arguments = new ShimArguments(procfs.arguments(pid));
        attached = arguments.standsForContainer();
        if (attached) {
            processTree.clear();
            updateTask(arguments.supervisor());
        } else {
            task = null;
            super.updateProcessTree();
            updateStockCpu();
        }
    }

    private void updateTask(String supervisor) {
        if (task == null || !task.hasInit(supervisor)) {
            task = TaskProcessTree.below(supervisor, procfs, procfsDir, clock);
        }
        long since = 0;
        if (task != null) {
            task.setConf(getConf());
            task.updateProcessTree();
            since = task.cpuSinceUpdate();
        }
        cpu = Math.max(0, cpu) + Math.max(0, since);
    }

    private void updateStockCpu() {
        long now = super.getCumulativeCpuTime();
        if (now != UNAVAILABLE) {
            cpu = Math.max(0, cpu) + Math.max(0, now - stockCpu);
            stockCpu = now;
        }
    }

    @Override
    public long getVirtualMemorySize(int olderThanAge) {
        if (!attached) {
            return super.getVirtualMemorySize(olderThanAge);
        }
        return task == null ? 0 : Math.max(0, task.getVirtualMemorySize(olderThanAge));
    }

    @Override
    public long getRssMemorySize(int olderThanAge) {
        if (!attached) {
            return super.getRssMemorySize(olderThanAge);
        }
        return task == null ? 0 : Math.max(0, task.getRssMemorySize(olderThanAge));
    }

    @Override
    public long getCumulativeCpuTime() {
        return JIFFY_LENGTH_IN_MILLIS < 0 ? UNAVAILABLE : cpu;
    }

    @Override
    public float getCpuUsagePercent() {
        if (getCumulativeCpuTime() == UNAVAILABLE) {
            return UNAVAILABLE;
        }
        usage.updateElapsedJiffies(BigInteger.valueOf(cpu / JIFFY_LENGTH_IN_MILLIS), clock.getTime());
        return usage.getCpuTrackerUsagePercent();
    }

    @Override
    public String getProcessTreeDump() {
        return task == null ? super.getProcessTreeDump() : task.getProcessTreeDump();
    }

    @Override
    public List<String> getCurrentProcessIDs() {
        if (!attached) {
            return super.getCurrentProcessIDs();
        }
        List<String> all = new ArrayList<>(List.of(pid));
        if (task != null) {
            all.addAll(task.getCurrentProcessIDs());
        }
        return all;
    }

    @Override
    public boolean contains(String process) {
        return attached ? getCurrentProcessIDs().contains(process) : super.contains(process);
    }
}
