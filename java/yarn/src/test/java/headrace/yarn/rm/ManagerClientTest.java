package headrace.yarn.rm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.Container;
import headrace.client.ManagerClient;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ManagerClientTest {
    private static final ContainerId ID = ContainerId.fromString("container_1_0001_01_000002");

    @TempDir
    Path dir;
    private FakeManager manager;
    private ManagerClient client;

    @BeforeEach
    void start() throws IOException {
        manager = new FakeManager(dir);
        client = client(manager.url());
    }

    private ManagerClient client(String url) {
        return new ManagerClient(URI.create(url), manager.tokenFile, null, Duration.ofMinutes(1));
    }

    @AfterEach
    void stop() {
        manager.close();
    }

    @Test
    void containersAreReadAndWaitedFor() throws IOException {
        manager.set(ID, s -> {
            s.state = "checkpointed";
            s.held = true;
        });
        ManagerClient.Answer all = client.containers(0, Duration.ofSeconds(10), null);
        assertEquals(List.of(new RemoteContainer(ID, Container.State.CHECKPOINTED, false, true, false, false, false, "")), ofYarn(all));
        assertTrue(ofYarn(all).get(0).parked());
        ManagerClient.Answer same = client.containers(all.version(), Duration.ofMillis(50), null);
        assertEquals(all.version(), same.version());
        manager.set(ID, s -> s.ordered = "resume");
        ManagerClient.Answer next = client.containers(all.version(), Duration.ofSeconds(10), null);
        assertFalse(ofYarn(next).get(0).parked());
    }

    /** Whoever submits an application may write any, and everybody's containers are asked about in the same request. */
    @Test
    void aQueueWithALongNameIsToldCut() throws IOException {
        String name = "q".repeat(254);
        ManagerClient.Application app = new ManagerClient.Application(name + "\uD83D\uDE00".repeat(1000), 3);
        client.containers(0, Duration.ZERO, new ManagerClient.Applications(Map.of("application_1_0001", app), Set.of()));
        assertEquals(name, manager.applications().get("application_1_0001").queue());
    }

    private static List<RemoteContainer> ofYarn(ManagerClient.Answer answer) {
        return answer.containers().stream().flatMap(c -> RemoteContainer.of(c).stream()).toList();
    }

    @Test
    void decisionsAreInTheOrderOfTheVictims() throws IOException {
        ContainerId other = ContainerId.fromString("container_1_0001_01_000003");
        List<ManagerClient.Decision> decisions = client.preempt(List.of(new ManagerClient.Victim(ID.toString(), 0), new ManagerClient.Victim(other.toString(), 7)), false);
        assertEquals(2, decisions.size());
        assertEquals(ManagerClient.Mechanism.SUSPEND, decisions.get(0).mechanism());
        assertEquals(List.of(ID.toString(), other.toString()), manager.asked());
        assertEquals(List.of(0, 7), manager.claims());
    }

    @Test
    void aTokenThatEverybodyCanReadIsNotUsed() throws IOException {
        Files.setPosixFilePermissions(manager.tokenFile, PosixFilePermissions.fromString("rw-r--r--"));
        IOException e = assertThrows(IOException.class, () -> client.resume(ID.toString()));
        assertTrue(e.getMessage().contains("chmod"), e.getMessage());
    }

    @Test
    void aTokenThatCannotBeReadIsNamedWithTheReason() throws IOException {
        Files.delete(manager.tokenFile);
        IOException e = assertThrows(IOException.class, () -> client.resume(ID.toString()));
        String want = manager.tokenFile + " cannot be read by " + System.getProperty("user.name") + " (NoSuchFile";
        assertTrue(e.getMessage().startsWith(want), e.getMessage());
    }

    @Test
    void aNewTokenIsFound() throws IOException {
        Files.writeString(manager.tokenFile, "old");
        assertThrows(IOException.class, () -> client.containers(0, Duration.ZERO, null));
        for (String text : List.of(FakeManager.TOKEN, FakeManager.TOKEN + "\nold\n")) {
            Files.writeString(manager.tokenFile, text);
            assertEquals(List.of(), client(manager.url()).containers(0, Duration.ZERO, null).containers());
            assertEquals(List.of(), client.containers(0, Duration.ZERO, null).containers());
        }
    }

    /** No question is without an answer for that: what has none is killed. */
    @Test
    void aTokenThatIsChangedIsReadAgainAtOnce() throws IOException {
        assertEquals(List.of(), client.containers(0, Duration.ZERO, null).containers());
        manager.wants("the-next");
        Files.writeString(manager.tokenFile, "the-next\n" + FakeManager.TOKEN + "\n");
        assertEquals(List.of(), client.containers(0, Duration.ZERO, null).containers());
    }

    @Test
    void whoIsNotThereIsNamed() {
        String url = "http://127.0.0.1:1";
        IOException e = assertThrows(IOException.class, () -> client(url).resume(ID.toString()));
        assertTrue(e.getMessage().contains(url), e.getMessage());
    }

    /** Its machine loses power in the middle of a body: nobody ends the connection. */
    @Test
    void anAnswerThatStopsInItsMiddleIsNotWaitedFor() throws Exception {
        try (ServerSocket half = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            CompletableFuture<Integer> ended = CompletableFuture.supplyAsync(() -> {
                try (Socket connection = half.accept()) {
                    connection.getOutputStream().write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".getBytes(StandardCharsets.US_ASCII));
                    connection.getInputStream().transferTo(OutputStream.nullOutputStream());
                    return 0;
                } catch (IOException e) {
                    return 1; // reset
                }
            });
            ManagerClient hasty = new ManagerClient(URI.create("http://127.0.0.1:" + half.getLocalPort()), manager.tokenFile, null,
                Duration.ofMillis(300));
            IOException e = assertThrows(IOException.class, () -> hasty.containers(0, Duration.ofMillis(100), null));
            assertTrue(e.getMessage().contains("not answered within 400 ms"), e.getMessage());
            ended.get(); // the connection is not kept
        }
    }

    @Test
    void anAnswerWithoutEndIsNotTaken() throws Exception {
        try (ServerSocket endless = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            CompletableFuture<Long> sent = CompletableFuture.supplyAsync(() -> {
                long bytes = 0;
                try (Socket connection = endless.accept()) {
                    OutputStream out = connection.getOutputStream();
                    out.write("HTTP/1.1 200 OK\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
                    for (byte[] blanks = " ".repeat(1 << 20).getBytes(StandardCharsets.US_ASCII); bytes < 1L << 30; bytes += blanks.length) {
                        out.write(blanks);
                    }
                } catch (IOException e) {
                    return bytes; // the other end has closed
                }
                return bytes;
            });
            ManagerClient patient = new ManagerClient(URI.create("http://127.0.0.1:" + endless.getLocalPort()), manager.tokenFile, null,
                Duration.ofMinutes(1));
            IOException e = assertThrows(IOException.class, () -> patient.containers(0, Duration.ZERO, null));
            assertTrue(e.getMessage().contains("the answer has more than"), e.getMessage());
            long bytes = sent.get();
            assertTrue(bytes < 100 << 20, bytes + " bytes were taken");
        }
    }

    @Test
    void itIsNotAskedThroughTheProxyOfTheProcess() throws IOException {
        Map<String, String> settings = Map.of("http.proxyHost", "127.0.0.1", "http.proxyPort", "1", "http.nonProxyHosts", "");
        Map<String, String> before = new HashMap<>();
        settings.forEach((name, value) -> before.put(name, System.setProperty(name, value)));
        try {
            assertEquals(List.of(), client(manager.url()).containers(0, Duration.ZERO, null).containers());
        } finally {
            before.forEach((name, value) -> {
                if (value == null) {
                    System.clearProperty(name);
                } else {
                    System.setProperty(name, value);
                }
            });
        }
    }

    @Test
    void aCertificateOfAnOwnAuthorityIsTrustedWhereThatIsNamed() throws Exception {
        Authority authority = Authority.make(dir);
        try (FakeManager secret = new FakeManager(dir, authority.tls())) {
            URI url = URI.create(secret.url());
            Duration timeout = Duration.ofMinutes(1);
            assertEquals(List.of(), new ManagerClient(url, secret.tokenFile, authority.certificate(), timeout).containers(0, Duration.ZERO, null).containers());
            ManagerClient without = new ManagerClient(url, secret.tokenFile, null, timeout);
            IOException e = assertThrows(IOException.class, () -> without.resume(ID.toString()));
            assertTrue(e.getMessage().contains("headrace.manager.ca"), e.getMessage());
            URI otherName = URI.create(secret.url().replace("127.0.0.1", "localhost"));
            ManagerClient other = new ManagerClient(otherName, secret.tokenFile, authority.certificate(), timeout);
            assertThrows(IOException.class, () -> other.resume(ID.toString()));
        }
        Path none = Files.writeString(dir.resolve("none.pem"), "");
        for (Path file : List.of(none, dir.resolve("missing.pem"), manager.tokenFile)) {
            IllegalArgumentException e = assertThrows(IllegalArgumentException.class,
                () -> new ManagerClient(URI.create("https://127.0.0.1:1"), manager.tokenFile, file, Duration.ofSeconds(1)));
            assertTrue(e.getMessage().contains(file.toString()), e.getMessage());
        }
    }

    @Test
    void settingsThatAreOfNoUseSayWhatToDo() {
        Configuration conf = new Configuration(false);
        assertTrue(refused(conf).contains(Settings.URL));
        conf.set(Settings.URL, "manager");
        assertTrue(refused(conf).contains("http://"));
        conf.set(Settings.URL, "http://manager:7411");
        assertTrue(refused(conf).contains(Settings.TOKEN_FILE));
        conf.set(Settings.TOKEN_FILE, "/etc/headrace/token");
        assertEquals(new Settings(Settings.Mode.ON, URI.create("http://manager:7411"), Path.of("/etc/headrace/token"), null,
            Duration.ofSeconds(2), Settings.Fallback.KILL, Settings.Order.YARN,
            new Settings.Elsewhere(Set.of(), 30_000)), Settings.from(conf));
        conf.set(Settings.TYPES, " YARN, yarn-service ");
        conf.set(Settings.AFTER_MS, "5");
        assertEquals(new Settings.Elsewhere(Set.of("YARN", "yarn-service"), 5), Settings.from(conf).elsewhere());
        conf.set(Settings.CA, "/etc/headrace/ca.pem");
        assertTrue(refused(conf).contains("https:"));
        conf.set(Settings.URL, "https://manager:7411");
        assertEquals(Path.of("/etc/headrace/ca.pem"), Settings.from(conf).ca());
        conf.set(Settings.MODE, "observe_only");
        assertTrue(refused(conf).contains("on, observe-only, off"));
    }

    private static String refused(Configuration conf) {
        return assertThrows(IllegalArgumentException.class, () -> Settings.from(conf)).getMessage();
    }
}
