package headrace.client;

import com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * What the daemon is told of a container before its process starts.
 *
 * @param id of the container, as its scheduler writes it
 * @param scheduler that decides for the container, such as yarn
 * @param submitter who submitted the application
 * @param name for people
 * @param user the account that the container's processes run as
 * @param memory in bytes
 */
public record Announcement(String id, String scheduler, String application, String submitter, String name, String user,
        int cpus, long memory) {

    ObjectNode message() {
        ObjectNode message = NodeSocket.message();
        message.put("id", id);
        message.putObject("hosting").put("scheduler", scheduler).put("application", application).put("submitter", submitter);
        message.put("name", name);
        message.put("user", user);
        message.put("cpus", cpus);
        message.put("memory", Long.toString(memory));
        return message;
    }
}
