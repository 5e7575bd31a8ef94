package headrace.client;

import static headrace.client.Await.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.BlockCopies.Block;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ResidencyTest {
    private static final Residency.Timing FAST =
        new Residency.Timing(Duration.ofHours(1), Duration.ofSeconds(20), Duration.ofMillis(1), Duration.ofMillis(5), Duration.ofHours(1));

    @TempDir
    Path dir;
    private final FakeFollow manager = new FakeFollow();
    private UnixServer node;
    private Residency residency;

    @BeforeEach
    void setUp() throws IOException {
        node = UnixServer.answering(dir.resolve("s"), manager);
        residency = start(FAST);
    }

    private Residency start(Residency.Timing timing) {
        return Residency.start(dir.resolve("s"), "app-1", timing, () -> { });
    }

    @AfterEach
    void tearDown() throws Exception {
        residency.close();
        node.close();
        assertTrue(residency.ends(Duration.ofMinutes(1)));
    }

    private static Block block(long number) {
        return new Block("BP-1", number);
    }

    private void follow(long... numbers) {
        Map<Block, List<String>> blocks = new HashMap<>();
        for (long number : numbers) {
            blocks.put(block(number), List.of("h1", "h2"));
        }
        residency.follow(blocks);
    }

    private String known(long number) {
        BlockCopies copies = residency.of(block(number));
        if (copies == null) {
            return "";
        }
        StringBuilder all = new StringBuilder();
        for (int i = 0; i < copies.machines().size(); i++) {
            all.append(copies.machines().get(i).get(1)).append(' ').append(Math.round(100 * copies.share(i))).append(';');
        }
        return all.toString();
    }

    @Test
    void hearsWhatIsInMemoryAndWhatChanges() throws Exception {
        manager.set(block(1), "h1", 100);
        follow(1, 2);
        await(() -> known(1).equals("h1 100;"));
        assertEquals(List.of("h1", "h2"), manager.hosts(block(2)));
        manager.set(block(2), "h2", 40);
        manager.set(block(1), "h2", 7);
        await(() -> known(2).equals("h2 40;") && known(1).equals("h1 100;h2 7;"));
        manager.set(block(1), "h1", 0);
        manager.set(block(1), "h2", 0);
        await(() -> known(1).isEmpty());
        assertEquals(1, residency.resident());
        assertEquals(0, residency.failed());
        residency.unfollow(List.of(block(2)));
        assertEquals(0, residency.resident());
        await(() -> manager.followed("app-1").equals(Set.of(block(1))));
    }

    @Test
    void askNothingBeforeThereIsSomethingToFollow() throws Exception {
        residency.unfollow(List.of(block(1)));
        manager.set(block(1), "h1", 100);
        follow(1);
        await(() -> known(1).equals("h1 100;"));
        assertTrue(manager.requests.get(0).contains("\"numbers\":[1]"), manager.requests.get(0));
    }

    @Test
    void tellsANewManagerEverythingAgain() throws Exception {
        manager.set(block(1), "h1", 100);
        follow(1, 2);
        await(() -> known(1).equals("h1 100;"));
        manager.restart();
        manager.set(block(1), "h1", 0);
        manager.set(block(2), "h2", 100);
        await(() -> known(2).equals("h2 100;") && known(1).isEmpty());
        assertEquals(Set.of(block(1), block(2)), manager.followed("app-1"));
        assertEquals(0, residency.failed());
    }

    @Test
    void knowsNothingWhileNobodyAnswers() throws Exception {
        manager.set(block(1), "h1", 100);
        follow(1);
        await(() -> known(1).equals("h1 100;"));
        node.close();
        await(() -> residency.failed() > 1);
        assertNull(residency.of(block(1)));
        manager.restart();
        node = UnixServer.answering(dir.resolve("s"), manager);
        await(() -> known(1).equals("h1 100;"));
    }

    @Test
    void knowsNothingFromASilentDaemon() throws Exception {
        node.close();
        CountDownLatch over = new CountDownLatch(1);
        node = new UnixServer(dir.resolve("s"), (in, out) -> over.await());
        residency.close();
        residency = start(new Residency.Timing(Duration.ofMillis(100), Duration.ZERO, Duration.ZERO, Duration.ofMillis(5), Duration.ofHours(1)));
        follow(1);
        await(() -> residency.failed() > 1);
        over.countDown();
    }

    @ParameterizedTest
    @ValueSource(strings = {"[]", "{}", "{\"full\":true}", "{\"version\":\"7\"}",
        "{\"version\":7,\"full\":true,\"blocks\":[{\"pool\":\"BP-1\",\"number\":\"1\",\"machines\":[0],\"resident\":[\"1\"],\"bytes\":\"1\"}]}",
        "{\"version\":7,\"full\":true,\"machines\":[{\"hosts\":[\"a\",\"b\"]}],\"blocks\":[{\"pool\":\"BP-1\",\"number\":1,\"machines\":[0],\"resident\":[]}]}",
        "{\"version\":7,\"full\":true,\"machines\":[{\"hosts\":[\"a\",\"b\"]}],\"blocks\":[{\"pool\":\"BP-1\",\"number\":1,\"machines\":[-1],\"resident\":[1],\"bytes\":1}]}"})
    void believesNoNonsense(String answer) throws Exception {
        manager.instead(request -> UnixServer.http("200 OK", answer));
        manager.set(block(1), "h1", 100);
        follow(1);
        await(() -> residency.failed() > 2);
        assertNull(residency.of(block(1)));
        manager.instead(request -> null);
        await(() -> known(1).equals("h1 100;"));
    }

    /** One machine has seen the append, another has not. */
    @Test
    void aCopyThatIsLongerThanTheBlockIsInMemory() throws Exception {
        manager.instead(request -> UnixServer.http("200 OK", "{\"version\":7,\"full\":true,\"machines\":[{\"hosts\":[\"a\",\"h1\"]},"
            + "{\"hosts\":[\"b\",\"h2\"]}],\"blocks\":[{\"pool\":\"BP-1\",\"number\":1,\"machines\":[0,1],\"resident\":[128,32],\"bytes\":64}]}"));
        follow(1);
        await(() -> known(1).equals("h1 100;h2 50;"));
        assertEquals(0, residency.failed());
    }

    @Test
    void passesOverBlocksThatNobodyAskedFor() throws Exception {
        manager.set(block(1), "h1", 100);
        follow(1);
        await(() -> known(1).equals("h1 100;"));
        manager.instead(request -> UnixServer.http("200 OK", "{\"version\":7,\"machines\":[{\"hosts\":[\"a\"]}],\"blocks\":["
            + "{\"pool\":\"BP-1\",\"number\":1},{\"pool\":\"BP-1\",\"number\":2,\"machines\":[0],\"resident\":[1],\"bytes\":1}]}"));
        await(() -> known(1).isEmpty());
        assertEquals(0, residency.resident());
    }

    @Test
    void tellsManyBlocksInParts() throws Exception {
        int n = 2 * Residency.PART + 1;
        long[] numbers = new long[n];
        for (int i = 0; i < n; i++) {
            numbers[i] = i;
            manager.set(block(i), "h1", 100);
        }
        follow(numbers);
        await(() -> residency.resident() == n);
        assertEquals(0, residency.failed());
        assertEquals(n, manager.followed("app-1").size());
    }

    /** With many replicas nearly each block has a list of hosts of its own. */
    @Test
    void tellsBlocksWithManyLongNamesInParts() throws Exception {
        Map<Block, List<String>> blocks = new HashMap<>();
        for (int i = 0; i < Residency.PART + 1; i++) {
            List<String> hosts = new ArrayList<>();
            for (int replica = 0; replica < 10; replica++) {
                hosts.add(i + "-" + replica + "x".repeat(50));
            }
            blocks.put(block(i), hosts);
        }
        residency.follow(blocks);
        await(() -> manager.followed("app-1").size() == blocks.size());
        assertEquals(0, residency.failed());
    }

    @Test
    void whoMayFollowNoMoreGoesOnWithWhatItHas() throws Exception {
        manager.most(3);
        manager.set(block(1), "h1", 100);
        follow(1);
        await(() -> known(1).equals("h1 100;"));
        follow(2, 3, 4, 5);
        await(() -> residency.failed() == 1);
        for (int part = 1; part < 20; part++) {
            int now = part;
            manager.set(block(1), "h1", now);
            await(() -> known(1).equals("h1 " + now + ";"));
        }
        assertTrue(residency.answered());
        follow(6);
        residency.unfollow(List.of(block(2), block(3), block(4), block(5)));
        await(() -> manager.followed("app-1").equals(Set.of(block(1))));
        assertEquals(1, residency.failed());
        assertEquals(1, manager.requests.stream().filter(q -> q.contains("\"version\":0")).count());
    }

    /** As where many applications of one account are on a machine. */
    @Test
    void whoIsToAskALittleLaterKeepsWhatItKnows() throws Exception {
        manager.set(block(1), "h1", 100);
        follow(1);
        await(() -> known(1).equals("h1 100;"));
        manager.instead(request -> "HTTP/1.0 429 Too Many Requests\r\nRetry-After: 1\r\n\r\n{\"code\":\"resource_exhausted\"}");
        await(() -> residency.failed() > 2);
        follow(2);
        long failed = residency.failed();
        await(() -> residency.failed() > failed + 2);
        assertEquals("h1 100;", known(1));
        manager.instead(request -> null);
        manager.set(block(2), "h2", 100);
        await(() -> known(2).equals("h2 100;"));
        assertEquals(1, manager.requests.stream().filter(q -> q.contains("\"version\":0")).count());
    }

    @Test
    void whoIsToAskALittleLaterForLongKnowsNothing() throws Exception {
        residency.close();
        residency = start(new Residency.Timing(Duration.ofMillis(50), Duration.ofMillis(50), Duration.ofMillis(1), Duration.ofMillis(5), Duration.ofHours(1)));
        manager.set(block(1), "h1", 100);
        follow(1);
        await(() -> known(1).equals("h1 100;"));
        manager.instead(request -> "HTTP/1.0 429 Too Many Requests\r\nRetry-After: 1\r\n\r\n{\"code\":\"resource_exhausted\"}");
        await(() -> known(1).isEmpty());
    }

    @Test
    void whatIsNotTakenIsTriedAgain() throws Exception {
        residency.close();
        residency = start(new Residency.Timing(Duration.ofHours(1), Duration.ofSeconds(20), Duration.ofMillis(1), Duration.ofMillis(5), Duration.ofMillis(50)));
        manager.most(1);
        manager.set(block(1), "h1", 100);
        manager.set(block(3), "h2", 100);
        follow(1);
        await(() -> known(1).equals("h1 100;"));
        follow(2, 3);
        await(() -> residency.failed() > 1);
        manager.most(3);
        await(() -> known(3).equals("h2 100;"));
        assertEquals(Set.of(block(1), block(2), block(3)), manager.followed("app-1"));
        manager.most(0); // before there is anything to be told again
        manager.restart();
        manager.set(block(1), "h1", 100);
        await(() -> known(1).isEmpty());
        manager.most(3);
        await(() -> known(1).equals("h1 100;") && known(3).equals("h2 100;"));
    }

    @Test
    void whatIsNewInterruptsALongPoll() throws Exception {
        node.close();
        CountDownLatch polled = new CountDownLatch(1);
        node = new UnixServer(dir.resolve("s"), (in, out) -> {
            String request = UnixServer.readRequest(in);
            if (request.contains("\"wait\":20.0") && polled.getCount() > 0) {
                polled.countDown();
                in.read(); // until the other end is closed
            } else {
                out.write(manager.apply(request).getBytes(java.nio.charset.StandardCharsets.UTF_8));
            }
        });
        follow(1);
        polled.await();
        manager.set(block(2), "h1", 100);
        follow(2);
        await(() -> known(2).equals("h1 100;"));
        assertTrue(residency.failed() < 3); // those between two servers
    }

    @Test
    void thatNothingIsInMemoryIsAnAnswerToo() throws Exception {
        follow(1);
        await(residency::answered);
        follow(2);
        await(residency::answered);
        // Not when something changes, or a poll is over.
        assertTrue(manager.requests.stream().filter(q -> q.contains("\"numbers\":[2]")).allMatch(q -> q.contains("\"wait\":0.0")),
            manager.requests::toString);
    }

    /** A manager that stands still, in the middle of jobs that come to read more. */
    @Test
    void whoFollowsMoreAllTheTimeNoticesThatNobodyAnswers() throws Exception {
        node.close();
        residency.close();
        node = new UnixServer(dir.resolve("s"), (in, out) -> {
            String request = UnixServer.readRequest(in);
            if (request.contains("\"version\":0")) {
                out.write(manager.apply(request).getBytes(java.nio.charset.StandardCharsets.UTF_8));
            } else {
                in.read(); // until the other end is closed
            }
        });
        residency = start(new Residency.Timing(Duration.ofSeconds(2), Duration.ofSeconds(2), Duration.ZERO, Duration.ofSeconds(20), Duration.ofHours(1)));
        manager.set(block(1), "h1", 100);
        follow(1);
        await(() -> known(1).equals("h1 100;"));
        long[] next = {2};
        await(() -> {
            follow(next[0]++);
            return residency.failed() > 0;
        });
        assertNull(residency.of(block(1)));
        assertTrue(residency.answered());
    }

    @Test
    void whoFollowsMoreAllTheTimeHearsWhatIsInMemory() throws Exception {
        node.close();
        node = new UnixServer(dir.resolve("s"), (in, out) -> {
            String answer = manager.apply(UnixServer.readRequest(in));
            Thread.sleep(200); // as a manager that waits for what nodes have
            out.write(answer.getBytes(java.nio.charset.StandardCharsets.UTF_8));
        });
        manager.set(block(1), "h1", 100);
        follow(1);
        long[] next = {2};
        await(() -> {
            follow(next[0]++);
            return known(1).equals("h1 100;");
        });
    }

    /** Whatever happens on the way, in the end the copy is what is true of what is followed. */
    @Test
    void isRightInTheEndWhateverHappens() throws Exception {
        Random random = new Random(7);
        for (int round = 0; round < 20; round++) {
            for (int i = 0; i < 60; i++) {
                long number = random.nextInt(12);
                switch (random.nextInt(8)) {
                    case 0, 1 -> follow(number);
                    case 2 -> residency.unfollow(List.of(block(number)));
                    case 3 -> manager.restart();
                    case 4 -> manager.instead(random.nextBoolean() ? request -> "" : request -> null);
                    default -> manager.set(block(number), "h" + random.nextInt(3), random.nextInt(3));
                }
                if (random.nextInt(4) == 0) {
                    int asked = manager.requests.size();
                    await(() -> manager.requests.size() > asked || residency.followed() == 0);
                }
            }
            manager.instead(request -> null);
            Map<Long, String> right = new HashMap<>();
            List<Long> wrong = new ArrayList<>();
            for (long number = 0; number < 12; number++) {
                follow(number);
                manager.set(block(number), "h0", 1 + number);
                manager.set(block(number), "h1", round % 2 * 50);
                manager.set(block(number), "h2", 0);
                right.put(number, "h0 " + (1 + number) + ";" + (round % 2 == 1 ? "h1 50;" : ""));
            }
            await(() -> {
                wrong.clear();
                right.forEach((number, what) -> {
                    if (!known(number).equals(what)) {
                        wrong.add(number);
                    }
                });
                return wrong.isEmpty();
            });
        }
    }
}
