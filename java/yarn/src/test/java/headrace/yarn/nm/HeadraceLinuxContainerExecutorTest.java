package headrace.yarn.nm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.UnixServer;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.api.ContainerType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class HeadraceLinuxContainerExecutorTest {
    @Test
    void knowsTheAccountThatProcessesRunAs() {
        Configuration conf = new YarnConfiguration();
        assertEquals("nobody", HeadraceLinuxContainerExecutor.account(conf, "ada"));
        conf.set(YarnConfiguration.NM_NONSECURE_MODE_LOCAL_USER_KEY, "guest");
        assertEquals("guest", HeadraceLinuxContainerExecutor.account(conf, "ada"));
        conf.setBoolean(YarnConfiguration.NM_NONSECURE_MODE_LIMIT_USERS, false);
        assertEquals("ada", HeadraceLinuxContainerExecutor.account(conf, "ada"));
    }

    /** Hadoop's native program is not asked for more than whether it is set up. */
    @Test
    void announcesATaskWithTheAccountThatItRunsAs(@TempDir Path dir) throws Exception {
        Configuration conf = new YarnConfiguration();
        conf.set(YarnConfiguration.NM_LINUX_CONTAINER_EXECUTOR_PATH, "/bin/true");
        conf.set("headrace.node.socket", dir.resolve("s").toString());
        conf.setInt("headrace.node.timeout-ms", 30_000);
        conf.set(YarnConfiguration.NM_CONTAINER_MON_PROCESS_TREE, HeadraceProcessTree.class.getName());
        HeadraceLinuxContainerExecutor executor = new HeadraceLinuxContainerExecutor();
        executor.setConf(conf);
        executor.init(Fakes.context(Fakes.container(Fakes.containerId(2), ContainerType.TASK, List.of("echo", "x"))));
        AtomicReference<String> seen = new AtomicReference<>();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (UnixServer daemon = UnixServer.answering(dir.resolve("s"), request -> {
            seen.set(request);
            return UnixServer.http("200 OK", "{\"argv\":[\"/opt/shim\"]}");
        })) {
            Fakes.writeScript(executor, out, Fakes.environment(Fakes.containerId(2)), List.of("echo", "x"), dir);
        }
        assertTrue(seen.get().contains("\"user\":\"nobody\""), seen.get());
        String script = out.toString(StandardCharsets.UTF_8);
        assertTrue(script.contains("\nheadrace=('/opt/shim')\n"), script);
    }

    @Test
    void leavesContainersWithAFileSystemOfTheirOwnAlone(@TempDir Path dir) throws Exception {
        HeadraceLinuxContainerExecutor executor = new HeadraceLinuxContainerExecutor();
        executor.setConf(new YarnConfiguration());
        for (String type : List.of("docker", "runc")) {
            Map<String, String> environment = Fakes.environment(Fakes.containerId(2));
            environment.put("YARN_CONTAINER_RUNTIME_TYPE", type);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            // It is not initialised: it would fail if it asked the daemon.
            Fakes.writeScript(executor, out, environment, List.of("echo", "x"), dir);
            String script = out.toString(StandardCharsets.UTF_8);
            assertTrue(script.endsWith("\nexec /bin/bash -c \"echo x\"\n"), script);
        }
    }
}
