package headrace.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import org.apache.spark.api.plugin.SparkPlugin;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Executors load what {@code spark.plugins} names too, with a Java of their own. An error there ends each of them. */
class OnExecutorsTest {
    private static final int JAVA_8 = 52;

    /** Has one class of its own. What that needs of Headrace's others is not there. */
    private static final class Executor extends ClassLoader {
        private final String plugin;

        Executor(String plugin) {
            super(OnExecutorsTest.class.getClassLoader());
            this.plugin = plugin;
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith("headrace.")) {
                return super.loadClass(name, resolve);
            }
            Class<?> loaded = findLoadedClass(name);
            if (loaded != null) {
                return loaded;
            }
            if (!name.equals(plugin)) {
                throw new ClassNotFoundException(name + " is not for executors");
            }
            byte[] code = code(name);
            return defineClass(name, code, 0, code.length);
        }
    }

    private static byte[] code(String name) {
        try (InputStream in = open(name)) {
            return in.readAllBytes();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    private static InputStream open(String name) {
        return OnExecutorsTest.class.getResourceAsStream("/" + name.replace('.', '/') + ".class");
    }

    @ParameterizedTest
    @ValueSource(classes = {KeepAlivePlugin.class, MemoryLocalityPlugin.class, WarmPlugin.class})
    void aPluginNeedsJava8AndNothingElseOfHeadrace(Class<?> plugin) throws Exception {
        try (DataInputStream in = new DataInputStream(open(plugin.getName()))) {
            in.readInt();
            in.readUnsignedShort();
            assertEquals(JAVA_8, in.readUnsignedShort());
        }
        Class<?> there = new Executor(plugin.getName()).loadClass(plugin.getName());
        assertNull(((SparkPlugin) there.getConstructor().newInstance()).executorPlugin());
    }
}
