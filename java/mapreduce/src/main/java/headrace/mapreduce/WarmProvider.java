package headrace.mapreduce;

import headrace.client.Settings;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URL;
import java.util.Enumeration;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.YARNRunner;
import org.apache.hadoop.mapreduce.MRConfig;
import org.apache.hadoop.mapreduce.protocol.ClientProtocol;
import org.apache.hadoop.mapreduce.protocol.ClientProtocolProvider;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Submits jobs to YARN as Hadoop does, and has their input read into memory before. MapReduce's client takes the first
 * of the providers in its class path that feels responsible; this one must stand before Hadoop's own.
 */
public final class WarmProvider extends ClientProtocolProvider {
    private static final Logger LOG = LoggerFactory.getLogger(WarmProvider.class);

    /** Called by {@link java.util.ServiceLoader}, wherever in the class path this is. */
    public WarmProvider() {
        try {
            String service = "META-INF/services/" + ClientProtocolProvider.class.getName();
            Enumeration<URL> all = Thread.currentThread().getContextClassLoader().getResources(service);
            String own = getClass().getProtectionDomain().getCodeSource().getLocation().getPath();
            if (all.hasMoreElements() && !all.nextElement().getPath().contains(own)) {
                LOG.warn("The input of jobs is not read into memory before they start: {} must be the first in the"
                    + " class path (HADOOP_USER_CLASSPATH_FIRST)", own);
            }
        } catch (IOException | RuntimeException e) {
            LOG.debug("It is not known where in the class path this is", e);
        }
    }

    /** Returns null when Hadoop's own provider is to be asked. */
    @Override
    public ClientProtocol create(Configuration conf) throws IOException {
        try {
            if (MRConfig.YARN_FRAMEWORK_NAME.equals(conf.get(MRConfig.FRAMEWORK_NAME)) && Settings.warm(conf)) {
                return new WarmRunner(conf);
            }
        } catch (LinkageError e) {
            LOG.warn("The input of jobs is not read into memory before they start: this is another Hadoop", e);
        }
        return null;
    }

    @Override
    public ClientProtocol create(InetSocketAddress address, Configuration conf) throws IOException {
        return create(conf);
    }

    @Override
    public void close(ClientProtocol client) throws IOException {
        if (client instanceof YARNRunner) {
            ((YARNRunner) client).close();
        }
    }
}
