package headrace.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import headrace.client.BlockCopies.Block;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Speaks to headrace.v1.InputService of the daemon of this machine, which passes everything on to the manager as this
 * process's user. Methods block, and throw what {@link NodeSocket#call} throws. Safe for use by several threads.
 */
public final class InputsClient {
    private static final String SERVICE = "headrace.v1.InputService/";
    /** Of a block; the manager takes no more. */
    private static final int MOST_HOSTS = 16;
    /** In a request: about a megabyte. */
    private static final int MOST_READERS = 10_000;

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
     * Says where a part of a file will be read.
     *
     * @param file as requests name it
     * @param host as the file system names it
     */
    public record Reader(String file, long start, long length, String host) { }

    /**
     * Has files read into memory and kept there until the job ends. When it returns they are known, and nothing may be
     * read yet. What was asked for before is added to.
     *
     * @param job as its scheduler names it
     * @param readers of files, as far as they are known; of very many some are left out
     * @param implicit each block is let go as the job reads it
     * @param submitted milliseconds since 1970
     * @param lease of a job that no scheduler names: how long it goes on unless it is renewed; zero: it has none
     */
    public Status warm(String job, List<String> files, Map<String, List<Reader>> readers, boolean implicit, long submitted,
            Duration lease) throws IOException {
        ObjectNode request = NodeSocket.message().put("job", job).put("implicit", implicit).put("submittedMs", submitted);
        if (!lease.isZero()) {
            request.put("lease", seconds(lease));
        }
        ArrayNode paths = request.putArray("paths");
        files.forEach(paths::add);
        ArrayNode reading = NodeSocket.message().arrayNode();
        for (int i = 0; i < files.size(); i++) {
            for (Reader reader : readers.getOrDefault(files.get(i), List.of())) {
                if (reading.size() < MOST_READERS) {
                    reading.addObject().put("path", i).put("start", "" + reader.start).put("length", "" + reader.length)
                        .put("host", reader.host);
                }
            }
        }
        if (!reading.isEmpty()) {
            request.set("readers", reading);
        }
        return Status.of(node.call(SERVICE + "Warm", request));
    }

    /** Returns how it stands; empty: nothing is known of it. */
    public Optional<Status> status(String job) throws IOException {
        JsonNode inputs = node.call(SERVICE + "Inputs", naming(List.of(job))).path("inputs");
        return inputs.isEmpty() ? Optional.empty() : Optional.of(Status.of(inputs.get(0)));
    }

    /**
     * A block of a file.
     *
     * @param host where it is in memory, or will be, as the file system names it; empty: nowhere
     */
    public record Place(long bytes, String host) { }

    /** Returns where the blocks of files are kept for a job, in their order, of the files that were asked for; in several calls for many. */
    public Map<String, List<Place>> places(String job, Collection<String> files) throws IOException {
        Map<String, String> names = new HashMap<>(); // as requests name them, by what they are called
        files.forEach(file -> names.put(file.replaceAll("\\\\(.)", "$1"), file));
        Map<String, List<Place>> all = new HashMap<>();
        for (List<String> part : Warming.parts(names.keySet())) {
            ObjectNode request = NodeSocket.message().put("job", job);
            ArrayNode paths = request.putArray("paths");
            part.forEach(paths::add);
            for (JsonNode file : node.call(SERVICE + "Places", request).path("files")) {
                List<Place> blocks = new ArrayList<>();
                for (int i = 0; i < file.path("sizes").size(); i++) {
                    blocks.add(new Place(file.path("sizes").get(i).asLong(), file.path("hosts").path(i).asText()));
                }
                all.put(names.get(file.path("path").asText()), blocks);
            }
        }
        return all;
    }

    /**
     * Says that jobs go on for as long as their lease from now on.
     *
     * @param lease zero: they have none
     * @return how the input of each stands that the manager knows: adopted, when it was started since and does not know
     *     all that was asked for; ended, when nothing is kept any more; or as headrace cluster jobs tells
     */
    public Map<String, String> renew(Collection<String> jobs, Duration lease) throws IOException {
        ObjectNode request = naming(jobs);
        if (!lease.isZero()) {
            request.put("lease", seconds(lease));
        }
        Map<String, String> states = new HashMap<>();
        for (JsonNode job : node.call(SERVICE + "Inputs", request).path("inputs")) {
            states.put(job.path("job").asText(), job.path("state").asText());
        }
        return states;
    }

    /** Lets go what is kept for a job. */
    public void cool(String job) throws IOException {
        node.call(SERVICE + "Cool", naming(List.of(job)));
    }

    private static double seconds(Duration time) {
        return time.toMillis() / 1e3;
    }

    private static ObjectNode naming(Collection<String> jobs) {
        ObjectNode request = NodeSocket.message();
        ArrayNode names = request.putArray("jobs");
        jobs.forEach(names::add);
        return request;
    }

    /**
     * Tells what of an application's blocks is in memory where, and has changed. It waits for a change at most so long.
     *
     * @param application as its scheduler names it
     * @param add blocks that it will read, and the hosts that have replicas, as the file system names them; with version
     *     0 they are all that it reads so far
     * @param remove blocks that it does not read any more
     * @param version that of the last answer; 0: tell everything
     */
    MemoryChanges follow(String application, Map<Block, List<String>> add, Collection<Block> remove, long version,
            Duration wait) throws IOException {
        ObjectNode request = NodeSocket.message().put("application", application).put("version", version)
            .put("wait", seconds(wait));
        ArrayNode adding = request.putArray("add");
        Map<List<Object>, ArrayNode> alike = new HashMap<>();
        add.forEach((block, hosts) -> alike.computeIfAbsent(List.of(block.pool(), hosts), key -> {
            ObjectNode group = adding.addObject();
            ArrayNode names = group.putArray("hosts");
            hosts.stream().limit(MOST_HOSTS).forEach(names::add);
            return group.putObject("blocks").put("pool", block.pool()).putArray("numbers");
        }).add(block.number()));
        ArrayNode removing = request.putArray("remove");
        Map<String, ArrayNode> pools = new HashMap<>();
        for (Block block : remove) {
            pools.computeIfAbsent(block.pool(), pool ->
                removing.addObject().put("pool", pool).putArray("numbers")).add(block.number());
        }
        return MemoryChanges.of(node.call(SERVICE + "Follow", request));
    }

    /** Returns about how long what {@link #follow} sends of blocks with the same hosts is, beside their numbers. */
    static int characters(Block block, List<String> hosts) {
        return hosts.stream().limit(MOST_HOSTS).mapToInt(host -> host.length() + 3).sum() + block.pool().length() + 60;
    }
}
