package headrace.yarn.nm;

import java.io.IOException;
import java.io.OutputStream;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.exceptions.ConfigurationException;
import org.apache.hadoop.yarn.server.nodemanager.Context;
import org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.linux.runtime.OCIContainerRuntime;
import org.apache.hadoop.yarn.server.nodemanager.executor.ContainerStartContext;

/**
 * The executor that runs containers as the users that they belong to, and starts them under Headrace:
 * {@code yarn.nodemanager.container-executor.class}. Containers of Docker and runC are left alone: the daemon's
 * program is not there inside.
 */
public class HeadraceLinuxContainerExecutor extends LinuxContainerExecutor {
    private LaunchWrapper wrapper;

    @Override
    public void init(Context context) throws IOException {
        super.init(context);
        wrapper = LaunchWrapper.create(getConf(), context);
    }

    @Override
    public void writeLaunchEnv(OutputStream out, Map<String, String> environment, Map<Path, List<String>> resources,
            List<String> command, Path logDir, String user, LinkedHashSet<String> nmVars) throws IOException {
        if (OCIContainerRuntime.isOCICompliantContainerRequested(getConf(), environment)) {
            super.writeLaunchEnv(out, environment, resources, command, logDir, user, nmVars);
            return;
        }
        wrapper.write(out, environment, command, account(getConf(), user),
            stock -> super.writeLaunchEnv(stock, environment, resources, command, logDir, user, nmVars));
    }

    @Override
    public int relaunchContainer(ContainerStartContext ctx) throws IOException, ConfigurationException {
        Map<String, String> environment = ctx.getContainer().getLaunchContext().getEnvironment();
        if (!OCIContainerRuntime.isOCICompliantContainerRequested(getConf(), environment)) {
            wrapper.announceAgain(ctx.getContainer(), account(getConf(), ctx.getUser()));
        }
        return super.relaunchContainer(ctx);
    }

    /** The account that this executor runs the processes of a user as. */
    static String account(Configuration conf, String user) {
        if (UserGroupInformation.isSecurityEnabled()
            || !conf.getBoolean(YarnConfiguration.NM_NONSECURE_MODE_LIMIT_USERS,
                YarnConfiguration.DEFAULT_NM_NONSECURE_MODE_LIMIT_USERS)) {
            return user;
        }
        return conf.get(YarnConfiguration.NM_NONSECURE_MODE_LOCAL_USER_KEY,
            YarnConfiguration.DEFAULT_NM_NONSECURE_MODE_LOCAL_USER);
    }
}
