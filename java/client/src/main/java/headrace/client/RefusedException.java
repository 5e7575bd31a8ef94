package headrace.client;

import java.io.IOException;

/** The daemon was reached, and answered with an error. */
public final class RefusedException extends IOException {
    private static final long serialVersionUID = 1L;

    private final String code;
    private final boolean later;

    RefusedException(String code, boolean later, String message) {
        super(message);
        this.code = code;
        this.later = later;
    }

    /** Whether the daemon had too many requests at a time, and may take this one a moment later. */
    boolean later() {
        return later;
    }

    /** Connect's name of the error, such as {@code permission_denied}; empty when the answer had none. */
    public String code() {
        return code;
    }
}
