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

    /** Returns whether this is the first failure since it worked. */
    synchronized boolean fails(String why) {
        boolean first = last == null;
        if (first) {
            log.warn("{}: {}", subject, why);
        } else if (!Objects.equals(last, why)) {
            log.debug("{}: {}", subject, why);
        }
        last = why;
        return first;
    }

    /** Says the same of anything thrown, and returns how. Of what is no exception the log has the stack, once. */
    String fails(Throwable e) {
        String why = e instanceof Exception && e.getMessage() != null ? e.getMessage() : e.toString();
        if (fails(why) && !(e instanceof Exception)) {
            log.warn("{}, for this error:", subject, e);
        }
        return why;
    }

    synchronized void works() {
        if (last != null) {
            log.info("{}: works again", subject);
        }
        last = null;
    }
}
