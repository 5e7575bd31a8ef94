package headrace.yarn;

/** A class that the JVM cannot link, as one of a jar that somebody has written over. */
public final class Unlinkable {
    static {
        if (true) {
            throw new IllegalStateException("a test");
        }
    }

    private Unlinkable() {
    }

    /** Always throws a LinkageError: of the initialization first, then NoClassDefFoundError. */
    public static void use() {
    }
}
