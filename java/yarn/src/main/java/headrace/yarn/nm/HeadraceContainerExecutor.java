package headrace.yarn.nm;

import java.io.IOException;
import java.io.OutputStream;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.yarn.exceptions.ConfigurationException;
import org.apache.hadoop.yarn.server.nodemanager.Context;
import org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor;
import org.apache.hadoop.yarn.server.nodemanager.executor.ContainerStartContext;

/**
 * The stock executor, whose containers are started under Headrace:
 * {@code yarn.nodemanager.container-executor.class}.
 */
public class HeadraceContainerExecutor extends DefaultContainerExecutor {
    private LaunchWrapper wrapper;

    @Override
    public void init(Context context) throws IOException {
        super.init(context);
        wrapper = LaunchWrapper.create(getConf(), context);
    }

    @Override
    public void writeLaunchEnv(OutputStream out, Map<String, String> environment, Map<Path, List<String>> resources,
            List<String> command, Path logDir, String user, LinkedHashSet<String> nmVars) throws IOException {
        wrapper.write(out, environment, command, account(),
            stock -> super.writeLaunchEnv(stock, environment, resources, command, logDir, user, nmVars));
    }

    @Override
    public int relaunchContainer(ContainerStartContext ctx) throws IOException, ConfigurationException {
        wrapper.announceAgain(ctx.getContainer(), account());
        return super.relaunchContainer(ctx);
    }

    /** This executor runs everything as the NodeManager's own user. */
    private static String account() {
        return System.getProperty("user.name");
    }
}
