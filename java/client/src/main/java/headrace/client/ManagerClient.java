package headrace.client;

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
import java.net.http.HttpTimeoutException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLException;

/**
 * Speaks to headrace.v1.ManagerService, the daemon of a cluster. All methods block, so none may be called under a lock
 * of a scheduler; they throw IOException when the manager cannot be reached, does not answer in time, or refuses.
 * Containers are named as their scheduler writes them. Safe for use by several threads.
 */
public final class ManagerClient {
    /** How many victims the manager takes in a question. */
    public static final int MOST_VICTIMS = 20_000;
    /** How many applications that have ended the manager is told of at a time. */
    public static final int MOST_ENDED = 20_000;

    private static final int HTTP_UNAUTHORIZED = 401;
    /** Bytes of an answer at most: some 300,000 containers. */
    private static final long LIMIT = 64 << 20;

    private final URI manager;
    private final Path tokenFile;
    private final Duration timeout;
    private final HttpClient http;
    private final ObjectMapper json = new ObjectMapper();
    private volatile String token;

    /**
     * @param manager such as http://host:7411
     * @param tokenFile has the token of the cluster, and must not be readable by everybody
     * @param ca has the certificates in PEM that the manager's is checked against; null: those that this Java trusts
     * @param timeout of a whole call, for containers in addition to its wait
     * @throws IllegalArgumentException when there are no certificates in ca
     */
    public ManagerClient(URI manager, Path tokenFile, Path ca, Duration timeout) {
        this.manager = manager;
        this.tokenFile = tokenFile;
        this.timeout = timeout;
        HttpClient.Builder builder = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(timeout)
            .proxy(HttpClient.Builder.NO_PROXY); // it is in the cluster, and nobody else's business
        if (ca != null) {
            builder.sslContext(Authorities.of(ca));
        }
        this.http = builder.build();
    }

    /** A way to make room. UNKNOWN: the manager has no answer, or one that this version does not know. */
    public enum Mechanism {
        UNKNOWN, WAIT, SUSPEND, CHECKPOINT, KILL;

        @Override
        public String toString() {
            return Word.of(this);
        }
    }

    /** How a container gives way. */
    public record Decision(Mechanism mechanism, String reason) {
    }

    /**
     * A container that has to give way.
     *
     * @param forPriority that of the application for which it does, on Headrace's scale; 0: it is not known, or what
     *     counts is not that but what a queue is guaranteed
     */
    public record Victim(String id, int forPriority) {
    }

    /**
     * @param queue its name, cut where it is longer than any: whoever submits an application may write what they like
     * @param priority on Headrace's scale
     */
    public record Application(String queue, int priority) {
        private static final int LONGEST = 255;

        public Application {
            if (queue != null && queue.length() > LONGEST) {
                queue = queue.substring(0, Character.isHighSurrogate(queue.charAt(LONGEST - 1)) ? LONGEST - 1 : LONGEST);
            }
        }
    }

    /**
     * What a scheduler tells of applications.
     *
     * @param live all that wait or run
     * @param ended such as have ended for good and are never attempted again, at most {@link #MOST_ENDED}
     */
    public record Applications(Map<String, Application> live, Set<String> ended) {
    }

    /** The containers that do not only run; those of an older manager are all that have not ended. */
    public record Answer(long version, List<Container> containers) {
    }

    /**
     * Orders that containers give way.
     *
     * @param observe tell only, and order nothing
     * @return a decision for each victim, in the same order
     */
    public List<Decision> preempt(List<Victim> victims, boolean observe) throws IOException {
        ObjectNode request = json.createObjectNode();
        ArrayNode list = request.putArray("victims");
        victims.forEach(v -> list.addObject().put("container", v.id()).put("forPriority", v.forPriority()));
        if (observe) {
            request.put("observe", true);
        }
        JsonNode answers = call("Preempt", request, timeout).path("decisions");
        List<Decision> decisions = new ArrayList<>();
        for (int i = 0; i < victims.size(); i++) {
            JsonNode answer = answers.path(i);
            boolean same = answer.path("container").asText().equals(victims.get(i).id());
            if (!same) {
                throw new IOException("the manager's answer to Preempt does not fit the question");
            }
            decisions.add(new Decision(
                Word.read(answer, "by", "MECHANISM_", "", Mechanism.UNKNOWN, Mechanism.UNKNOWN),
                answer.path("reason").asText()));
        }
        return decisions;
    }

    /**
     * Tells what it would cost that containers give way, each of them alone; less is better. Orders nothing.
     *
     * @return a price for each, in the same order; none for one that cannot give way now, or is not known
     */
    public List<OptionalDouble> price(List<Victim> victims) throws IOException {
        ObjectNode request = json.createObjectNode();
        ArrayNode list = request.putArray("victims");
        victims.forEach(v -> list.addObject().put("container", v.id()).put("forPriority", v.forPriority()));
        JsonNode answers = call("Price", request, timeout).path("prices");
        List<OptionalDouble> prices = new ArrayList<>();
        for (int i = 0; i < victims.size(); i++) {
            JsonNode answer = answers.path(i);
            if (!answer.path("container").asText().equals(victims.get(i).id())) {
                throw new IOException("the manager's answer to Price does not fit the question");
            }
            JsonNode cost = answer.path("cost");
            prices.add(cost.isNumber() ? OptionalDouble.of(cost.asDouble()) : OptionalDouble.empty());
        }
        return prices;
    }

    /** Orders that a container goes on. */
    public void resume(String container) throws IOException {
        call("Resume", json.createObjectNode().put("container", container), timeout);
    }

    /**
     * Has the container's checkpoint brought to where other machines find it, if it is expected to go on sooner there.
     *
     * @param wait how long it is still expected to wait for room on its own machine, in seconds
     * @return whether it is; else it stays where it is
     */
    public boolean release(String container, double wait) throws IOException {
        return call("Release", json.createObjectNode().put("container", container).put("wait", wait), timeout).path("ordered").asBoolean();
    }

    /**
     * Returns the containers that do not only run, or have done something else, when there is something newer than the caller knows, or the time is over.
     *
     * @param version of the last answer; 0: answer at once
     * @param wait how long to wait for something newer
     * @param applications null: as before
     */
    public Answer containers(long version, Duration wait, Applications applications) throws IOException {
        ObjectNode request = json.createObjectNode().put("aside", true);
        if (applications != null) {
            request.put("allApplications", true); // an empty map says nothing
            ObjectNode map = request.putObject("applications");
            applications.live().forEach((id, app) -> map.putObject(id).put("queue", app.queue()).put("priority", app.priority()));
            ArrayNode ended = request.putArray("endedApplications");
            applications.ended().forEach(ended::add);
        }
        if (version != 0) {
            request.put("version", Long.toUnsignedString(version));
            request.put("wait", wait.toMillis() / 1000.0);
        }
        JsonNode answer = call("Containers", request, timeout.plus(wait));
        return new Answer(unsigned(answer.path("version")), Container.listOf(answer));
    }

    private static long unsigned(JsonNode number) {
        try {
            return Long.parseUnsignedLong(number.asText("0"));
        } catch (NumberFormatException e) {
            return 0;
        }
    }

    private JsonNode call(String method, ObjectNode request, Duration limit) throws IOException {
        String shown = token();
        HttpResponse<String> response = send(method, request, shown, limit);
        if (response.statusCode() == HTTP_UNAUTHORIZED) {
            token = null; // the file may have another one by now
            if (!token().equals(shown)) {
                response = send(method, request, token(), limit);
            }
        }
        if (response.statusCode() != 200) {
            throw new IOException("the manager at " + manager + " answers " + method + " with "
                + response.statusCode() + ": " + message(response.body()));
        }
        return json.readTree(response.body());
    }

    private HttpResponse<String> send(String method, ObjectNode request, String shown, Duration limit) throws IOException {
        return send(HttpRequest.newBuilder()
            .uri(manager.resolve("/headrace.v1.ManagerService/" + method))
            .header("Content-Type", "application/json")
            .header("Authorization", "Bearer " + shown)
            .POST(HttpRequest.BodyPublishers.ofString(json.writeValueAsString(request)))
            .build(), limit);
    }

    // The time-out that a request can have ends with the head of the answer, on most releases of Java; this one with the body.
    private HttpResponse<String> send(HttpRequest request, Duration limit) throws IOException {
        CompletableFuture<HttpResponse<String>> answer = http.sendAsync(request, head -> new BoundedBody(LIMIT));
        try {
            return answer.get(limit.toNanos(), TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while the manager was asked");
        } catch (TimeoutException e) {
            throw new SilentException("the manager at " + manager + " has not answered within " + limit.toMillis() + " ms");
        } catch (ExecutionException e) {
            Throwable cause = e.getCause();
            String why = cause.getMessage() == null ? cause.getClass().getSimpleName() : cause.getMessage();
            String message = "the manager at " + manager + " cannot be reached: " + why;
            if (cause instanceof SSLException) {
                message += "; headrace.manager.ca names the file with the certificates that its own is checked against, by default it is"
                    + " this Java's, and the name in headrace.manager.url is to be one of the certificate";
            }
            throw cause instanceof HttpTimeoutException ? new SilentException(message) : new IOException(message, cause);
        } finally {
            answer.cancel(true); // which closes the connection if there is no answer yet
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
        String found = Files.readString(tokenFile).strip().lines().findFirst().orElse("").strip(); // a second one is what others accept as well
        if (found.isEmpty()) {
            throw new IOException(tokenFile + " is empty; it must have the token of the cluster");
        }
        return found;
    }
}
