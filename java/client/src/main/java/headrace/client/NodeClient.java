package headrace.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Speaks to headrace.v1.HostService of the daemon of this machine. Methods block, and throw what
 * {@link NodeSocket#call} throws. Safe for use by several threads.
 */
public final class NodeClient {
    private static final String PREPARE = "headrace.v1.HostService/Prepare";
    private static final String APPLICATION = "headrace.v1.HostService/Application";

    private final NodeSocket node;

    /** @param timeout of a whole call; more than zero */
    public NodeClient(Path socket, Duration timeout) {
        this.node = new NodeSocket(socket, timeout);
    }

    /**
     * Announces a container.
     *
     * @return what to put before the container's command, the absolute path of a program first
     * @throws IOException when the daemon does not take the container
     */
    public List<String> prepare(Announcement announcement) throws IOException {
        JsonNode argv = node.call(PREPARE, announcement.message()).path("argv");
        List<String> prefix = new ArrayList<>();
        for (JsonNode argument : argv) {
            prefix.add(argument.asText());
        }
        if (prefix.isEmpty() || !prefix.get(0).startsWith("/") || prefix.stream().anyMatch(a -> a.indexOf('\0') >= 0)) {
            throw new IOException(PREPARE + ": the answer holds no program with an absolute path: " + argv);
        }
        return prefix;
    }

    /**
     * Containers of an application.
     *
     * @param doubt why some may be missing, or not be any more as they are told; empty: nothing speaks for that
     */
    public record Told(List<Container> containers, String doubt) {
    }

    /**
     * Returns the containers of an application that do not run, or are just stopping or coming back, on whatever machine they
     * are; an older daemon tells of all.
     *
     * @param progress how far containers are, from 0 to 1, which helps to decide who gives way; empty: not known
     */
    public Told application(String scheduler, String application, Map<String, Double> progress)
            throws IOException {
        ObjectNode request = NodeSocket.message().put("scheduler", scheduler).put("application", application).put("aside", true);
        if (!progress.isEmpty()) {
            ObjectNode shares = request.putObject("progress");
            progress.forEach(shares::put);
        }
        JsonNode answer = node.call(APPLICATION, request);
        return new Told(Container.listOf(answer), answer.path("doubt").asText());
    }
}
