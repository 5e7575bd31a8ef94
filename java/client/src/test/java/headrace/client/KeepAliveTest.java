package headrace.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KeepAliveTest {
    private static final String APPLICATION = "application_1_0001";
    private static final Duration SHORT = Duration.ofMillis(5);

    @TempDir
    Path dir;
    private Path socket;
    private final BlockingQueue<Set<String>> alive = new LinkedBlockingQueue<>();
    private final BlockingQueue<String> requests = new LinkedBlockingQueue<>();
    private volatile String answer = "{}";

    @BeforeEach
    void setUp() {
        socket = dir.resolve("s");
    }

    private UnixServer daemon() throws Exception {
        return UnixServer.answering(socket, request -> {
            requests.add(request);
            return UnixServer.http("200 OK", answer);
        });
    }

    private KeepAlive keepAlive(KeepAlive.Framework framework) {
        return KeepAlive.start(new NodeClient(socket, Duration.ofMinutes(1)), APPLICATION, framework, SHORT);
    }

    private void awaitRounds(int count) throws InterruptedException {
        requests.clear();
        for (int i = 0; i <= count; i++) {
            requests.take();
        }
    }

    @Test
    void asksForTheApplication() throws Exception {
        try (UnixServer daemon = daemon(); KeepAlive keepAlive = keepAlive(alive::add)) {
            String request = requests.take();
            assertTrue(request.startsWith("POST /headrace.v1.HostService/Application "), request);
            assertTrue(request.endsWith("{\"scheduler\":\"yarn\",\"application\":\"" + APPLICATION + "\",\"aside\":true}"), request);
        }
    }

    /** Knows how far one container is, at first. */
    private static final class Knowing implements KeepAlive.Framework {
        private final AtomicInteger asked = new AtomicInteger();
        private final BlockingQueue<Set<String>> alive;

        Knowing(BlockingQueue<Set<String>> alive) {
            this.alive = alive;
        }

        @Override
        public void alive(Set<String> containers) {
            alive.add(containers);
        }

        @Override
        public Map<String, Double> progress() {
            if (asked.getAndIncrement() > 0) {
                throw new NoSuchMethodError("of another version");
            }
            return Map.of("c", 0.25);
        }
    }

    @Test
    void passesOnWhatIsKnownOfProgress() throws Exception {
        answer = "{\"containers\": [{\"id\": \"c\", \"state\": \"suspended\"}]}";
        try (UnixServer daemon = daemon(); KeepAlive keepAlive = keepAlive(new Knowing(alive))) {
            String request = requests.take();
            assertTrue(request.endsWith(",\"progress\":{\"c\":0.25}}"), request);
            String later = requests.take();
            assertTrue(later.endsWith("\"application\":\"" + APPLICATION + "\",\"aside\":true}"), later);
            assertEquals(Set.of("c"), alive.take());
            assertEquals(Set.of("c"), alive.take());
        }
    }

    @Test
    void tellsWhoDoesNotRun() throws Exception {
        answer = """
            {"containers": [
              {"id": "runs", "state": "running"},
              {"id": "suspended", "state": "suspended"},
              {"id": "checkpointed", "state": "checkpointed", "ordered": "resume"},
              {"id": "dumped", "state": "running", "doing": "checkpointing"},
              {"id": "resumed", "state": "suspended", "doing": "resuming"},
              {"id": "lost", "state": "suspended", "away": true},
              {"id": "killed", "state": "running", "doing": "killing"},
              {"id": "told by number", "taskState": "TASK_STATE_SUSPENDED", "state": "running"},
              {"id": "dumped now", "taskState": "TASK_STATE_RUNNING", "operation": "OPERATION_CHECKPOINTING"},
              {"id": "runs now", "taskState": "TASK_STATE_RUNNING", "state": "suspended"},
              {"id": "of a newer version", "taskState": "TASK_STATE_ASLEEP", "operation": 99}]}""";
        try (UnixServer daemon = daemon(); KeepAlive keepAlive = keepAlive(alive::add)) {
            Set<String> want = Set.of("suspended", "checkpointed", "dumped", "resumed", "told by number", "dumped now");
            assertEquals(want, alive.take());
            assertEquals(want, alive.take());
        }
    }

    @Test
    void isSilentWhenAllRun() throws Exception {
        answer = "{\"containers\": [{\"id\": \"runs\", \"state\": \"running\"}]}";
        try (UnixServer daemon = daemon(); KeepAlive keepAlive = keepAlive(alive::add)) {
            awaitRounds(3);
            assertNull(alive.poll());
        }
    }

    @Test
    void outlivesADaemonThatIsAwayOrWrong() throws Exception {
        answer = "{\"containers\": [{\"id\": \"c\", \"state\": \"suspended\"}]}";
        try (KeepAlive keepAlive = keepAlive(alive::add)) {
            try (UnixServer daemon = daemon()) {
                alive.take();
            }
            try (UnixServer wrong = UnixServer.answering(socket, request -> {
                requests.add(request);
                return "HTTP/1.0 500 Oh\r\n\r\nno JSON";
            })) {
                awaitRounds(2);
            }
            alive.clear();
            try (UnixServer daemon = daemon()) {
                assertEquals(Set.of("c"), alive.take());
            }
        }
    }

    @Test
    void tellsAndSaysSoWhenItIsInDoubt() throws Exception {
        answer = "{\"containers\": [{\"id\": \"c\", \"state\": \"suspended\"}], \"doubt\": \"the manager is away\"}";
        try (UnixServer daemon = daemon(); KeepAlive keepAlive = keepAlive(alive::add)) {
            assertEquals(Set.of("c"), alive.take());
            alive.take();
            assertTrue(keepAlive.failing(), "nothing was said of the doubt");
            answer = "{}";
            awaitRounds(2);
            assertFalse(keepAlive.failing(), "the doubt is over");
        }
    }

    @Test
    void outlivesAFrameworkThatThrows() throws Exception {
        answer = "{\"containers\": [{\"id\": \"c\", \"state\": \"suspended\"}]}";
        KeepAlive.Framework broken = containers -> {
            alive.add(containers);
            throw new NoSuchMethodError("of another version");
        };
        try (UnixServer daemon = daemon(); KeepAlive keepAlive = keepAlive(broken)) {
            alive.take();
            alive.take();
        }
    }

    @Test
    void endsWhenClosed() throws Exception {
        try (UnixServer daemon = daemon()) {
            KeepAlive keepAlive = keepAlive(alive::add);
            requests.take();
            keepAlive.close();
            assertTrue(keepAlive.ends(Duration.ofMinutes(5)), "the thread still runs 5 min after it was closed");
        }
    }
}
