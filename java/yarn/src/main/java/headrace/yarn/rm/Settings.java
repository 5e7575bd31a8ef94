package headrace.yarn.rm;

import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;

/**
 * What yarn-site.xml says about the plug-in.
 *
 * @param manager where the manager answers
 * @param ca has the certificates that the manager's is checked against; null: those that this Java trusts
 * @param timeout of a call to the manager that is not meant to wait
 * @param elsewhere which containers may go on on another machine
 */
record Settings(Mode mode, URI manager, Path tokenFile, Path ca, Duration timeout, Fallback fallback, Order order,
        Elsewhere elsewhere) {
    static final String MODE = "headrace.preemption.mode";
    static final String URL = "headrace.manager.url";
    static final String TOKEN_FILE = "headrace.manager.token-file";
    static final String CA = "headrace.manager.ca";
    static final String TIMEOUT_MS = "headrace.manager.timeout-ms";
    static final String FALLBACK = "headrace.preemption.fallback";
    static final String ORDER = "headrace.preemption.order";
    static final String TYPES = "headrace.elsewhere.application-types";
    static final String AFTER_MS = "headrace.elsewhere.after-ms";
    private static final long DEFAULT_AFTER_MS = 30_000;

    enum Mode { ON, OBSERVE_ONLY, OFF }

    /** What becomes of a container when the manager does not say. */
    enum Fallback { KILL, WAIT }

    /** In which order containers give way: as YARN has it, or those first that cost least. */
    enum Order { YARN, COST }

    /**
     * @param types of applications that ask again for a container that was taken from them, and whose command may go on
     *     in the new one; empty: none
     * @param afterMs how long a container waits for room on its own machine first
     */
    record Elsewhere(Set<String> types, long afterMs) {
        boolean asksAgain(RMApp app) {
            return app != null && types.contains(app.getApplicationType());
        }
    }

    /** @throws IllegalArgumentException when something is missing or wrong; the message says what to do */
    static Settings from(Configuration conf) {
        Mode mode = choice(conf, MODE, Mode.ON);
        Fallback fallback = choice(conf, FALLBACK, Fallback.KILL);
        Order order = choice(conf, ORDER, Order.YARN);
        Duration timeout = Duration.ofMillis(conf.getLong(TIMEOUT_MS, 2000));
        if (timeout.toMillis() <= 0) {
            throw new IllegalArgumentException(TIMEOUT_MS + " must be more than 0 milliseconds");
        }
        Elsewhere elsewhere = elsewhere(conf);
        if (mode == Mode.OFF) {
            return new Settings(mode, null, null, null, timeout, fallback, order, elsewhere);
        }
        URI url = url(conf);
        return new Settings(mode, url, Path.of(required(conf, TOKEN_FILE)), ca(conf, url), timeout, fallback, order, elsewhere);
    }

    private static Path ca(Configuration conf, URI url) {
        String file = conf.getTrimmed(CA, "");
        if (!file.isEmpty() && !"https".equals(url.getScheme())) {
            throw new IllegalArgumentException(CA + " is set, and nothing is checked of " + url + ": let " + URL + " begin with https:");
        }
        return file.isEmpty() ? null : Path.of(file);
    }

    private static Elsewhere elsewhere(Configuration conf) {
        long afterMs = conf.getLong(AFTER_MS, DEFAULT_AFTER_MS);
        if (afterMs < 0) {
            throw new IllegalArgumentException(AFTER_MS + " must not be negative");
        }
        return new Elsewhere(Set.copyOf(conf.getTrimmedStringCollection(TYPES)), afterMs);
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
