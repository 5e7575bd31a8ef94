package headrace.client;

import java.util.function.BooleanSupplier;

/** For tests: waits until something is so. */
public final class Await {
    private static final long PATIENCE_NANOS = 180_000_000_000L;

    private Await() {
    }

    /** @param what is asked again and again; it may do something as well */
    public static void await(BooleanSupplier what) throws InterruptedException {
        long deadline = System.nanoTime() + PATIENCE_NANOS;
        while (!what.getAsBoolean()) {
            if (System.nanoTime() - deadline > 0) {
                throw new AssertionError("it has not come to that within three minutes");
            }
            Thread.sleep(5);
        }
    }
}
