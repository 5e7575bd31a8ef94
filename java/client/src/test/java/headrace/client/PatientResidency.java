package headrace.client;

import java.nio.file.Path;
import java.time.Duration;

/** For tests: a daemon is given an hour to answer, so that who waits for one that is silent is seen to. */
public final class PatientResidency {
    private PatientResidency() {
    }

    /** A {@link Residency.Starter}. */
    public static Residency start(Path socket, String application, Runnable changed) {
        Residency.Timing usual = Residency.USUAL;
        return Residency.start(socket, application,
            new Residency.Timing(Duration.ofHours(1), usual.poll(), usual.pause(), usual.retry(), usual.refused()), changed);
    }
}
