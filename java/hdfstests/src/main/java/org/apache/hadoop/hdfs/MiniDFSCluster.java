package org.apache.hadoop.hdfs;

import java.io.BufferedReader;
import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.ProcessBuilder.Redirect;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.net.SocketException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.FSNamesystem;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.hdfs.server.namenode.NameNodes;
import org.apache.hadoop.hdfs.server.protocol.NamenodeProtocols;

/**
 * Stands in for Hadoop's class of this name: each name node is a process of headrace dfs start, in a directory of its own
 * below the one that the property headrace.tests.dir names, and so are its data nodes. The property
 * headrace.tests.program is the program. A cluster that is not to be formatted is the last one again.
 */
public class MiniDFSCluster implements AutoCloseable {
  /** Takes what tests ask for, of which there is one node here. */
  public static class Builder {
    private final Configuration conf;
    private int nameNodes = 1;
    private boolean format = true;

    public Builder(Configuration conf) {
      this.conf = conf;
    }

    public Builder(Configuration conf, File dir) {
      this(conf);
    }

    public Builder numDataNodes(int n) {
      return this;
    }

    public Builder nameNodePort(int port) {
      return this;
    }

    public Builder nameNodeHttpPort(int port) {
      return this;
    }

    public Builder format(boolean yes) {
      format = yes;
      return this;
    }

    public Builder nnTopology(MiniDFSNNTopology topology) {
      nameNodes = topology.countNameNodes();
      return this;
    }

    public Builder manageNameDfsDirs(boolean yes) {
      return this;
    }

    public Builder racks(String[] racks) {
      return this;
    }

    public Builder hosts(String[] hosts) {
      return this;
    }

    public Builder waitSafeMode(boolean yes) {
      return this;
    }

    public Builder checkExitOnShutdown(boolean yes) {
      return this;
    }

    public Builder checkDataNodeHostConfig(boolean yes) {
      return this;
    }

    public Builder checkDataNodeAddrConfig(boolean yes) {
      return this;
    }

    public Builder simulatedCapacities(long[] capacities) {
      return this;
    }

    public Builder storagesPerDatanode(int n) {
      return this;
    }

    public MiniDFSCluster build() throws IOException {
      if (format || last.size() != nameNodes) {
        last.clear();
        for (int i = 0; i < nameNodes; i++) {
          last.add(Files.createTempDirectory(Path.of(System.getProperty("headrace.tests.dir")), "dfs"));
        }
      }
      return new MiniDFSCluster(conf);
    }
  }

  /** The directories of the last cluster. */
  private static final List<Path> last = new ArrayList<>();

  private final Configuration conf;
  private final List<Node> nodes = new ArrayList<>();

  private MiniDFSCluster(Configuration conf) throws IOException {
    this.conf = conf;
    for (Path dir : last) {
      nodes.add(new Node(dir));
    }
    FileSystem.setDefaultUri(conf, getURI());
    conf.setInt("dfs.replication", 1);
    conf.set("dfs.namenode.http-address", nodes.get(0).http());
  }

  /** A process. */
  private static final class Node {
    final Path dir;
    Process process;
    URI uri = URI.create("hdfs://127.0.0.1:0");
    int httpPort;

    Node(Path dir) throws IOException {
      this.dir = dir;
      start();
      Runtime.getRuntime().addShutdownHook(new Thread(() -> process.destroyForcibly()));
    }

    String http() {
      return "127.0.0.1:" + httpPort;
    }

    void start() throws IOException {
      boolean chosen = httpPort != 0;
      for (int tries = 0; ; tries++) {
        if (!chosen) {
          try (ServerSocket free = new ServerSocket(0)) {
            httpPort = free.getLocalPort();
          }
        }
        process = new ProcessBuilder(System.getProperty("headrace.tests.program"), "dfs", "start", "--dir", dir.toString(),
                "--port", "" + uri.getPort(), "--data-port", "0", "--http-port", "" + httpPort, "--min-block-size", "0")
            .redirectError(Redirect.appendTo(dir.resolveSibling("log").toFile()))
            .start();
        String line = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        if (line != null) {
          uri = URI.create(line);
          return;
        }
        if (chosen || tries == 5) { // else somebody may have taken the port meanwhile
          throw new IOException("headrace dfs start has ended: see the log in " + dir.getParent());
        }
      }
    }

    void stop() {
      process.destroy();
      try {
        if (!process.waitFor(20, TimeUnit.SECONDS)) {
          process.destroyForcibly().waitFor();
        }
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }

  public URI getURI() {
    return getURI(0);
  }

  public URI getURI(int nameNode) {
    return nodes.get(nameNode).uri;
  }

  public String getHttpUri(int nameNode) {
    return "http://" + nodes.get(nameNode).http();
  }

  public int getNameNodePort() {
    return getNameNodePort(0);
  }

  public int getNameNodePort(int nameNode) {
    return getURI(nameNode).getPort();
  }

  public DistributedFileSystem getFileSystem() throws IOException {
    return getFileSystem(0);
  }

  public DistributedFileSystem getFileSystem(int nameNode) throws IOException {
    return (DistributedFileSystem) FileSystem.get(getURI(nameNode), conf);
  }

  public FileSystem getNewFileSystemInstance(int nameNode) throws IOException {
    return FileSystem.newInstance(getURI(nameNode), conf);
  }

  /** None that can be looked into. */
  public ArrayList<DataNode> getDataNodes() {
    return new ArrayList<>();
  }

  public NameNode getNameNode() {
    return getNameNode(0);
  }

  public NameNode getNameNode(int nameNode) {
    return inside(nameNode).nameNode();
  }

  public FSNamesystem getNamesystem() {
    return getNamesystem(0);
  }

  public FSNamesystem getNamesystem(int nameNode) {
    return inside(nameNode).namesystem();
  }

  public NamenodeProtocols getNameNodeRpc() {
    return getNameNodeRpc(0);
  }

  public NamenodeProtocols getNameNodeRpc(int nameNode) {
    return inside(nameNode).rpc();
  }

  private NameNodes inside(int nameNode) {
    try {
      return new NameNodes(getFileSystem(nameNode));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public Configuration getConfiguration(int nameNode) {
    return conf;
  }

  public void waitActive() {}

  public void waitActive(int nameNode) {}

  public void waitClusterUp() {}

  public boolean isClusterUp() {
    return nodes.stream().allMatch(n -> n.process.isAlive());
  }

  public void restartNameNode(String... args) throws IOException {
    restartNameNode(0);
  }

  public void restartNameNode(boolean waitActive) throws IOException {
    restartNameNode(0);
  }

  public void restartNameNode(int nameNode) throws IOException {
    nodes.get(nameNode).stop();
    nodes.get(nameNode).start();
    for (int tries = 3; ; tries--) { // the client finds out that its connection is gone by the next call that it makes
      try (FileSystem fs = FileSystem.newInstance(getURI(nameNode), conf)) {
        fs.exists(new org.apache.hadoop.fs.Path("/"));
        return;
      } catch (EOFException | SocketException e) {
        if (tries == 0) {
          throw e;
        }
      }
    }
  }

  public void restartNameNodes() throws IOException {
    for (int i = 0; i < nodes.size(); i++) {
      restartNameNode(i);
    }
  }

  public int getNumNameNodes() {
    return nodes.size();
  }

  public void shutdownNameNodes() {
    shutdown();
  }

  public void shutdownNameNode(int nameNode) {
    nodes.get(nameNode).stop();
  }

  public void shutdown() {
    nodes.forEach(Node::stop);
  }

  /** Data nodes end with their name nodes. */
  public void shutdownDataNodes() {
    shutdown();
  }

  public boolean restartDataNodes() throws IOException {
    restartNameNodes();
    return true;
  }

  public void triggerHeartbeats() {}

  public void triggerBlockReports() {}

  public void shutdown(boolean deleteDirectory) {
    shutdown();
  }

  public void shutdown(boolean deleteDirectory, boolean format) {
    shutdown();
  }

  @Override
  public void close() {
    shutdown();
  }
}
