package headrace.yarn.nm;

import org.apache.hadoop.yarn.util.Clock;
import org.apache.hadoop.yarn.util.ProcfsBasedProcessTree;

/** The processes of a container below their init, which is Headrace's own and is not measured. */
final class TaskProcessTree extends ProcfsBasedProcessTree {
    private final String init;
    private final Procfs procfs;
    private long cpuBefore;

    private TaskProcessTree(String init, Procfs procfs, String procfsDir, Clock clock) {
        super(init, procfsDir, clock);
        this.init = init;
        this.procfs = procfs;
    }

    /** The tree of the init that this supervisor has; null when it has none, because the container is checkpointed. */
    static TaskProcessTree below(String supervisor, Procfs procfs, String procfsDir, Clock clock) {
        if (supervisor.isEmpty()) {
            return null;
        }
        for (String child : procfs.children(supervisor)) {
            if (new ShimArguments(procfs.arguments(child)).isPart("init")) {
                return new TaskProcessTree(child, procfs, procfsDir, clock);
            }
        }
        return null;
    }

    boolean hasInit(String supervisor) {
        return procfs.isChild(init, supervisor);
    }

    @Override
    public void updateProcessTree() {
        super.updateProcessTree();
        processTree.remove(init);
        if (processTree.size() == 1) {
            // For a moment the first child is the part that becomes the command.
            processTree.keySet().removeIf(pid -> new ShimArguments(procfs.arguments(pid)).isPart("exec"));
        }
    }

    /** Milliseconds of processor time since the last call; to be called once after each update. */
    long cpuSinceUpdate() {
        long now = Math.max(0, getCumulativeCpuTime());
        long since = now - cpuBefore;
        cpuBefore = now;
        return since;
    }
}
