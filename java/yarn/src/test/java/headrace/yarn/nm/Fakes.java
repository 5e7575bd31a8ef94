package headrace.yarn.nm;

import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.security.ContainerTokenIdentifier;
import org.apache.hadoop.yarn.server.api.ContainerType;
import org.apache.hadoop.yarn.server.nodemanager.ContainerExecutor;
import org.apache.hadoop.yarn.server.nodemanager.Context;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.container.Container;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.resourceplugin.ResourcePluginManager;

/** What tests need of a NodeManager. */
final class Fakes {
    private Fakes() {
    }

    static ContainerId containerId(int number) {
        ApplicationId application = ApplicationId.newInstance(1700000000000L, 7);
        return ContainerId.newContainerId(ApplicationAttemptId.newInstance(application, 1), number);
    }

    static Container container(ContainerId id, ContainerType type, List<String> command) {
        Resource resource = Resource.newInstance(1536, 2);
        ContainerTokenIdentifier token = new ContainerTokenIdentifier(id, "host:1", "ada", resource, Long.MAX_VALUE,
            1, 1, Priority.newInstance(20), 0, null, "", type);
        ContainerLaunchContext launch = ContainerLaunchContext.newInstance(Map.of(), Map.of(), command, Map.of(), null,
            Map.of());
        return proxy(Container.class, Map.of("getContainerId", id, "getContainerTokenIdentifier", token,
            "getLaunchContext", launch, "getResource", resource, "getUser", "ada"));
    }

    static Context context(Container... containers) {
        ConcurrentMap<ContainerId, Container> all = new ConcurrentHashMap<>();
        for (Container container : containers) {
            all.put(container.getContainerId(), container);
        }
        return proxy(Context.class, Map.of("getContainers", all,
            "getResourcePluginManager", new ResourcePluginManager()));
    }

    private static <T> T proxy(Class<T> type, Map<String, Object> answers) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, args) -> {
            if (!answers.containsKey(method.getName())) {
                throw new UnsupportedOperationException(method.toString());
            }
            return answers.get(method.getName());
        }));
    }

    /** The environment of a container, as far as the executor looks at it. */
    static Map<String, String> environment(ContainerId id) {
        Map<String, String> environment = new HashMap<>();
        environment.put("CONTAINER_ID", id.toString());
        environment.put("WHO", "the world");
        environment.put("TRAP", "x\nexec /bin/bash -c \\\"false\\\"\n");
        return environment;
    }

    /** Has the executor write a launch script. */
    static void writeScript(ContainerExecutor executor, OutputStream out, Map<String, String> environment,
            List<String> command, Path logs) throws IOException {
        executor.writeLaunchEnv(out, environment, Collections.emptyMap(), command,
            new org.apache.hadoop.fs.Path(logs.toString()), "ada", new LinkedHashSet<>(List.of("CONTAINER_ID")));
    }

    /** Runs bash with these arguments in a directory and returns its exit code. */
    static int bash(Path directory, String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("/bin/bash"));
        Collections.addAll(command, arguments);
        Process process = new ProcessBuilder(command).directory(directory.toFile())
            .redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        try {
            if (!process.waitFor(60, TimeUnit.SECONDS)) {
                throw new IOException("bash did not end: " + command);
            }
            return process.exitValue();
        } finally {
            process.destroyForcibly();
        }
    }
}
