package headrace.client;

import java.io.IOException;

/** The daemon was reached, and answered with an error. */
public final class RefusedException extends IOException {
    private static final long serialVersionUID = 1L;

    private final String code;

    RefusedException(String code, String message) {
        super(message);
        this.code = code;
    }

    /** Connect's name of the error, such as {@code permission_denied}; empty when the answer had none. */
    public String code() {
        return code;
    }
}
