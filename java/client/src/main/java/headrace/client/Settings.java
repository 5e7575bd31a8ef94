package headrace.client;

import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;

/** Reads settings from Hadoop's configuration, which all hosts have. */
public final class Settings {
    /** Setting: where the daemon of this machine listens. */
    public static final String SOCKET = "headrace.node.socket";

    private Settings() { }

    /** Where the daemon of this machine listens. */
    public static Path socket(Configuration conf) {
        return Path.of(conf.getTrimmed(SOCKET, NodeSocket.DEFAULT_PATH));
    }

    /** Whether input is to be read into memory before. */
    public static boolean warm(Configuration conf) {
        return conf.getBoolean(Warming.WANTED, true);
    }

    /**
     * How the input of a job is to be warmed.
     *
     * @throws IllegalArgumentException when a setting makes no sense
     */
    public static Warming.Job job(String id, Configuration conf) {
        return job(socket(conf), id, conf);
    }

    /**
     * How the input of a job is to be warmed.
     *
     * @param socket where the daemon of this machine listens, whatever the configuration says
     * @throws IllegalArgumentException when a setting makes no sense
     */
    public static Warming.Job job(Path socket, String id, Configuration conf) {
        return new Warming.Job(socket, id,
            Duration.ofMillis(conf.getTimeDuration(Warming.PATIENCE, Warming.USUAL_PATIENCE, TimeUnit.MILLISECONDS)),
            Duration.ofMillis(conf.getTimeDuration(Warming.LEAD, 0, TimeUnit.SECONDS, TimeUnit.MILLISECONDS)),
            conf.getBoolean(Warming.IMPLICIT, false));
    }
}
