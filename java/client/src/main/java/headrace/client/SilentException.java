package headrace.client;

import java.io.IOException;

/** The daemon did not answer in time: it hangs, or is very slow. */
public final class SilentException extends IOException {
    private static final long serialVersionUID = 1L;

    SilentException(String message) {
        super(message);
    }
}
