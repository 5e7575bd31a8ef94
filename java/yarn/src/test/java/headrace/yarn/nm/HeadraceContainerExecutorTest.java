package headrace.yarn.nm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.SilentException;
import headrace.client.UnixServer;
import headrace.yarn.Unlinkable;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.UnaryOperator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.api.ContainerType;
import org.apache.hadoop.yarn.server.nodemanager.ContainerExecutor;
import org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.container.Container;
import org.apache.hadoop.yarn.util.ProcfsBasedProcessTree;
import org.apache.hadoop.yarn.util.ResourceCalculatorProcessTree;
import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.spi.LoggingEvent;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** With a daemon made of fixed answers. */
class HeadraceContainerExecutorTest {
    private static final List<String> COMMAND = List.of("echo", "hello");
    private static final String PROCESS_TREE = "yarn.nodemanager.container-monitor.process-tree.class";
    private static final String GOOD = UnixServer.http("200 OK", "{\"argv\":[\"/opt/shim\",\"attach\",\"--\"]}");
    private static final String REFUSAL = UnixServer.http("403 Forbidden",
        "{\"code\":\"permission_denied\",\"message\":\"only operators may\"}");

    @TempDir
    Path dir;
    private final Logger log = Logger.getLogger(LaunchWrapper.class);
    private final BlockingQueue<String> requests = new LinkedBlockingQueue<>();
    private final List<String> warnings = new ArrayList<>();
    private final ContainerId task = Fakes.containerId(2);
    private final ContainerId master = Fakes.containerId(1);
    private HeadraceContainerExecutor executor;

    private final AppenderSkeleton appender = new AppenderSkeleton() {
        @Override
        protected void append(LoggingEvent event) {
            if (event.getLevel().isGreaterOrEqual(Level.WARN)) {
                warnings.add(event.getRenderedMessage());
            }
        }

        @Override
        public void close() {
        }

        @Override
        public boolean requiresLayout() {
            return false;
        }
    };

    @BeforeEach
    void setUp() throws IOException {
        log.addAppender(appender);
        log.setLevel(Level.WARN);
        log.setAdditivity(false);
        executor = executor(configuration());
    }

    @AfterEach
    void tearDown() {
        log.removeAppender(appender);
        log.setAdditivity(true);
    }

    private Configuration configuration() {
        Configuration conf = new YarnConfiguration();
        conf.set("headrace.node.socket", dir.resolve("s").toString());
        conf.setInt("headrace.node.timeout-ms", 300_000);
        conf.set(PROCESS_TREE, HeadraceProcessTree.class.getName());
        return conf;
    }

    private HeadraceContainerExecutor executor(Configuration conf) throws IOException {
        HeadraceContainerExecutor made = new HeadraceContainerExecutor();
        made.setConf(conf);
        made.init(Fakes.context(Fakes.container(task, ContainerType.TASK, COMMAND),
            Fakes.container(master, ContainerType.APPLICATION_MASTER, COMMAND)));
        return made;
    }

    private UnixServer daemon(UnaryOperator<String> answer) throws IOException {
        return UnixServer.answering(dir.resolve("s"), request -> {
            requests.add(request.substring(request.indexOf("\r\n\r\n") + 4));
            return answer.apply(request);
        });
    }

    private String script(ContainerExecutor from, Map<String, String> environment) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Fakes.writeScript(from, out, environment, COMMAND, dir);
        return out.toString(StandardCharsets.UTF_8);
    }

    private String stock(ContainerId id) throws IOException {
        DefaultContainerExecutor plain = new DefaultContainerExecutor();
        plain.setConf(new YarnConfiguration());
        return script(plain, Fakes.environment(id));
    }

    private String wrapped() throws IOException {
        return stock(task).replace("exec /bin/bash -c \"echo hello\"\n",
            "headrace=('/opt/shim' 'attach' '--')\n[ -x \"${headrace[0]}\" ] || headrace=()\n"
                + "exec \"${headrace[@]}\" /bin/bash -c \"echo hello\"\n");
    }

    private void assertStock(ContainerId id) throws IOException {
        assertEquals(stock(id), script(executor, Fakes.environment(id)));
    }

    private void assertOneWarning(String part) {
        assertEquals(1, warnings.size(), warnings.toString());
        assertTrue(warnings.get(0).contains(part), warnings.toString());
    }

    @Test
    void announcesATaskAndWrapsItsCommand() throws Exception {
        try (UnixServer daemon = daemon(request -> GOOD)) {
            assertEquals(wrapped(), script(executor, Fakes.environment(task)));
        }
        assertEquals("{\"id\":\"" + task + "\","
            + "\"hosting\":{\"scheduler\":\"yarn\",\"application\":\"application_1700000000000_0007\",\"submitter\":\"ada\"},"
            + "\"name\":\"echo\",\"user\":\"" + System.getProperty("user.name") + "\",\"cpus\":2,"
            + "\"memory\":\"1610612736\"}", requests.take());
        assertEquals(List.of(), warnings);
    }

    @Test
    void leavesAnApplicationMasterAlone() throws Exception {
        try (UnixServer daemon = daemon(request -> GOOD)) {
            assertStock(master);
        }
        assertTrue(requests.isEmpty());
        assertEquals(List.of(), warnings);
    }

    @Test
    void announcesAgainATaskThatIsStartedAgain() throws Exception {
        LaunchWrapper wrapper = LaunchWrapper.create(configuration(), Fakes.context());
        Container container = Fakes.container(task, ContainerType.TASK, COMMAND);
        try (UnixServer daemon = daemon(request -> GOOD)) {
            wrapper.announceAgain(container, "ada");
            wrapper.announceAgain(Fakes.container(master, ContainerType.APPLICATION_MASTER, COMMAND), "ada");
        }
        wrapper.announceAgain(container, "ada"); // nobody is there
        assertEquals(1, requests.size());
        assertTrue(requests.take().contains(task.toString()));
        assertOneWarning("without Headrace");
    }

    @Test
    void aClassThatCannotBeLinkedKeepsNoContainerFromStarting() throws Exception {
        assertThrows(LinkageError.class, Unlinkable::use); // the first error does not name it
        LaunchWrapper wrapper = new LaunchWrapper(announcement -> List.of("/opt/shim"), id -> {
            Unlinkable.use();
            return null;
        }, () -> 0);
        assertEquals(stock(task), script(wrapper));
        assertOneWarning("Unlinkable");
    }

    @Test
    void warnsOnceUntilItWorksAgain() throws Exception {
        assertStock(task);
        assertStock(task);
        assertOneWarning(dir.resolve("s").toString());
        try (UnixServer daemon = daemon(request -> GOOD)) {
            assertEquals(wrapped(), script(executor, Fakes.environment(task)));
        }
        assertStock(task);
        assertEquals(2, warnings.size());
    }

    @Test
    void startsARefusedContainerWithoutHeadrace() throws Exception {
        try (UnixServer daemon = daemon(request -> REFUSAL)) {
            assertStock(task);
        }
        assertOneWarning("only operators may");
    }

    @Test
    void startsAContainerWithoutHeadraceAfterABadAnswer() throws Exception {
        for (String answer : List.of("{}", "{\"argv\":[]}", "{\"argv\":[\"\"]}", "{\"argv\":\"x\"}",
            "{\"argv\":[\"/a\\u0000b\"]}", "{\"argv\":[\"shim\"]}", "[]", "no")) {
            try (UnixServer daemon = daemon(request -> UnixServer.http("200 OK", answer))) {
                assertStock(task);
            }
        }
        assertEquals(8, requests.size());
        assertEquals(1, warnings.size());
    }

    @Test
    void startsAContainerWithoutHeadraceWhenTheDaemonIsSilent() throws Exception {
        Configuration conf = configuration();
        conf.setInt("headrace.node.timeout-ms", 50);
        executor = executor(conf);
        CountDownLatch done = new CountDownLatch(1);
        try (UnixServer daemon = new UnixServer(dir.resolve("s"), (in, out) -> done.await())) {
            assertStock(task);
        } finally {
            done.countDown();
        }
        assertOneWarning("50 ms; it is asked again after");
    }

    @Test
    void doesNotWaitAgainAtOnceForADaemonThatHangs() throws Exception {
        AtomicLong now = new AtomicLong(-5);
        AtomicInteger asked = new AtomicInteger();
        Container container = Fakes.container(task, ContainerType.TASK, COMMAND);
        LaunchWrapper wrapper = new LaunchWrapper(announcement -> {
            if (asked.incrementAndGet() == 1) {
                throw new SilentException("not answered");
            }
            return List.of("/opt/shim", "attach", "--");
        }, id -> container, now::get);
        assertEquals(stock(task), script(wrapper));
        assertOneWarning("not answered; it is asked again after");
        now.addAndGet(LaunchWrapper.PAUSE_MS - 1);
        assertEquals(stock(task), script(wrapper));
        assertEquals(1, asked.get());
        now.incrementAndGet();
        assertEquals(wrapped(), script(wrapper));
        assertEquals(2, asked.get());
        assertEquals(1, warnings.size());
    }

    private String script(LaunchWrapper wrapper) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        wrapper.write(out, Fakes.environment(task), COMMAND, "ada",
            script -> script.write(stock(task).getBytes(StandardCharsets.UTF_8)));
        return out.toString(StandardCharsets.UTF_8);
    }

    @Test
    void startsAContainerThatItCannotTellWithoutHeadrace() throws Exception {
        try (UnixServer daemon = daemon(request -> GOOD)) {
            assertStock(Fakes.containerId(99));
            for (String id : List.of("", "container_x")) {
                Map<String, String> environment = Fakes.environment(task);
                environment.put("CONTAINER_ID", id);
                assertFalse(script(executor, environment).contains("/opt/shim"));
            }
        }
        assertTrue(requests.isEmpty());
        assertEquals(1, warnings.size());
    }

    @Test
    void startsEverythingWithoutHeadraceWhenItsPropertiesAreBad() throws Exception {
        for (String timeout : List.of("0", "-1", "soon")) {
            Configuration conf = configuration();
            conf.set("headrace.node.timeout-ms", timeout);
            executor = executor(conf);
            assertOneWarning("headrace.node.timeout-ms");
            assertStock(task);
            assertOneWarning("headrace.node.timeout-ms");
            warnings.clear();
        }
    }

    @Test
    void startsEverythingWithoutHeadraceWhenTheWrongProcessesWouldBeMeasured() throws Exception {
        Configuration conf = configuration();
        conf.unset(PROCESS_TREE);
        executor = executor(conf);
        assertOneWarning(HeadraceProcessTree.class.getName());
        conf.setClass(PROCESS_TREE, ProcfsBasedProcessTree.class, ResourceCalculatorProcessTree.class);
        executor = executor(conf);
        assertEquals(2, warnings.size());
        try (UnixServer daemon = daemon(request -> GOOD)) {
            assertStock(task);
            conf.setBoolean("yarn.nodemanager.container-monitor.enabled", false);
            executor = executor(conf);
            assertEquals(wrapped(), script(executor, Fakes.environment(task)));
        }
        assertEquals(2, warnings.size());
    }

    @Test
    void anInterruptedStartIsNoFailureOfTheDaemon() throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        try (UnixServer daemon = new UnixServer(dir.resolve("s"), (in, out) -> done.await())) {
            String stock = stock(task);
            Thread.currentThread().interrupt();
            String script = script(executor, Fakes.environment(task));
            assertTrue(Thread.interrupted());
            assertEquals(stock, script);
        } finally {
            done.countDown();
        }
        assertEquals(List.of(), warnings);
    }

    @Test
    void passesOnWhatTheStockScriptThrowsAndClosesTheStream() throws Exception {
        LaunchWrapper wrapper = LaunchWrapper.create(configuration(), Fakes.context());
        boolean[] closed = new boolean[1];
        ByteArrayOutputStream out = new ByteArrayOutputStream() {
            @Override
            public void close() {
                closed[0] = true;
            }
        };
        IOException cause = new IOException("no links");
        assertSame(cause, assertThrows(IOException.class,
            () -> wrapper.write(out, Fakes.environment(task), COMMAND, "ada", script -> {
                throw cause;
            })));
        assertTrue(closed[0]);
        assertEquals(0, out.size());
        assertEquals(List.of(), warnings);
    }
}
