package headrace.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * Speaks to headrace.v1.InputService of the daemon of this machine, which passes everything on to the manager as this
 * process's user. Methods block, and throw what {@link NodeSocket#call} throws. Safe for use by several threads.
 */
public final class InputsClient {
    private static final String SERVICE = "headrace.v1.InputService/";

    private final NodeSocket node;

    /** @param timeout of a whole call; more than zero */
    public InputsClient(Path socket, Duration timeout) {
        this.node = new NodeSocket(socket, timeout);
    }

    /**
     * How the input of a job stands.
     *
     * @param left bytes that are still to be read into memory
     */
    public record Status(long files, long bytes, long left) {
        private static Status of(JsonNode message) {
            return new Status(message.path("files").asLong(), message.path("bytes").asLong(),
                message.path("left").asLong());
        }
    }

    /**
     * Returns a file as requests name it; empty: it is none of HDFS.
     *
     * @param file absolute, with its file system
     */
    public static Optional<String> name(URI file) {
        if (!"hdfs".equals(file.getScheme()) || file.getAuthority() == null || file.getPath() == null) {
            return Optional.empty();
        }
        String path = file.getPath();
        if (path.matches("(?s).*[*?\\[{\\\\].*")) { // else it would be a pattern
            path = path.replaceAll("[*?\\[\\]{},\\\\^]", "\\\\$0");
        }
        return Optional.of("hdfs://" + file.getAuthority() + path);
    }

    /**
     * Has files read into memory and kept there until the job ends. When it returns they are known, and nothing may be
     * read yet. What was asked for before is added to.
     *
     * @param job as its scheduler names it
     * @param implicit each block is let go as the job reads it
     * @param submitted milliseconds since 1970
     */
    public Status warm(String job, List<String> files, boolean implicit, long submitted) throws IOException {
        ObjectNode request = NodeSocket.message().put("job", job).put("implicit", implicit).put("submittedMs", submitted);
        ArrayNode paths = request.putArray("paths");
        files.forEach(paths::add);
        return Status.of(node.call(SERVICE + "Warm", request));
    }

    /** Returns how it stands; empty: nothing is known of it. */
    public Optional<Status> status(String job) throws IOException {
        JsonNode inputs = node.call(SERVICE + "Inputs", naming(job)).path("inputs");
        return inputs.isEmpty() ? Optional.empty() : Optional.of(Status.of(inputs.get(0)));
    }

    /** Lets go what is kept for a job. */
    public void cool(String job) throws IOException {
        node.call(SERVICE + "Cool", naming(job));
    }

    private static ObjectNode naming(String job) {
        ObjectNode request = NodeSocket.message();
        request.putArray("jobs").add(job);
        return request;
    }
}
