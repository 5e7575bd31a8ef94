package headrace.yarn.rm;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import headrace.client.ManagerClient;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import javax.net.ssl.SSLContext;
import org.apache.hadoop.yarn.api.records.ContainerId;

/** A manager without nodes: it answers as it is told, and keeps the states that it is told. */
final class FakeManager implements AutoCloseable {
    static final String TOKEN = "a-token";

    static final class State {
        String state = "running";
        String doing = "";
        String ordered = "";
        String reason = "";
        boolean held;
        boolean away;
        boolean archived;
        boolean keeps;
    }

    final Path tokenFile;
    private final boolean secret;
    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final ObjectMapper json = new ObjectMapper();
    private final Map<String, State> states = new LinkedHashMap<>();
    private final List<String> asked = new ArrayList<>();
    private final List<Integer> claims = new ArrayList<>();
    private final List<Map<String, ManagerClient.Application>> applications = new ArrayList<>();
    private final List<String> ended = new ArrayList<>();
    private final List<String> resumed = new ArrayList<>();
    private final List<String> released = new ArrayList<>();
    private final Map<String, Double> costs = new HashMap<>();
    private boolean prices = true;
    private int priced;
    private long version = 1000;
    private long first = version;
    private long heard; // the last version that the questioner knew
    private int preempts;
    private int refused;
    private int observed;
    private int unheard;
    private String mechanism = "suspend";
    private boolean prompt = true;
    private volatile String token = TOKEN;
    private boolean releases = true;
    private boolean down;
    private boolean stopping;
    private int waiting;
    private boolean closed;

    FakeManager(Path dir) throws IOException {
        this(dir, null);
    }

    /** @param tls what it shows who it is by; null: it is asked without TLS */
    FakeManager(Path dir, SSLContext tls) throws IOException {
        secret = tls != null;
        tokenFile = Files.writeString(dir.resolve("token"), TOKEN + "\n");
        Files.setPosixFilePermissions(tokenFile, PosixFilePermissions.fromString("rw-------"));
        InetSocketAddress any = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        if (secret) {
            HttpsServer https = HttpsServer.create(any, 0);
            https.setHttpsConfigurator(new HttpsConfigurator(tls));
            server = https;
        } else {
            server = HttpServer.create(any, 0);
        }
        server.setExecutor(threads);
        server.createContext("/headrace.v1.ManagerService/", this::answer);
        server.start();
    }

    String url() {
        return (secret ? "https" : "http") + "://127.0.0.1:" + server.getAddress().getPort();
    }

    /** Which token it wants from now on. */
    void wants(String other) {
        token = other;
    }

    /** What Preempt says from now on. */
    synchronized void decides(String answer) {
        mechanism = answer;
    }

    /** Whether orders are carried out at once; else they stay ordered until {@link #set}. */
    synchronized void carriesOut(boolean atOnce) {
        prompt = atOnce;
    }

    /** What Price says of a container, 100 of others; from 1e9 on: that it cannot give way. */
    synchronized void costs(ContainerId id, double cost) {
        costs.put(id.toString(), cost);
    }

    /** Whether Price answers. */
    synchronized void tellsPrices(boolean does) {
        prices = does;
    }

    /** Whether Release orders anything. */
    synchronized void releases(boolean does) {
        releases = does;
    }

    /** How often it was asked for prices. */
    synchronized int priced() {
        return priced;
    }

    /** Whether every call fails. */
    synchronized void down(boolean fails) {
        down = fails;
        notifyAll();
    }

    /** Forgets everything, as a manager does that is started again. */
    synchronized void restart() throws InterruptedException {
        restart(() -> {
            states.clear();
            ended.clear();
        });
    }

    /**
     * As a manager that is started again while its port is kept: whoever waits is answered with what was true, and who
     * calls meanwhile when it is back.
     */
    synchronized void restart(Runnable change) throws InterruptedException {
        stopping = true;
        notifyAll();
        while (waiting > 0) {
            wait();
        }
        change.run();
        first = version + 1000;
        version = first;
        stopping = false;
        notifyAll();
    }

    interface Change {
        void on(State state);
    }

    synchronized void set(ContainerId id, Change change) {
        change.on(states.computeIfAbsent(id.toString(), name -> new State()));
        version++;
        notifyAll();
    }

    synchronized List<String> asked() {
        return List.copyOf(asked);
    }

    /** The priorities for which each of those asked about was to give way. */
    synchronized List<Integer> claims() {
        return List.copyOf(claims);
    }

    /** The applications, as they were told last. */
    synchronized Map<String, ManagerClient.Application> applications() {
        return applications.get(applications.size() - 1);
    }

    /** The applications, as often as they were told. */
    synchronized List<Map<String, ManagerClient.Application>> allApplications() {
        return List.copyOf(applications);
    }

    /** The applications that it was told have ended, each as often as it was since whoever watches has begun anew, as after any failure. */
    synchronized List<String> ended() {
        return List.copyOf(ended);
    }

    synchronized List<String> resumed() {
        return List.copyOf(resumed);
    }

    synchronized List<String> released() {
        return List.copyOf(released);
    }

    /** Whether whoever watches has had the newest answer. */
    synchronized boolean isHeard() {
        return heard == version;
    }

    synchronized int preempts() {
        return preempts;
    }

    /** How often Preempt has failed because of {@link #down}. */
    synchronized int refused() {
        return refused;
    }

    /** How often Containers has failed because of {@link #down}. */
    synchronized int unheard() {
        return unheard;
    }

    synchronized int observed() {
        return observed;
    }

    private void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            JsonNode request = json.readTree(exchange.getRequestBody());
            String method = exchange.getRequestURI().getPath().replaceAll(".*/", "");
            boolean known = ("Bearer " + token).equals(exchange.getRequestHeaders().getFirst("Authorization"));
            ObjectNode answer = known ? answer(method, request) : null;
            int status = !known ? 401 : answer == null ? 503 : 200;
            byte[] body = (answer == null ? "{\"message\":\"no\"}" : answer.toString()).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private synchronized ObjectNode answer(String method, JsonNode request) throws InterruptedException {
        while (stopping) {
            wait();
        }
        if (down) {
            refused += method.equals("Preempt") ? 1 : 0;
            unheard += method.equals("Containers") ? 1 : 0;
            return null;
        }
        return switch (method) {
            case "Preempt" -> preempt(request);
            case "Price" -> price(request);
            case "Resume" -> resume(request.path("container").asText());
            case "Release" -> release(request.path("container").asText());
            case "Containers" -> containers(request);
            default -> throw new IllegalArgumentException(method);
        };
    }

    private ObjectNode preempt(JsonNode request) {
        boolean observe = request.path("observe").asBoolean();
        preempts++;
        ObjectNode answer = json.createObjectNode();
        ArrayNode decisions = answer.putArray("decisions");
        for (JsonNode victim : request.path("victims")) {
            String id = victim.path("container").asText();
            asked.add(id);
            claims.add(victim.path("forPriority").asInt());
            observed += observe ? 1 : 0;
            decisions.addObject().put("container", id).put("by", word("MECHANISM_", mechanism)).put("reason", "a test");
            if (!observe && (mechanism.equals("suspend") || mechanism.equals("checkpoint"))) {
                order(id, mechanism, mechanism + "ed");
            }
        }
        return answer;
    }

    private ObjectNode price(JsonNode request) {
        priced++;
        if (!prices) {
            return null;
        }
        ObjectNode answer = json.createObjectNode();
        ArrayNode list = answer.putArray("prices");
        for (JsonNode victim : request.path("victims")) {
            String id = victim.path("container").asText();
            ObjectNode price = list.addObject().put("container", id);
            if (!costs.containsKey(id) || costs.get(id) < 1e9) {
                price.put("cost", costs.getOrDefault(id, 100.0));
            }
        }
        return answer;
    }

    private static String word(String prefix, String name) {
        return name.isEmpty() ? "" : prefix + name.toUpperCase(Locale.ROOT);
    }

    private ObjectNode resume(String id) {
        if (!states.containsKey(id)) {
            return null;
        }
        resumed.add(id);
        order(id, "resume", "running");
        return json.createObjectNode();
    }

    private ObjectNode release(String id) {
        released.add(id);
        return json.createObjectNode().put("ordered", releases);
    }

    private void order(String id, String verb, String result) {
        State state = states.computeIfAbsent(id, name -> new State());
        if (prompt) {
            state.state = result;
        } else {
            state.ordered = verb;
        }
        version++;
        notifyAll();
    }

    private ObjectNode containers(JsonNode request) throws InterruptedException {
        long known = request.path("version").asLong();
        if (known == 0) {
            ended.clear();
        }
        if (request.path("allApplications").asBoolean()) {
            Map<String, ManagerClient.Application> told = new HashMap<>();
            request.path("applications").properties().forEach(app -> told.put(app.getKey(),
                new ManagerClient.Application(app.getValue().path("queue").asText(), app.getValue().path("priority").asInt())));
            applications.add(told);
            request.path("endedApplications").forEach(app -> ended.add(app.asText()));
        }
        if (known != 0 && known < first) {
            return null; // it is of another manager
        }
        heard = known;
        long deadline = System.nanoTime() + (long) (request.path("wait").asDouble() * 1e9);
        waiting++;
        while (!closed && !down && !stopping && known == version && System.nanoTime() < deadline) {
            wait(Math.max(1, (deadline - System.nanoTime()) / 1_000_000));
        }
        waiting--;
        notifyAll();
        if (down) {
            unheard++;
            return null;
        }
        ObjectNode answer = json.createObjectNode().put("version", Long.toString(version));
        ArrayNode list = answer.putArray("containers");
        states.forEach((id, state) -> list.addObject().put("id", id).put("taskState", word("TASK_STATE_", state.state))
            .put("operation", word("OPERATION_", state.doing)).put("command", word("COMMAND_", state.ordered)).put("held", state.held).put("away", state.away)
            .put("archived", state.archived).put("keepsRoom", state.keeps).put("reason", state.reason)
            .putObject("hosting").put("scheduler", "yarn"));
        return answer;
    }

    @Override
    public void close() {
        synchronized (this) {
            closed = true;
            notifyAll();
        }
        server.stop(0);
        threads.shutdownNow();
    }
}
