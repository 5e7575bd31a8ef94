package headrace.yarn.nm;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import headrace.client.NodeSocket;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Resource;

/**
 * What the daemon is told of a container before its process starts.
 *
 * @param account that its processes run as
 */
record Announcement(ContainerId container, String name, String account, Resource resource) {
    private static final String METHOD = "headrace.v1.HostService/Prepare";

    /**
     * @return what to put before the container's command, the absolute path of a program first
     * @throws IOException when the daemon does not take the container
     */
    List<String> send(NodeSocket node) throws IOException {
        JsonNode argv = node.call(METHOD, message()).path("argv");
        List<String> prefix = new ArrayList<>();
        for (JsonNode argument : argv) {
            prefix.add(argument.asText());
        }
        if (prefix.isEmpty() || !prefix.get(0).startsWith("/") || prefix.stream().anyMatch(a -> a.indexOf('\0') >= 0)) {
            throw new IOException(METHOD + ": the answer holds no program with an absolute path: " + argv);
        }
        return prefix;
    }

    private ObjectNode message() {
        ObjectNode message = NodeSocket.message();
        message.put("id", container.toString());
        message.putObject("hosting")
            .put("scheduler", "yarn")
            .put("application", container.getApplicationAttemptId().getApplicationId().toString());
        message.put("name", name);
        message.put("user", account);
        message.put("cpus", resource.getVirtualCores());
        message.put("memory", Long.toString(resource.getMemorySize() << 20));
        return message;
    }
}
