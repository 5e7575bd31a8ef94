package headrace.client;

import static headrace.client.Await.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** With a made-up node. */
class WarmingTest {
    private static final Duration PATIENCE = Duration.ofMillis(200);
    private static final Duration LONG = Duration.ofMinutes(5);
    private static final List<String> FILES = List.of("hdfs://c/a", "hdfs://c/b", "hdfs://c/a");

    @TempDir
    Path dir;
    private Path socket;
    private final Warming warming = new Warming();
    private final BlockingQueue<String> requests = new LinkedBlockingQueue<>();
    private final CountDownLatch over = new CountDownLatch(1);

    @BeforeEach
    void setUp() {
        socket = dir.resolve("s");
    }

    private Warming.Job job(Duration patience, Duration lead) {
        return new Warming.Job(socket, "application_1_0001", patience, lead, false);
    }

    /** A node that answers everything with the same, and remembers what it was asked. */
    private UnixServer node(String status, String json) throws IOException {
        return UnixServer.answering(socket, request -> {
            requests.add(request);
            return UnixServer.http(status, json);
        });
    }

    private UnixServer silentNode() throws IOException {
        return new UnixServer(socket, (in, out) -> over.await());
    }

    /** Returns how many milliseconds it has taken. */
    private long before(Warming.Job job, Warming.Inputs inputs) throws InterruptedException {
        long began = System.nanoTime();
        Warming.Asked asked = warming.ask(job, began, inputs);
        if (job.lead().isZero()) {
            asked.answered();
        } else {
            asked.warm();
        }
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
    }

    @Test
    void asksForTheFilesOfAJobOnce() throws Exception {
        try (UnixServer node = node("200 OK", "{\"job\":\"application_1_0001\",\"bytes\":\"12\",\"left\":\"12\"}")) {
            before(job(LONG, Duration.ZERO), () -> FILES);
            String[] request = requests.take().split("\r\n\r\n", 2);
            assertTrue(request[0].startsWith("POST /headrace.v1.InputService/Warm HTTP/1.0\r\n"), request[0]);
            assertTrue(request[1].matches("\\{\"job\":\"application_1_0001\",\"implicit\":false,\"submittedMs\":[0-9]{13},"
                + "\"paths\":\\[\"hdfs://c/a\",\"hdfs://c/b\"]}"), request[1]);
        }
        assertNull(requests.poll());
        assertEquals(1, warming.asked());
        assertEquals(0, warming.late() + warming.failed());
    }

    @Test
    void asksWhereBlocksAreByWhatFilesAreCalled() throws Exception {
        String answer = "{\"files\":[{\"path\":\"hdfs://c/a*\",\"sizes\":[\"7\",\"3\"],\"hosts\":[\"x\",\"\"]}]}";
        try (UnixServer node = node("200 OK", answer)) {
            assertEquals(Map.of("hdfs://c/a\\*", List.of(new InputsClient.Place(7, "x"), new InputsClient.Place(3, ""))),
                new InputsClient(socket, LONG).places("application_1_0001", List.of("hdfs://c/a\\*")));
            String[] request = requests.take().split("\r\n\r\n", 2);
            assertTrue(request[0].startsWith("POST /headrace.v1.InputService/Places HTTP/1.0\r\n"), request[0]);
            assertEquals("{\"job\":\"application_1_0001\",\"paths\":[\"hdfs://c/a*\"]}", request[1]);
        }
    }

    @Test
    void asksInSeveralRequestsWhereBlocksOfManyFilesAre() throws Exception {
        List<String> many = IntStream.range(0, 10_001).mapToObj(i -> "hdfs://c/" + i).toList();
        try (UnixServer node = UnixServer.answering(socket, request -> {
            String paths = request.split("\"paths\":")[1];
            requests.add(paths);
            return UnixServer.http("200 OK", "{\"files\":[{\"path\":" + paths.substring(1).split("[],]")[0] + ",\"sizes\":[\"7\"],\"hosts\":[\"x\"]}]}");
        })) {
            assertEquals(2, new InputsClient(socket, LONG).places("application_1_0001", many).size());
        }
        assertEquals(10_000, requests.take().split(",").length);
        assertEquals(1, requests.take().split(",").length);
    }

    @Test
    void asksInSeveralRequestsForMany() throws Exception {
        List<String> many = IntStream.range(0, 25_000).mapToObj(i -> "hdfs://c/" + i).toList();
        try (UnixServer node = node("200 OK", "{}")) {
            before(job(LONG, Duration.ZERO), () -> many);
            before(job(LONG, Duration.ZERO), () -> List.of("x".repeat(3 << 20), "y".repeat(3 << 20)));
        }
        assertEquals(5, warming.asked());
        assertEquals(5, requests.size());
        for (int part : new int[] {10_000, 10_000, 5_000, 1, 1}) {
            assertEquals(part, requests.take().split("\"paths\":")[1].split(",").length);
        }
    }

    /** Such as those of a file system that the manager does not know. */
    @Test
    void filesThatAreRefusedDoNotKeepOthersCold() throws Exception {
        List<String> many = IntStream.range(0, 20_000).mapToObj(i -> (i < 10_000 ? "hdfs://other/" : "hdfs://c/") + i).toList();
        try (UnixServer node = UnixServer.answering(socket, request -> request.contains("hdfs://other/")
                ? UnixServer.http("400 Bad Request", "{\"code\":\"failed_precondition\",\"message\":\"not known\"}")
                : UnixServer.http("200 OK", "{\"left\":\"0\"}"))) {
            assertTrue(warming.ask(job(LONG, LONG), System.nanoTime(), () -> many).warm(), "the others are waited for");
            assertEquals(1, warming.asked());
            assertEquals(1, warming.failed());
            warming.ask(job(LONG, Duration.ZERO), System.nanoTime(), () -> many.subList(0, 2)).answered();
            assertEquals(2, warming.failed());
        }
    }

    @Test
    void asksForNothingWhereThereIsNothing() throws Exception {
        try (UnixServer node = node("200 OK", "{}")) {
            before(job(LONG, LONG), List::of);
        }
        assertEquals(0, requests.size() + warming.asked() + warming.failed());
    }

    @Test
    void doesNotWaitWhenItIsToWorkBeside() throws Exception {
        try (UnixServer node = silentNode()) {
            warming.ask(job(LONG, LONG), System.nanoTime(), () -> FILES);
            over.countDown();
            await(() -> warming.failed() == 1); // the connection was closed
        }
    }

    @Test
    void aSilentNodeDelaysNoJobBeyondItsPatience() throws Exception {
        CountDownLatch answer = new CountDownLatch(1);
        try (UnixServer node = new UnixServer(socket, (in, out) -> {
            answer.await();
            UnixServer.readRequest(in);
            out.write(UnixServer.http("200 OK", "{}").getBytes());
        })) {
            long took = before(job(PATIENCE, Duration.ZERO), () -> FILES);
            assertTrue(took >= PATIENCE.toMillis(), "took " + took + " ms");
            assertEquals(1, warming.late());
            assertEquals(0, warming.asked());
            answer.countDown(); // it goes on without the job
            await(() -> warming.asked() == 1);
        }
    }

    @Test
    void aSilentNodeIsNotAskedByAllThatWait() throws Exception {
        AtomicInteger asked = new AtomicInteger();
        AtomicInteger listed = new AtomicInteger();
        Warming.Inputs inputs = () -> {
            listed.incrementAndGet();
            return FILES;
        };
        Warming refusing = new Warming(LONG, PATIENCE, LONG, LONG);
        Warming soon = new Warming(LONG, PATIENCE, Duration.ofMillis(1), LONG);
        try (UnixServer node = new UnixServer(socket, (in, out) -> {
            asked.incrementAndGet();
            over.await();
        })) {
            for (int job = 0; job < 50; job++) {
                refusing.ask(job(PATIENCE, Duration.ZERO), System.nanoTime(), inputs);
            }
            await(() -> refusing.failed() == 50);
            await(() -> asked.get() == 1); // the node may take longer to hear of it than it is waited for
            assertEquals(1, listed.get());
            soon.ask(job(PATIENCE, Duration.ZERO), System.nanoTime(), inputs);
            await(() -> soon.failed() == 1);
            over.countDown();
        }
        try (UnixServer node = node("200 OK", "{}")) {
            while (soon.asked() == 0) { // else the test's time is over
                soon.ask(job(LONG, Duration.ZERO), System.nanoTime(), inputs).answered();
            }
        }
    }

    @Test
    void whatASilentNodeIsToLetGoKeepsNobodyWaitingEither() throws Exception {
        Duration unhurried = PATIENCE;
        while (!keepsNobodyWaiting(unhurried)) { // else the test's time is over
            unhurried = unhurried.multipliedBy(5);
        }
    }

    /** @return false: the machine is so busy that a node which answers seems to be silent as well */
    private boolean keepsNobodyWaiting(Duration unhurried) throws Exception {
        requests.clear();
        CountDownLatch over = new CountDownLatch(1);
        Warming refusing = new Warming(LONG, unhurried, LONG, LONG);
        AtomicInteger asked = new AtomicInteger();
        AtomicInteger listed = new AtomicInteger();
        Path answering = dir.resolve("answering");
        Warming.Job other = new Warming.Job(answering, "application_1_0002", LONG, Duration.ZERO, false);
        try (UnixServer silent = new UnixServer(socket, (in, out) -> {
            asked.incrementAndGet();
            over.await();
        }); UnixServer node = UnixServer.answering(answering, request -> {
            requests.add(request);
            return UnixServer.http("200 OK", "{}");
        })) {
            for (int i = 0; i < 3; i++) {
                refusing.end(job(LONG, Duration.ZERO));
            }
            refusing.ask(job(LONG, Duration.ZERO), System.nanoTime(), () -> {
                listed.incrementAndGet();
                return FILES;
            }).answered();
            await(() -> asked.get() == 1); // the node may take longer to hear of it than it is waited for
            assertEquals(0, listed.get());
            assertEquals(1, refusing.failed());
            refusing.ask(other, System.nanoTime(), () -> FILES).answered(); // of another node
            refusing.end(other);
            over.countDown();
            if (refusing.asked() == 0 || requests.size() < 2) {
                return false;
            }
        }
        assertEquals(2, requests.size());
        return true;
    }

    /** Such as the plans of queries, each of which may have a list of all files of a table. */
    @Test
    void whatPassesDoesNotWaitForLong() throws Exception {
        class Query implements Warming.Inputs {
            @Override
            public Collection<String> files() {
                throw new AssertionError("it is over");
            }

            @Override
            public boolean passes() {
                return true;
            }
        }

        Warming passing = new Warming(LONG, LONG, LONG, Duration.ZERO);
        CountDownLatch busy = new CountDownLatch(1);
        try (UnixServer node = node("200 OK", "{}")) {
            passing.ask(job(LONG, Duration.ZERO), System.nanoTime(), () -> {
                busy.countDown();
                over.await();
                return FILES;
            });
            busy.await();
            List<WeakReference<Query>> queries = new ArrayList<>();
            for (int i = 0; i < 300; i++) {
                Query query = new Query();
                passing.ask(job(LONG, Duration.ZERO), System.nanoTime(), query);
                queries.add(new WeakReference<>(query));
            }
            assertEquals(200, passing.failed());
            await(() -> {
                System.gc();
                return queries.stream().filter(query -> !query.refersTo(null)).count() == 100;
            });
            passing.ask(job(LONG, Duration.ZERO), System.nanoTime(), () -> FILES); // of those that stay more may wait
            over.countDown();
            await(() -> passing.asked() == 2);
            assertEquals(300, passing.failed());
        }
    }

    @Test
    void whatAJobHasWaitedBeforeCounts() throws Exception {
        try (UnixServer node = silentNode()) {
            warming.ask(job(LONG, Duration.ZERO), System.nanoTime() - LONG.toNanos(), () -> FILES).answered();
            over.countDown();
        }
        assertEquals(1, warming.late());
    }

    @Test
    void findingTheFilesDelaysNoJobBeyondItsPatience() throws Exception {
        before(job(PATIENCE, Duration.ofHours(1)), () -> {
            over.await();
            return FILES;
        });
        over.countDown();
        assertEquals(1, warming.late());
        await(() -> warming.failed() == 2); // nobody was there to be asked how it stands, and to be asked for it
    }

    @Test
    void whatFailsIsCountedAndDelaysNothing() throws Exception {
        assertTrue(before(job(LONG, LONG), () -> FILES) < LONG.toMillis() / 2); // nobody listens
        assertEquals(1, warming.failed());
        int failures = 1;
        for (String answer : List.of("SSH-2.0-OpenSSH_9.2\r\n\r\n", "", "HTTP/1.0 200 OK\r\n\r\n[1]",
            UnixServer.http("403 Forbidden", "{\"code\":\"permission_denied\"}"))) {
            try (UnixServer node = UnixServer.answering(socket, request -> answer)) {
                assertTrue(before(job(LONG, LONG), () -> FILES) < LONG.toMillis() / 2, answer);
            }
            assertEquals(++failures, warming.failed(), answer);
        }
        try (UnixServer node = node("200 OK", "{}")) {
            before(job(LONG, Duration.ZERO), () -> {
                throw new NoClassDefFoundError("of another Hadoop");
            });
            assertEquals(++failures, warming.failed());
            assertNull(requests.poll());
            before(job(LONG, Duration.ZERO), () -> FILES);
        }
        assertEquals(failures, warming.failed());
        assertEquals(1, warming.asked());
        assertEquals(0, warming.late());
    }

    @Test
    void waitsForItsLead() throws Exception {
        AtomicInteger questions = new AtomicInteger();
        try (UnixServer node = UnixServer.answering(socket, request -> {
            requests.add(request);
            int left = Math.max(0, 3 - questions.getAndIncrement());
            String status = left == 0 ? "{\"job\":\"application_1_0001\"}" : "{\"left\":\"" + left + "\"}";
            return UnixServer.http("200 OK", request.contains("/Warm ") ? status : "{\"inputs\":[" + status + "]}");
        })) {
            before(job(LONG, LONG), () -> FILES);
        }
        assertEquals(4, questions.get());
        requests.take();
        assertTrue(requests.take().contains("/headrace.v1.InputService/Inputs HTTP"));
        assertEquals(0, warming.late() + warming.failed());
    }

    @Test
    void itsLeadEnds() throws Exception {
        try (UnixServer node = node("200 OK", "{\"left\":\"5\",\"inputs\":[{\"left\":\"5\"}]}")) {
            long took = before(job(LONG, Duration.ofMillis(300)), () -> FILES);
            assertTrue(took >= 300 && took < LONG.toMillis(), "took " + took + " ms");
        }
        assertEquals(0, warming.failed());
    }

    /** As where several queries of an application ask at a time. */
    @Test
    void whoseQuestionIsOneTooManyAsksAgain() throws Exception {
        AtomicInteger questions = new AtomicInteger();
        try (UnixServer node = UnixServer.answering(socket, request -> request.contains("/Warm ")
                ? UnixServer.http("200 OK", "{\"left\":\"5\"}") : questions.getAndIncrement() == 0
                ? UnixServer.http("429 Too Many Requests", "{\"code\":\"resource_exhausted\"}")
                : UnixServer.http("200 OK", "{\"inputs\":[{\"left\":\"0\"}]}"))) {
            assertTrue(warming.ask(job(LONG, LONG), System.nanoTime(), () -> FILES).warm());
        }
        assertEquals(2, questions.get());
        assertEquals(0, warming.failed());
    }

    /** Each answer may be long. */
    @Test
    void asksMoreSeldomTheLongerItTakes() throws Exception {
        try (UnixServer node = node("200 OK", "{\"left\":\"5\",\"inputs\":[{\"left\":\"5\"}]}")) {
            before(job(LONG, Duration.ofSeconds(2)), () -> FILES);
        }
        assertTrue(requests.size() <= 7, requests.size() + " requests"); // the job, and after 0, 0.1, 0.3, 0.7, 1.2, 1.7 s how it stands
    }

    @Test
    void aNodeThatFallsSilentEndsTheLead() throws Exception {
        Warming patient;
        do { // on a busy machine the answer comes later now and then than it is waited for; if it always does the test's time is over
            patient = new Warming();
            AtomicInteger questions = new AtomicInteger();
            try (UnixServer node = new UnixServer(socket, (in, out) -> {
                UnixServer.readRequest(in);
                if (questions.getAndIncrement() > 0) {
                    over.await();
                }
                out.write(UnixServer.http("200 OK", "{\"left\":\"5\"}").getBytes());
            })) {
                long began = System.nanoTime();
                assertFalse(patient.ask(job(Duration.ofSeconds(1), Duration.ofHours(1)), began, () -> FILES).warm());
                long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
                assertTrue(took < LONG.toMillis(), "took " + took + " ms");
            }
        } while (patient.late() > 0);
        assertEquals(1, patient.failed());
    }

    @Test
    void aSilentNodeDelaysNoJobWithALeadBeyondItsPatience() throws Exception {
        long patience = 1000;
        long took;
        try (UnixServer node = silentNode()) {
            do { // on a busy machine it takes longer now and then; if it always does the test's time is over
                Warming patient = new Warming();
                long began = System.nanoTime();
                patient.ask(job(Duration.ofMillis(patience), LONG), began, () -> FILES).warm();
                took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
                assertTrue(took >= patience * 99 / 100, "took " + took + " ms");
                assertEquals(1, patient.late());
                assertEquals(1, patient.failed());
            } while (took >= patience * 199 / 100);
            over.countDown();
        }
    }

    @Test
    void whereThereIsNothingNothingHasFailed() throws Exception {
        try (UnixServer node = node("404 Not Found", "{\"code\":\"not_found\",\"message\":\"it is empty\"}")) {
            before(job(LONG, LONG), () -> FILES);
        }
        assertEquals(1, requests.size());
        assertEquals(1, warming.asked());
        assertEquals(0, warming.late() + warming.failed());
    }

    @Test
    void saysThatJobsWithALeaseGoOn() throws Exception {
        Warming leasing = new Warming(Duration.ofMillis(20), LONG, LONG, LONG);
        Object[] owner = {new Object()};
        Warming.Job other = new Warming.Job(socket, "other", LONG, Duration.ZERO, true);
        try (UnixServer node = node("200 OK", "{}")) {
            leasing.ask(job(LONG, Duration.ZERO), owner[0], System.nanoTime(), () -> FILES).answered();
            leasing.ask(other, this, System.nanoTime(), () -> FILES).answered();
            leasing.ask(new Warming.Job(socket, "other", LONG, LONG, true), this, System.nanoTime(), () -> FILES).answered();
            assertEquals(2, leasing.leased()); // whatever its lead is
            for (String request : List.copyOf(requests)) { // renewals come all the time
                assertTrue(request.contains("/Inputs ") || request.contains("\"lease\":120.0,\"paths\":"), request);
            }
            awaitRenewal("application_1_0001", "other");
            leasing.leave(other);
            awaitRenewal("application_1_0001");
            leasing.end(job(LONG, Duration.ZERO));
            assertEquals(0, leasing.leased());
            leasing.ask(other, owner[0], System.nanoTime(), () -> FILES).answered();
            owner[0] = null;
            while (leasing.leased() > 0) { // else the test's time is over
                System.gc();
                Thread.sleep(1);
            }
        }
        assertEquals(4, leasing.asked());
        assertEquals(0, leasing.failed());
    }

    @Test
    void whoRunsAJobHearsThatItIsLost() throws Exception {
        Warming watching = new Warming(Duration.ofMillis(20), LONG, LONG, LONG);
        BlockingQueue<Boolean> lost = new LinkedBlockingQueue<>();
        Warming.Owner owner = lost::add;
        AtomicReference<String> state = new AtomicReference<>("{\"job\":\"application_1_0001\",\"state\":\"warming\"}");
        try (UnixServer node = UnixServer.answering(socket, request -> {
            requests.add(request);
            return UnixServer.http("200 OK", request.contains("/Inputs ") ? "{\"inputs\":[" + state.get() + "]}" : "{}");
        })) {
            watching.watch(job(LONG, Duration.ZERO), owner, System.nanoTime(), () -> FILES).answered();
            for (int i = 0; i < 3; i++) {
                assertFalse(requests.take().contains("lease"));
            }
            assertEquals(0, lost.size());
            state.set(state.get().replace("warming", "adopted"));
            assertFalse(lost.take());
            state.set(state.get().replace("adopted", "ended"));
            while (!lost.take()) { } // else the test's time is over
            state.set("");
            while (lost.take()) { }
            Reference.reachabilityFence(owner);
        }
    }

    /** Waits for one of just these jobs. */
    private void awaitRenewal(String... jobs) throws InterruptedException {
        String request;
        do {
            request = requests.take();
        } while (!request.matches("(?s)POST /headrace.v1.InputService/Inputs .*,\"lease\":120.0}")
            || request.split("\"").length != 2 * jobs.length + 5 || !List.of(jobs).stream().allMatch(request::contains));
    }

    @Test
    void letsGo() throws Exception {
        try (UnixServer node = node("404 Not Found", "{\"code\":\"not_found\"}")) {
            warming.end(job(LONG, LONG));
        }
        String request = requests.take();
        assertTrue(request.startsWith("POST /headrace.v1.InputService/Cool HTTP"), request);
        assertTrue(request.endsWith("{\"jobs\":[\"application_1_0001\"]}"), request);
        assertEquals(0, warming.failed());
    }

    @Test
    void anInterruptionEndsTheWait() throws Exception {
        try (UnixServer node = silentNode()) {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, () -> before(job(LONG, LONG), () -> FILES));
            over.countDown();
        }
    }

    @Test
    void namesFilesOfHdfsOnly() {
        assertEquals(Optional.of("hdfs://c:8020/a b%/\u00e9,]"), InputsClient.name(URI.create("hdfs://c:8020/a%20b%25/\u00e9,%5D")));
        assertEquals(Optional.of("hdfs://c/\\*\\{a\\,b\\}\\?\\[x\\]\\\\"), InputsClient.name(URI.create("hdfs://c/*%7Ba,b%7D%3F%5Bx%5D%5C")));
        for (String other : List.of("file:///a", "s3a://b/c", "/a", "hdfs:/a", "hdfs:a")) {
            assertEquals(Optional.empty(), InputsClient.name(URI.create(other)), other);
        }
    }
}
