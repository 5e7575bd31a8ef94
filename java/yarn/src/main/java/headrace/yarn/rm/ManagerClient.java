package headrace.yarn.rm;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ContainerId;

/**
 * Speaks to headrace.v1.ManagerService in JSON. All methods block; none may be called under a lock of the scheduler.
 * Safe for use by several threads.
 */
final class ManagerClient {
    private static final int HTTP_UNAUTHORIZED = 401;

    private final URI manager;
    private final Path tokenFile;
    private final Duration timeout;
    private final HttpClient http;
    private final ObjectMapper json = new ObjectMapper();
    private volatile String token;

    ManagerClient(URI manager, Path tokenFile, Duration timeout) {
        this.manager = manager;
        this.tokenFile = tokenFile;
        this.timeout = timeout;
        this.http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(timeout).build();
    }

    /** How a container gives way. The mechanism is wait, suspend, checkpoint, kill, or empty when it is not known. */
    record Decision(String mechanism, String reason) {
        boolean parks() {
            return mechanism.equals("suspend") || mechanism.equals("checkpoint");
        }
    }

    /**
     * A container that has to give way.
     *
     * @param forPriority that of the application for which it does, on Headrace's scale; 0: it is not known, or what
     *     counts is not that but what a queue is guaranteed
     */
    record Victim(ContainerId id, int forPriority) {
    }

    /** @param priority on Headrace's scale */
    record Application(String queue, int priority) {
    }

    /** The containers of YARN that have not ended. */
    record Answer(long version, List<RemoteContainer> containers) {
    }

    /** @return a decision for each victim, in the same order */
    List<Decision> preempt(List<Victim> victims, boolean observe) throws IOException {
        ObjectNode request = json.createObjectNode();
        ArrayNode list = request.putArray("victims");
        victims.forEach(v -> list.addObject().put("container", v.id().toString()).put("forPriority", v.forPriority()));
        if (observe) {
            request.put("observe", true);
        }
        JsonNode answers = call("Preempt", request, timeout).path("decisions");
        List<Decision> decisions = new ArrayList<>();
        for (int i = 0; i < victims.size(); i++) {
            JsonNode answer = answers.path(i);
            boolean same = answer.path("container").asText().equals(victims.get(i).id().toString());
            if (!same) {
                throw new IOException("the manager's answer to Preempt does not fit the question");
            }
            decisions.add(new Decision(answer.path("mechanism").asText(), answer.path("reason").asText()));
        }
        return decisions;
    }

    void resume(ContainerId container) throws IOException {
        call("Resume", json.createObjectNode().put("container", container.toString()), timeout);
    }

    /**
     * Has the container's checkpoint brought to where other machines find it, if it is expected to go on sooner there.
     *
     * @param wait how long it is still expected to wait for room on its own machine, in seconds
     */
    void release(ContainerId container, double wait) throws IOException {
        call("Release", json.createObjectNode().put("container", container.toString()).put("wait", wait), timeout);
    }

    /**
     * @param version of the last answer; 0: answer at once
     * @param wait how long to wait for something newer
     * @param applications all that run; null: as before
     */
    Answer containers(long version, Duration wait, Map<String, Application> applications) throws IOException {
        ObjectNode request = json.createObjectNode();
        if (applications != null && !applications.isEmpty()) {
            ObjectNode map = request.putObject("applications");
            applications.forEach((id, app) -> map.putObject(id).put("queue", app.queue()).put("priority", app.priority()));
        }
        if (version != 0) {
            request.put("version", Long.toUnsignedString(version));
            request.put("wait", wait.toMillis() / 1000.0);
        }
        JsonNode answer = call("Containers", request, timeout.plus(wait));
        List<RemoteContainer> containers = new ArrayList<>();
        answer.path("containers").forEach(c -> remote(c).ifPresent(containers::add));
        return new Answer(unsigned(answer.path("version")), containers);
    }

    private static Optional<RemoteContainer> remote(JsonNode c) {
        if (!c.path("hosting").path("scheduler").asText("yarn").equals("yarn")) {
            return Optional.empty();
        }
        try {
            boolean busy = !c.path("doing").asText().isEmpty() || !c.path("ordered").asText().isEmpty();
            return Optional.of(new RemoteContainer(ContainerId.fromString(c.path("id").asText()),
                c.path("state").asText(), busy, c.path("held").asBoolean(), c.path("away").asBoolean(),
                c.path("archived").asBoolean(), c.path("reason").asText()));
        } catch (IllegalArgumentException e) {
            return Optional.empty(); // not a name of YARN's
        }
    }

    private static long unsigned(JsonNode number) {
        try {
            return Long.parseUnsignedLong(number.asText("0"));
        } catch (NumberFormatException e) {
            return 0;
        }
    }

    private JsonNode call(String method, ObjectNode request, Duration limit) throws IOException {
        HttpResponse<String> response = send(HttpRequest.newBuilder()
            .uri(manager.resolve("/headrace.v1.ManagerService/" + method))
            .timeout(limit)
            .header("Content-Type", "application/json")
            .header("Authorization", "Bearer " + token())
            .POST(HttpRequest.BodyPublishers.ofString(json.writeValueAsString(request)))
            .build());
        if (response.statusCode() == HTTP_UNAUTHORIZED) {
            token = null; // the file may have another one by now
        }
        if (response.statusCode() != 200) {
            throw new IOException("the manager at " + manager + " answers " + method + " with "
                + response.statusCode() + ": " + message(response.body()));
        }
        return json.readTree(response.body());
    }

    private HttpResponse<String> send(HttpRequest request) throws IOException {
        try {
            return http.send(request, HttpResponse.BodyHandlers.ofString());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while the manager was asked");
        } catch (IOException e) {
            String why = e.getMessage() == null ? e.getClass().getSimpleName() : e.getMessage();
            throw new IOException("the manager at " + manager + " cannot be reached: " + why, e);
        }
    }

    private String message(String body) {
        try {
            String message = json.readTree(body).path("message").asText();
            return message.isEmpty() ? body.strip() : message;
        } catch (IOException e) {
            return body.strip();
        }
    }

    private String token() throws IOException {
        String known = token;
        if (known == null) {
            try {
                known = readToken();
            } catch (FileSystemException e) { // whose message is only the file
                throw new IOException(tokenFile + " cannot be read by " + System.getProperty("user.name") + " ("
                    + e.getClass().getSimpleName() + "): it must be that account's copy of the cluster's token", e);
            }
            token = known;
        }
        return known;
    }

    private String readToken() throws IOException {
        Set<PosixFilePermission> allowed = Files.getPosixFilePermissions(tokenFile);
        if (allowed.contains(PosixFilePermission.OTHERS_READ)) {
            throw new IOException(tokenFile + " can be read by everybody: chmod o-rwx it, and make a new token");
        }
        String found = Files.readString(tokenFile).strip();
        if (found.isEmpty()) {
            throw new IOException(tokenFile + " is empty; it must have the token of the cluster");
        }
        return found;
    }
}
