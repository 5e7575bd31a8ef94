package headrace.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import headrace.client.BlockCopies.Block;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.UnaryOperator;

/** For tests: what answers applications that follow blocks, as the manager does behind the daemon of a machine. */
public final class FakeFollow implements UnaryOperator<String> {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** However long a caller would wait; it calls again. */
    private static final long LONGEST_MS = 10;

    /** An application that has registered. */
    private static final class App {
        final Set<Block> blocks = new HashSet<>();
        Set<Block> changed = new HashSet<>();
        Set<Block> sent = new HashSet<>();
        long before;
        long last;
    }

    private final Map<String, App> apps = new HashMap<>();
    private final Map<Block, Map<String, Long>> memory = new HashMap<>();
    private final Map<Block, List<String>> hosts = new HashMap<>();
    private long number = 1;
    private int most = Integer.MAX_VALUE;
    private UnaryOperator<String> instead = request -> null;
    /** The requests, without their heads. */
    public final List<String> requests = new CopyOnWriteArrayList<>();

    /** A host has so many of a block's 100 bytes in memory. */
    public synchronized void set(Block block, String host, long resident) {
        Map<String, Long> at = memory.computeIfAbsent(block, b -> new TreeMap<>());
        if (resident == 0) {
            at.remove(host);
        } else {
            at.put(host, resident);
        }
        apps.values().stream().filter(a -> a.blocks.contains(block)).forEach(a -> a.changed.add(block));
        notifyAll();
    }

    /** All is forgotten but what is in memory. */
    public synchronized void restart() {
        apps.clear();
        number += 1000;
    }

    /** What to answer, head and body, instead of what is right; null for a request: what is right. */
    public synchronized void instead(UnaryOperator<String> answer) {
        instead = answer;
    }

    /** How many blocks each application may register. Of a request with too many some are registered. */
    public synchronized void most(int blocks) {
        most = blocks;
    }

    /** The blocks that an application has registered. */
    public synchronized Set<Block> followed(String application) {
        App app = apps.get(application);
        return app == null ? Set.of() : Set.copyOf(app.blocks);
    }

    /** The hosts that are said to have replicas of a block. */
    public synchronized List<String> hosts(Block block) {
        return hosts.get(block);
    }

    @Override
    public synchronized String apply(String request) {
        String body = request.substring(request.indexOf("\r\n\r\n") + 4);
        requests.add(body);
        notifyAll();
        String other = instead.apply(body);
        if (other != null) {
            return other;
        }
        try {
            return answer(JSON.readTree(body));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private String answer(JsonNode q) throws InterruptedException {
        String name = q.path("application").asText();
        long version = q.path("version").asLong();
        App app = apps.get(name);
        if (app == null && (version != 0 || q.path("add").isEmpty())) {
            return UnixServer.http("404 Not Found", "{\"code\":\"not_found\",\"message\":\"register again\"}");
        }
        if (app == null) {
            app = new App();
            apps.put(name, app);
        }
        if (version == 0) {
            app.blocks.clear();
        }
        for (JsonNode group : q.path("add")) {
            List<String> on = new ArrayList<>();
            group.path("hosts").forEach(host -> on.add(host.asText()));
            for (Block block : blocks(group.path("blocks"))) {
                if (app.blocks.size() >= most) {
                    return UnixServer.http("429 Too Many Requests", "{\"code\":\"resource_exhausted\",\"message\":\"too many blocks\"}");
                }
                hosts.put(block, on);
                app.blocks.add(block);
                if (memory.containsKey(block)) {
                    app.changed.add(block);
                }
            }
        }
        for (JsonNode list : q.path("remove")) {
            app.blocks.removeAll(blocks(list));
        }
        long deadline = System.nanoTime() + Math.min(LONGEST_MS, (long) (1000 * q.path("wait").asDouble())) * 1_000_000;
        long left;
        while (version == app.last && app.changed.isEmpty() && (left = deadline - System.nanoTime()) > 0) {
            wait(left / 1_000_000 + 1);
        }
        return UnixServer.http("200 OK", changes(app, version).toString());
    }

    private ObjectNode changes(App app, long version) {
        boolean full = version == 0 || version != app.last && version != app.before;
        Set<Block> tell = app.changed;
        if (full) {
            tell = new HashSet<>(app.blocks);
            tell.removeIf(block -> memory.getOrDefault(block, Map.of()).isEmpty());
        } else if (version == app.before && version != app.last) {
            tell.addAll(app.sent);
        }
        app.before = full ? 0 : version;
        app.last = ++number;
        app.sent = tell;
        app.changed = new HashSet<>();
        ObjectNode answer = NodeSocket.message().put("version", "" + app.last).put("full", full);
        ArrayNode machines = answer.putArray("machines");
        ArrayNode blocks = answer.putArray("blocks");
        for (Block block : tell) {
            ObjectNode one = blocks.addObject().put("pool", block.pool()).put("number", "" + block.number());
            one.put("bytes", "100");
            ArrayNode on = one.putArray("machines");
            ArrayNode resident = one.putArray("resident");
            memory.getOrDefault(block, Map.of()).forEach((host, bytes) -> {
                on.add(machines.size());
                machines.addObject().putArray("hosts").add("node of " + host).add(host);
                resident.add("" + bytes);
            });
        }
        return answer;
    }

    private static List<Block> blocks(JsonNode list) {
        List<Block> blocks = new ArrayList<>();
        list.path("numbers").forEach(n -> blocks.add(new Block(list.path("pool").asText(), n.asLong())));
        return blocks;
    }
}
