package headrace.yarn.rm;

import java.util.Map;
import org.apache.hadoop.yarn.api.records.ContainerId;

/**
 * What the manager has said last.
 *
 * @param asOfMs it was true then, or at a later time
 * @param reachable false: the manager does not answer now
 */
record ManagerState(Map<ContainerId, RemoteContainer> containers, long asOfMs, boolean reachable) {
    static final ManagerState NOTHING = new ManagerState(Map.of(), Long.MIN_VALUE, false);
}
