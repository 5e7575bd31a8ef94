package headrace.client;

import java.io.IOException;

/** The daemon, or the manager, did not answer in time: it hangs, or is very slow. */
public final class SilentException extends IOException {
    private static final long serialVersionUID = 1L;

    public SilentException(String message) {
        super(message);
    }
}
