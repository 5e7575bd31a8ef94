package headrace.cluster;

import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.io.nativeio.NativeIO;

/**
 * Starts a DataNode that obeys cache directives with a native library of another version of Hadoop. Its function for mlock is the
 * same in both, but 3.5 does not use any of them, since what the library does when it is loaded wants a field that 3.5 has no
 * more. Hadoop also asks for ulimit -l alone, where the capability CAP_IPC_LOCK does. Blocks are read, checked, mapped and
 * locked by HDFS's own code.
 */
public final class CachingDataNode {
  private CachingDataNode() {}

  public static void main(String[] args) throws ReflectiveOperationException {
    NativeIO.POSIX.setCacheManipulator(new Locking());
    DataNode.main(args);
  }

  private static final class Locking extends NativeIO.POSIX.CacheManipulator {
    private final Method lock;

    Locking() throws ReflectiveOperationException {
      lock = NativeIO.POSIX.class.getDeclaredMethod("mlock_native", ByteBuffer.class, long.class);
      lock.setAccessible(true);
    }

    @Override
    public void mlock(String identifier, ByteBuffer buffer, long length) throws IOException {
      try {
        lock.invoke(null, buffer, length);
      } catch (ReflectiveOperationException e) {
        throw new IOException("lock " + identifier, e);
      }
    }

    @Override
    public boolean verifyCanMlock() {
      return true;
    }

    @Override
    public long getMemlockLimit() {
      return Long.MAX_VALUE;
    }
  }
}
