package headrace.yarn.nm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
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
