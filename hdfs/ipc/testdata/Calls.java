import java.security.PrivilegedExceptionAction;
import java.util.concurrent.Callable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DFSUtilClient;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.ipc.RemoteException;
import org.apache.hadoop.security.UserGroupInformation;

/** Calls two name nodes, HOST:PORT each, as Hadoop's client, and says what it got, a line each, after "> ". */
class Calls {
  private static DistributedFileSystem fs;

  public static void main(String[] args) throws Exception {
    Configuration conf = new Configuration();
    conf.set("fs.defaultFS", "hdfs://ns");
    conf.set("dfs.nameservices", "ns");
    conf.set("dfs.ha.namenodes.ns", "n1,n2");
    conf.set("dfs.namenode.rpc-address.ns.n1", args[0]);
    conf.set("dfs.namenode.rpc-address.ns.n2", args[1]);
    conf.set("dfs.client.failover.proxy.provider.ns", "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider");
    conf.set("dfs.client.failover.sleep.base.millis", "10");
    conf.set("fs.hdfs.impl.disable.cache", "true");
    fs = (DistributedFileSystem) FileSystem.get(conf);
    say("blocksize", () -> fs.getServerDefaults(new Path("/")).getBlockSize());
    say("status", () -> status(fs.getFileStatus(new Path("/data/a"))));
    say("missing", () -> fs.getFileStatus(new Path("/data/none")));
    say("list", () -> {
      StringBuilder names = new StringBuilder();
      for (FileStatus f : fs.listStatus(new Path("/data"))) {
        names.append(status(f)).append(' ');
      }
      return names;
    });
    say("list missing", () -> fs.listStatus(new Path("/nowhere")));
    say("mkdirs", () -> fs.mkdirs(new Path("/data/made")));
    say("made", () -> fs.getFileStatus(new Path("/data/made")).isDirectory());
    say("forbidden", () -> fs.mkdirs(new Path("/forbidden")));
    say("again", () -> fs.mkdirs(new Path("/again")));
    say("unknown", () -> fs.getQuotaUsage(new Path("/data")));
    say("proxy", () -> UserGroupInformation.createProxyUser("alice", UserGroupInformation.createRemoteUser("hive"))
        .doAs((PrivilegedExceptionAction<Object>) () -> FileSystem.newInstance(conf).mkdirs(new Path("/data/alice"))));
    say("no proxy", () -> UserGroupInformation.createProxyUser("root", UserGroupInformation.createRemoteUser("eve"))
        .doAs((PrivilegedExceptionAction<Object>) () -> FileSystem.newInstance(conf).mkdirs(new Path("/data/eve"))));
    String[] address = args[1].split(":");
    LocatedBlock block = new LocatedBlock(new ExtendedBlock("BP-1", 7, 0, 1), DatanodeInfo.EMPTY_ARRAY);
    ClientDatanodeProtocol node = DFSUtilClient.createClientDatanodeProtocolProxy(
        new DatanodeID(address[0], address[0], "d", 1, 1, 0, Integer.parseInt(address[1])), conf, 20000, false, block);
    say("visible", () -> node.getReplicaVisibleLength(block.getBlock()));
    Thread[] threads = new Thread[8];
    for (int i = 0; i < threads.length; i++) {
      (threads[i] = new Thread(() -> {
        try {
          for (int k = 0; k < 200; k++) {
            fs.getFileStatus(new Path("/data/a"));
          }
        } catch (Exception e) {
          System.out.println("> thread: " + e);
        }
      })).start();
    }
    for (Thread t : threads) {
      t.join();
    }
    System.out.println("> threads: done");
  }

  private static String status(FileStatus f) {
    return f.getPath().getName() + ":" + f.getLen() + ":" + f.getOwner() + ":" + f.getPermission();
  }

  private static void say(String what, Callable<Object> call) {
    String got;
    try {
      got = String.valueOf(call.call());
    } catch (Exception e) {
      String name = e instanceof RemoteException ? ((RemoteException) e).getClassName() : e.getClass().getName();
      got = name + " " + String.valueOf(e.getMessage()).split("\n")[0];
    }
    System.out.println("> " + what + ": " + got);
  }
}
