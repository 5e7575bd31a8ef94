package org.apache.hadoop.hdfs.server.namenode;

import static org.mockito.Mockito.mock;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.permission.AclEntry;
import org.apache.hadoop.fs.permission.PermissionStatus;
import org.apache.hadoop.hdfs.DFSUtil;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.CacheDirectiveEntry;
import org.apache.hadoop.hdfs.protocol.CachePoolInfo;
import org.apache.hadoop.hdfs.protocol.OpenFileEntry;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockInfo;
import org.apache.hadoop.hdfs.server.protocol.NamenodeProtocols;
import org.apache.hadoop.ipc.RemoteException;
import org.mockito.invocation.InvocationOnMock;

/**
 * Answers those who look into a name node of the stand-in with what its clients are told. There is no image, so nothing is done to
 * save one; whatever else they call fails.
 */
public final class NameNodes {
  private final DistributedFileSystem fs;

  public NameNodes(DistributedFileSystem fs) {
    this.fs = fs;
  }

  /** The protocol of clients, with exceptions as the server throws them. */
  public NamenodeProtocols rpc() {
    return (NamenodeProtocols) Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {NamenodeProtocols.class}, (p, method, args) -> {
      if (method.getName().equals("saveNamespace")) {
        return true;
      }
      if (args != null && args[0] == null) { // for which messages have no place
        switch (method.getName()) {
          case "listCachePools" -> args[0] = "";
          case "addCachePool", "modifyCachePool" -> CachePoolInfo.validate(null);
          case "removeCachePool" -> CachePoolInfo.validateName(null);
          default -> { }
        }
      }
      Object client = fs.getClient().getNamenode();
      try {
        return client.getClass().getMethod(method.getName(), method.getParameterTypes()).invoke(client, args);
      } catch (InvocationTargetException e) {
        throw e.getCause() instanceof RemoteException r ? thrown(r) : e.getCause();
      }
    });
  }

  private static Throwable thrown(RemoteException e) {
    try {
      return (Throwable) Class.forName(e.getClassName()).getConstructor(String.class).newInstance(e.getLocalizedMessage());
    } catch (ReflectiveOperationException | ClassCastException unknown) {
      return e;
    }
  }

  public NameNode nameNode() {
    return mock(NameNode.class, call -> switch (call.getMethod().getName()) {
      case "getNamesystem" -> namesystem();
      case "getRpcServer" -> rpc();
      default -> missing(call);
    });
  }

  public FSNamesystem namesystem() {
    FSNamesystem namesystem = mock(FSNamesystem.class, call -> switch (call.getMethod().getName()) {
      case "getFSDirectory" -> directory();
      case "getBlockLocations" -> fs.getClient().getLocatedBlocks(call.getArgument(1), call.getArgument(2), call.getArgument(3));
      case "getNumFilesUnderConstruction" -> open();
      case "saveNamespace" -> true;
      case "enterSafeMode", "leaveSafeMode", "readLock", "readUnlock" -> null;
      case "getBlockPoolId" -> "";
      case "getCacheManager" -> mock(CacheManager.class, asked -> asked.getMethod().getName().equals("getCachedBlocks") && cached() == 0 ? null : missing(asked));
      default -> missing(call);
    });
    try {
      Field leases = FSNamesystem.class.getDeclaredField("leaseManager");
      leases.setAccessible(true);
      leases.set(namesystem, mock(LeaseManager.class, call -> call.getMethod().getName().equals("countLease") ? (int) holders() : missing(call)));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
    return namesystem;
  }

  private long holders() throws IOException {
    Set<String> all = new HashSet<>();
    for (RemoteIterator<OpenFileEntry> open = fs.listOpenFiles(); open.hasNext(); ) {
      all.add(open.next().getClientName());
    }
    return all.size();
  }

  /** How many bytes are in memory for directives. */
  private long cached() throws IOException {
    long n = 0;
    for (RemoteIterator<CacheDirectiveEntry> all = fs.listCacheDirectives(null); all.hasNext(); ) {
      n += all.next().getStats().getBytesCached();
    }
    return n;
  }

  private FSDirectory directory() {
    return mock(FSDirectory.class, call -> call.getMethod().getName().equals("getINode") ? inode(call.getArgument(0)) : missing(call));
  }

  private static Object missing(InvocationOnMock call) {
    throw new UnsupportedOperationException("there is no " + call.getMethod() + " in a name node that is none");
  }

  private long open() throws IOException {
    long n = 0;
    for (RemoteIterator<OpenFileEntry> all = fs.listOpenFiles(); all.hasNext(); all.next()) {
      n++;
    }
    return n;
  }

  /** A file or directory with its mode and ACL. */
  private INode inode(String path) throws IOException {
    FileStatus status = fs.getFileStatus(new Path(path));
    PermissionStatus mode = new PermissionStatus(status.getOwner(), status.getGroup(), status.getPermission());
    INode inode = status.isDirectory() ? new INodeDirectory(1, DFSUtil.string2Bytes(status.getPath().getName()), mode, 0)
        : new INodeFile(1, DFSUtil.string2Bytes(status.getPath().getName()), mode, 0, 0, BlockInfo.EMPTY_ARRAY, (short) 1, 1 << 20);
    List<AclEntry> entries = fs.getAclStatus(new Path(path)).getEntries();
    if (!entries.isEmpty()) {
      inode.addAclFeature(new AclFeature(AclEntryStatusFormat.toInt(entries)));
    }
    return inode;
  }
}
