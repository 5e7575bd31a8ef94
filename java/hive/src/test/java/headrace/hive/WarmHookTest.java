package headrace.hive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.UnixServer;
import headrace.client.Warming;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.hive.ql.processors.CommandProcessorException;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Queries that run, with a made-up node. */
class WarmHookTest {
    private static final String COUNT = "select b, count(*) from t group by b";
    private static final List<String> COUNTED = List.of("x\t2", "y\t1");

    private static Warehouse hive;
    @TempDir
    static Path shared;

    @TempDir
    Path dir;
    private final BlockingQueue<String> requests = new LinkedBlockingQueue<>();
    private final CountDownLatch over = new CountDownLatch(1);
    private UnixServer node;

    @BeforeAll
    static void makeTables() throws Exception {
        System.setProperty("headrace.test.socket", shared.resolve("s").toString()); // hive-site.xml names it
        hive = Warehouse.get();
        hive.session();
        for (String statement : new String[] {"create database runs", "use runs", "create table t (a int, b string)",
            "create table o (a int, b string) stored as orc"}) {
            Warehouse.run(statement);
        }
        hive.write("/warehouse/runs.db/t/f", "1\u0001x\n2\u0001y\n3\u0001x\n");
    }

    @AfterAll
    static void dropTables() throws Exception {
        hive.session();
        Warehouse.run("drop database runs cascade");
    }

    @BeforeEach
    void setUp() throws Exception {
        answer("{}");
        hive.session("headrace.node.socket", dir.resolve("s").toString(), "headrace.warm.patience", "30s",
            "hive.execution.engine", "mr");
        Warehouse.run("use runs");
        TimedHook.delay();
    }

    @AfterEach
    void tearDown() throws IOException {
        over.countDown();
        SessionState.get().close();
        node.close();
    }

    private void answer(String json) throws IOException {
        answer(dir.resolve("s"), json);
    }

    private void answer(Path socket, String json) throws IOException {
        node = UnixServer.answering(socket, request -> {
            if (!renews(request)) {
                requests.add(request);
            }
            return UnixServer.http("200 OK", json);
        });
    }

    /** Of queries of other tests too, at any time. */
    private static boolean renews(String request) {
        return request.contains("/Inputs ") && request.contains("lease");
    }

    private void silence() throws IOException {
        silence(dir.resolve("s"));
    }

    private void silence(Path socket) throws IOException {
        node.close();
        node = new UnixServer(socket, (in, out) -> over.await());
    }

    /** Returns a request of a query without its head. */
    private String next(String method) throws InterruptedException {
        String[] request = requests.take().split("\r\n\r\n", 2);
        assertTrue(request[0].startsWith("POST /headrace.v1.InputService/" + method + " HTTP"), request[0]);
        return request[1].replace(hive.at("/warehouse/runs.db/"), "").replaceAll("\"submittedMs\":[0-9]+,", "")
            .replaceAll("\"[^\"]+_[0-9]{14}_[0-9a-f-]{36}\"", "QUERY");
    }

    private static String warm(String path) {
        return "{\"job\":QUERY,\"implicit\":false,\"lease\":120.0,\"paths\":[\"" + path + "\"]}";
    }

    private static void set(String... settings) throws Exception {
        for (int i = 0; i < settings.length; i += 2) {
            Warehouse.run("set " + settings[i] + "=" + settings[i + 1]);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"mr", "tez"})
    void asksForTheInputOfAQueryAndLetsItGo(String engine) throws Exception {
        set("hive.execution.engine", engine);
        assertEquals(COUNTED, Warehouse.run(COUNT));
        assertEquals(warm("t"), next("Warm"));
        assertEquals("{\"jobs\":[QUERY]}", next("Cool"));
        Warehouse.run("insert overwrite table o select a, b from t where a < 3");
        assertEquals(warm("t"), next("Warm"));
        assertEquals("{\"jobs\":[QUERY]}", next("Cool"));
        assertEquals(List.of("2"), Warehouse.run("select count(*) from o join t on o.a = t.a"));
        String both = next("Warm");
        assertTrue(both.contains("\"o\"") && both.contains("\"t\""), both);
        next("Cool");
        set("headrace.warm", "false");
        assertEquals(COUNTED, Warehouse.run(COUNT));
        assertEquals(0, requests.size());
    }

    @Test
    void aServerDoesNotWaitForTheEnd() throws Exception {
        node.close();
        answer(shared.resolve("s"), "{}");
        hive.serverSession("hive.execution.engine", "mr");
        Warehouse.run("use runs");
        assertEquals(COUNTED, Warehouse.run(COUNT));
        assertEquals(warm("t"), next("Warm"));
        next("Cool");
        silence(shared.resolve("s"));
        set("headrace.warm.patience", "1m");
        long failed = QueryWarming.Of.PROCESS.failed();
        TimedHook.delay();
        assertEquals(COUNTED, Warehouse.run(COUNT));
        long delay = TimedHook.delay().toMillis();
        assertTrue(delay < 30_000, delay + " ms");
        over.countDown();
        awaitFailed(failed + 1);
        assertTrue(Warehouse.metrics().matches("(?s).*\"headrace_warm_asked\"[^a-z]*\"value\"[ :]*[1-9].*"), Warehouse.metrics());
    }

    /** Else one that is silent would take the time of the thread that asks for all. */
    @Test
    void aSessionOfAServerDoesNotSayWhichNodeIsAsked() throws Exception {
        node.close();
        answer(shared.resolve("s"), "{}");
        hive.serverSession("headrace.node.socket", dir.resolve("nobody").toString(), "hive.execution.engine", "mr");
        Warehouse.run("use runs");
        for (String socket : new String[] {"silent", "another"}) {
            assertEquals(COUNTED, Warehouse.run(COUNT));
            assertEquals(warm("t"), next("Warm"));
            next("Cool");
            set("headrace.node.socket", dir.resolve(socket).toString());
        }
    }

    @Test
    void aQueryThatFailsLetsItGo() throws Exception {
        set("hive.fetch.task.conversion", "none");
        assertThrows(CommandProcessorException.class, () -> Warehouse.run("select assert_true(a < 0) from t"));
        assertEquals(warm("t"), next("Warm"));
        next("Cool");
    }

    @Test
    void whatIsStillToBeReadIsNotLetGo() throws Exception {
        assertEquals(3, Warehouse.run("select * from t").size());
        assertEquals(warm("t"), next("Warm"));
        assertEquals(1, Warehouse.run("select a from t limit 1").size());
        assertEquals(0, requests.size());
    }

    @Test
    void waitsForTheLeadOfAQuery() throws Exception {
        AtomicInteger questions = new AtomicInteger();
        node.close();
        node = UnixServer.answering(dir.resolve("s"), request -> {
            if (renews(request)) {
                return UnixServer.http("200 OK", "{}");
            }
            requests.add(request);
            String status = "{\"left\":\"" + Math.max(0, 2 - questions.getAndIncrement()) + "\"}";
            return UnixServer.http("200 OK", request.contains("/Warm ") ? status : "{\"inputs\":[" + status + "]}");
        });
        set("headrace.warm.lead", "10m", "headrace.warm.implicit", "true");
        assertEquals(COUNTED, Warehouse.run(COUNT));
        assertTrue(next("Warm").startsWith("{\"job\":QUERY,\"implicit\":true,"));
        next("Inputs");
        next("Inputs");
        next("Cool");
    }

    @Test
    void aNodeThatPromisesMoreIsNotWaitedForBeyondTheLead() throws Exception {
        node.close();
        answer("{\"left\":\"5\",\"inputs\":[{\"left\":\"5\"}]}");
        set("headrace.warm.lead", "1200ms");
        assertEquals(COUNTED, Warehouse.run(COUNT));
        long delay = TimedHook.delay().toMillis();
        assertTrue(delay >= 1200 && delay < 30_000, delay + " ms");
    }

    @ParameterizedTest
    @ValueSource(strings = {"0", "1h"})
    void aSilentNodeDelaysAQueryByItsPatience(String lead) throws Exception {
        silence();
        set("headrace.warm.patience", "10s", "headrace.warm.lead", lead);
        long failed = QueryWarming.Of.PROCESS.failed();
        assertEquals(COUNTED, Warehouse.run(COUNT));
        long delay = TimedHook.delay().toMillis();
        assertTrue(delay < 19_900, delay + " ms");
        over.countDown();
        awaitFailed(failed + (lead.equals("0") ? 1 : 2)); // to ask for its input, and with a lead how that stands
    }

    /** Else what fails at last would be counted in another test. */
    private static void awaitFailed(long count) throws InterruptedException {
        while (QueryWarming.Of.PROCESS.failed() < count) { // else the test's time is over
            Thread.sleep(1);
        }
    }

    /** What they read would take much memory. */
    @Test
    void ofManyQueriesAtOnceSomeAreLeftOut() throws Exception {
        silence();
        set("headrace.warm.patience", "100ms");
        Warming.Job other = new Warming.Job(dir.resolve("s"), "other", Duration.ofMillis(1), Duration.ZERO, false);
        Warming warming = QueryWarming.Of.PROCESS;
        for (int i = 0; i < 101; i++) { // one of them is asked about, and the rest waits for the answer
            warming.ask(other, System.nanoTime(), () -> List.of("hdfs://c/a"));
        }
        long failed = warming.failed();
        assertEquals(COUNTED, Warehouse.run(COUNT));
        assertEquals(failed + 1, warming.failed());
        over.countDown();
        awaitFailed(failed + 1 + 101);
    }

    @Test
    void aQueryGoesOnWithoutTheNodeAndWithSettingsThatMakeNoSense() throws Exception {
        long failed = QueryWarming.Of.PROCESS.failed();
        set("headrace.node.socket", dir.resolve("nobody").toString(), "headrace.warm.lead", "1h");
        assertEquals(COUNTED, Warehouse.run(COUNT));
        assertEquals(failed + 1, QueryWarming.Of.PROCESS.failed());
        set("headrace.node.socket", dir.resolve("s").toString());
        for (String[] wrong : new String[][] {{"headrace.warm.patience", "-1"}, {"headrace.warm.lead", "soon"}}) {
            set(wrong);
            assertEquals(3, Warehouse.run("select * from t").size(), wrong[0]);
        }
        node.close();
        node = UnixServer.answering(dir.resolve("s"), request -> "SSH-2.0-OpenSSH_9.2\r\n\r\n");
        set("headrace.warm.patience", "30s", "headrace.warm.lead", "1h");
        assertEquals(COUNTED, Warehouse.run(COUNT));
        assertEquals(failed + 2, QueryWarming.Of.PROCESS.failed());
        assertEquals(0, requests.size());
    }

    /** Users may change it where HiveServer2 restricts what they may change, if it is told so. */
    @Test
    void aRestrictedSessionNeedsPermissionForItsSettings() throws Exception {
        String[] restricted = {"hive.security.authorization.enabled", "true", "hive.security.authorization.manager",
            "org.apache.hadoop.hive.ql.security.authorization.plugin.sqlstd.SQLStdHiveAuthorizerFactory",
            "hive.security.authenticator.manager", "org.apache.hadoop.hive.ql.security.SessionStateUserAuthenticator",
            "hive.security.authorization.sqlstd.confwhitelist.append", "nothing"};
        hive.serverSession(restricted);
        assertThrows(CommandProcessorException.class, () -> set("headrace.warm.lead", "5m"));
        restricted[restricted.length - 1] = "headrace\\.warm.*";
        hive.serverSession(restricted);
        set("headrace.warm.lead", "5m");
        assertEquals("5m", SessionState.get().getConf().get("headrace.warm.lead"));
    }
}
