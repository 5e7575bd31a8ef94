package headrace.cluster;

import java.io.IOException;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.CacheDirectiveInfo;
import org.apache.hadoop.hdfs.protocol.CachePoolEntry;
import org.apache.hadoop.hdfs.protocol.CachePoolInfo;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;

/** Has HDFS keep files in the memory of its DataNodes, as {@code hdfs cacheadmin} does, all in one pool. */
final class CacheDirectives {
  private static final String POOL = "lab";
  private static final long LOOK_MILLIS = 100;

  private final DistributedFileSystem fs;

  CacheDirectives(DistributedFileSystem fs) {
    this.fs = fs;
  }

  /** Asks for one replica of each block of the files. Returns at once: DataNodes read them when they hear of it. */
  void add(List<String> paths) throws IOException {
    if (!hasPool()) {
      fs.addCachePool(new CachePoolInfo(POOL));
    }
    for (String path : paths) {
      fs.addCacheDirective(new CacheDirectiveInfo.Builder().setPool(POOL).setPath(new Path(path)).setReplication((short) 1).build());
    }
  }

  /** Withdraws all that was asked for, and returns when no DataNode holds anything. */
  void removeAll() throws IOException, InterruptedException {
    if (hasPool()) {
      fs.removeCachePool(POOL);
    }
    while (held() > 0) {
      Thread.sleep(LOOK_MILLIS);
    }
  }

  private boolean hasPool() throws IOException {
    for (RemoteIterator<CachePoolEntry> pools = fs.listCachePools(); pools.hasNext();) {
      if (pools.next().getInfo().getPoolName().equals(POOL)) {
        return true;
      }
    }
    return false;
  }

  private long held() throws IOException {
    long sum = 0;
    for (DatanodeInfo node : fs.getDataNodeStats()) {
      sum += node.getCacheUsed();
    }
    return sum;
  }
}
