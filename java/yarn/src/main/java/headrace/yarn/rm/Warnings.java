package headrace.yarn.rm;

import java.util.Objects;
import org.slf4j.Logger;

/** Says once that something does not work, and once that it works again. */
final class Warnings {
    private final Logger log;
    private final String subject;
    private String last;

    /** @param subject what works or not, as the beginning of a sentence */
    Warnings(Logger log, String subject) {
        this.log = log;
        this.subject = subject;
    }

    synchronized void fails(String why) {
        if (last == null) {
            log.warn("{}: {}", subject, why);
        } else if (!Objects.equals(last, why)) {
            log.debug("{}: {}", subject, why);
        }
        last = why;
    }

    synchronized void works() {
        if (last != null) {
            log.info("{}: works again", subject);
        }
        last = null;
    }
}
