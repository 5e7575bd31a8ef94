package headrace.yarn.rm;

import java.util.Map;
import org.apache.hadoop.yarn.api.records.ContainerId;

/**
 * What the manager has said last.
 *
 * @param asOfMs it was true then, or at a later time
 * @param reachable false: the manager does not answer now
 * @param sinceMs it has answered every time since then, so that it is the same one; before, it may have been another,
 *     whose orders this one does not know
 */
record ManagerState(Map<ContainerId, RemoteContainer> containers, long asOfMs, boolean reachable, long sinceMs) {
    static final ManagerState NOTHING = new ManagerState(Map.of(), Long.MIN_VALUE, false, Long.MIN_VALUE);
}
