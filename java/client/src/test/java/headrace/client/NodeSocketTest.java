package headrace.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NodeSocketTest {
    private static final String METHOD = "headrace.v1.HostService/Prepare";
    private static final Duration SHORT = Duration.ofMillis(200);
    private static final Duration LONG = Duration.ofMinutes(5);

    @TempDir
    Path dir;
    private Path path;
    private NodeSocket node;

    @BeforeEach
    void setUp() {
        path = dir.resolve("s");
        node = new NodeSocket(path, LONG);
    }

    private JsonNode call(NodeSocket socket) throws IOException {
        return socket.call(METHOD, NodeSocket.message());
    }

    private String failure(String answer) throws IOException {
        try (UnixServer server = UnixServer.answering(path, request -> answer)) {
            return assertThrows(IOException.class, () -> call(node)).getMessage();
        }
    }

    @Test
    void sendsJsonAndReadsJson() throws Exception {
        AtomicReference<String> seen = new AtomicReference<>();
        try (UnixServer server = UnixServer.answering(path, request -> {
            seen.set(request);
            return UnixServer.http("200 OK", "{\"argv\":[\"a\",\"\u00e9\"],\"sinceMs\":\"12345678901234\"}");
        })) {
            ObjectNode request = NodeSocket.message().put("id", "c_1").put("name", "\u00fc");
            JsonNode answer = node.call(METHOD, request);
            assertEquals("\u00e9", answer.path("argv").path(1).asText());
            assertEquals(12345678901234L, answer.path("sinceMs").asLong());
        }
        String[] parts = seen.get().split("\r\n\r\n", 2);
        assertTrue(parts[0].startsWith("POST /" + METHOD + " HTTP/1.0\r\n"), parts[0]);
        assertTrue(parts[0].contains("\r\nContent-Type: application/json\r\n"), parts[0]);
        assertEquals("{\"id\":\"c_1\",\"name\":\"\u00fc\"}", parts[1]);
    }

    @Test
    void readsAnAnswerThatEndsWithTheConnection() throws Exception {
        try (UnixServer server = UnixServer.answering(path, request -> "HTTP/1.1 200 OK\r\nDate: x\r\n\r\n{\"a\":1}")) {
            assertEquals(1, call(node).path("a").asInt());
        }
    }

    @Test
    void carriesLargeMessagesBothWays() throws Exception {
        String large = "x".repeat(3 << 20);
        try (UnixServer server = UnixServer.answering(path, request ->
            UnixServer.http("200 OK", request.substring(request.indexOf("\r\n\r\n") + 4)))) {
            assertEquals(large, node.call(METHOD, NodeSocket.message().put("a", large)).path("a").asText());
        }
    }

    @Test
    void saysWhatTheDaemonRefuses() throws Exception {
        try (UnixServer server = UnixServer.answering(path, request -> UnixServer.http("403 Forbidden",
            "{\"code\":\"permission_denied\",\"message\":\"only operators may\"}"))) {
            RefusedException e = assertThrows(RefusedException.class, () -> call(node));
            assertEquals("permission_denied", e.code());
            assertEquals(METHOD + ": permission_denied: only operators may", e.getMessage());
        }
    }

    @Test
    void saysTheStatusOfAnErrorWithoutJson() throws Exception {
        assertEquals(METHOD + ": HTTP status 404", failure("HTTP/1.0 404 Not Found\r\n\r\n404 page not found\n"));
    }

    @Test
    void refusesWhatIsNoAnswer() throws Exception {
        assertTrue(failure("SSH-2.0-OpenSSH_9.2\r\n\r\n").contains("not HTTP"));
        assertTrue(failure("HTTP/1.0 200 OK\r\n").contains("cut off"));
        assertTrue(failure("HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\n{}").contains("2 bytes instead of 10"));
        assertTrue(failure("HTTP/1.0 200 OK\r\nContent-Length: x\r\n\r\n{}").contains("bad length"));
        assertTrue(failure("HTTP/1.0 200 OK\r\n\r\n{\"a\":").contains("no JSON"));
        assertTrue(failure("HTTP/1.0 200 OK\r\n\r\n[1]").contains("no JSON object"));
        assertTrue(failure("HTTP/1.0 200 OK\r\n\r\n").contains("no JSON object"));
        assertTrue(failure("").contains("without an answer"));
    }

    @Test
    void refusesTooLongAnAnswer() throws Exception {
        try (UnixServer server = new UnixServer(path, (in, out) -> {
            byte[] head = "HTTP/1.0 200 OK\r\n\r\n".getBytes(StandardCharsets.US_ASCII);
            out.write(head);
            byte[] part = new byte[1 << 20];
            for (int i = 0; i < (NodeSocket.LIMIT >> 20) + 8; i++) {
                out.write(part);
            }
        })) {
            assertTrue(assertThrows(IOException.class, () -> call(node)).getMessage().contains("more than"));
        }
    }

    @Test
    void refusesTooLongARequest() {
        ObjectNode request = NodeSocket.message().put("a", "x".repeat(NodeSocket.LIMIT));
        String why = assertThrows(IOException.class, () -> node.call(METHOD, request)).getMessage();
        assertTrue(why.contains("more than"), why);
    }

    @Test
    void saysThatNobodyListens() {
        String why = assertThrows(IOException.class, () -> call(node)).getMessage();
        assertTrue(why.contains(path.toString()), why);
    }

    @Test
    void refusesAPathThatNoSocketCanHave() {
        NodeSocket far = new NodeSocket(dir.resolve("x".repeat(200)), LONG);
        assertThrows(IOException.class, () -> call(far));
    }

    @Test
    void endsInTimeWhenTheServerIsSilent() throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        try (UnixServer server = new UnixServer(path, (in, out) -> done.await())) {
            assertInstanceOf(SilentException.class, endsInTime());
        } finally {
            done.countDown();
        }
    }

    @Test
    void endsInTimeWhenTheServerIsSlow() throws Exception {
        try (UnixServer server = new UnixServer(path, NodeSocketTest::drip)) {
            assertInstanceOf(SilentException.class, endsInTime());
        }
    }

    private static void drip(InputStream in, OutputStream out) throws Exception {
        out.write("HTTP/1.0 200 OK\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
        while (true) {
            out.write(' ');
            Thread.sleep(1);
        }
    }

    @Test
    void endsInTimeWhenNobodyAccepts() throws Exception {
        List<SocketChannel> waiting = new ArrayList<>();
        try (ServerSocketChannel full = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            full.bind(UnixDomainSocketAddress.of(path), 1);
            for (int i = 0; i < 2; i++) {
                waiting.add(SocketChannel.open(UnixDomainSocketAddress.of(path)));
            }
            endsInTime();
        } finally {
            for (SocketChannel channel : waiting) {
                channel.close();
            }
        }
    }

    private IOException endsInTime() {
        long began = System.nanoTime();
        IOException e = assertThrows(IOException.class, () -> call(new NodeSocket(path, SHORT)));
        long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
        assertFalse(e instanceof InterruptedIOException);
        assertTrue(took < LONG.toMillis(), "took " + took + " ms");
        assertTrue(e.getMessage().contains(path.toString()), e.getMessage());
        return e;
    }

    @Test
    void endsWhenTheThreadIsInterrupted() throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        CountDownLatch done = new CountDownLatch(1);
        CompletableFuture<Boolean> stillInterrupted = new CompletableFuture<>();
        try (UnixServer server = new UnixServer(path, (in, out) -> {
            asked.countDown();
            done.await();
        })) {
            Thread caller = new Thread(() -> {
                try {
                    call(node);
                    stillInterrupted.completeExceptionally(new AssertionError("it was answered"));
                } catch (InterruptedIOException e) {
                    stillInterrupted.complete(Thread.currentThread().isInterrupted());
                } catch (IOException e) {
                    stillInterrupted.completeExceptionally(e);
                }
            });
            caller.start();
            asked.await();
            caller.interrupt();
            assertTrue(stillInterrupted.get());
        } finally {
            done.countDown();
        }
    }

    @Test
    void wantsATimeOut() {
        assertThrows(IllegalArgumentException.class, () -> new NodeSocket(path, Duration.ZERO));
    }
}
