package headrace.yarn.rm;

import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;

/**
 * What yarn-site.xml says about the plug-in.
 *
 * @param manager where the manager answers
 * @param timeout of a call to the manager that is not meant to wait
 */
record Settings(Mode mode, URI manager, Path tokenFile, Duration timeout, Fallback fallback) {
    static final String MODE = "headrace.preemption.mode";
    static final String URL = "headrace.manager.url";
    static final String TOKEN_FILE = "headrace.manager.token-file";
    static final String TIMEOUT_MS = "headrace.manager.timeout-ms";
    static final String FALLBACK = "headrace.preemption.fallback";

    enum Mode { ON, OBSERVE_ONLY, OFF }

    /** What becomes of a container when the manager does not say. */
    enum Fallback { KILL, WAIT }

    /** @throws IllegalArgumentException when something is missing or wrong; the message says what to do */
    static Settings from(Configuration conf) {
        Mode mode = choice(conf, MODE, Mode.ON);
        Fallback fallback = choice(conf, FALLBACK, Fallback.KILL);
        Duration timeout = Duration.ofMillis(conf.getLong(TIMEOUT_MS, 2000));
        if (timeout.toMillis() <= 0) {
            throw new IllegalArgumentException(TIMEOUT_MS + " must be more than 0 milliseconds");
        }
        if (mode == Mode.OFF) {
            return new Settings(mode, null, null, timeout, fallback);
        }
        return new Settings(mode, url(conf), Path.of(required(conf, TOKEN_FILE)), timeout, fallback);
    }

    private static URI url(Configuration conf) {
        URI url = URI.create(required(conf, URL));
        boolean http = "http".equals(url.getScheme()) || "https".equals(url.getScheme());
        if (!http || url.getHost() == null) {
            throw new IllegalArgumentException(URL + " is not the address of a manager, such as http://host:7411: " + url);
        }
        return url;
    }

    private static String required(Configuration conf, String name) {
        String value = conf.getTrimmed(name, "");
        if (value.isEmpty()) {
            throw new IllegalArgumentException(name + " is not set in yarn-site.xml");
        }
        return value;
    }

    private static <E extends Enum<E>> E choice(Configuration conf, String name, E standard) {
        String value = conf.getTrimmed(name, word(standard));
        for (E choice : standard.getDeclaringClass().getEnumConstants()) {
            if (word(choice).equals(value)) {
                return choice;
            }
        }
        String words = Arrays.stream(standard.getDeclaringClass().getEnumConstants())
            .map(Settings::word).collect(Collectors.joining(", "));
        throw new IllegalArgumentException(name + " is " + value + "; it can be " + words);
    }

    private static String word(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
