package org.apache.hadoop.hdfs;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.ProcessBuilder.Redirect;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;

/**
 * Stands in for Hadoop's class of this name: the cluster is a process of headrace dfs start, in a directory of its own
 * below the one that the property headrace.tests.dir names. The property headrace.tests.program is the program.
 */
public class MiniDFSCluster implements AutoCloseable {
  /** Takes what tests ask for, of which there is one node here. */
  public static class Builder {
    private final Configuration conf;

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

    public Builder storagesPerDatanode(int n) {
      return this;
    }

    public MiniDFSCluster build() throws IOException {
      return new MiniDFSCluster(conf);
    }
  }

  private final Configuration conf;
  private final Process process;
  private final URI uri;

  private MiniDFSCluster(Configuration conf) throws IOException {
    this.conf = conf;
    Path dir = Files.createTempDirectory(Path.of(System.getProperty("headrace.tests.dir")), "dfs");
    process = new ProcessBuilder(System.getProperty("headrace.tests.program"), "dfs", "start", "--dir", dir.toString(),
            "--port", "0", "--data-port", "0", "--min-block-size", "0")
        .redirectError(Redirect.appendTo(dir.resolveSibling("log").toFile()))
        .start();
    Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
    String line = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
    if (line == null) {
      throw new IOException("headrace dfs start has ended: see the log in " + dir.getParent());
    }
    uri = URI.create(line);
    FileSystem.setDefaultUri(conf, uri);
    conf.setInt("dfs.replication", 1);
  }

  public URI getURI() {
    return uri;
  }

  public URI getURI(int nameNode) {
    return uri;
  }

  public int getNameNodePort() {
    return uri.getPort();
  }

  public int getNameNodePort(int nameNode) {
    return uri.getPort();
  }

  public DistributedFileSystem getFileSystem() throws IOException {
    return (DistributedFileSystem) FileSystem.get(uri, conf);
  }

  public DistributedFileSystem getFileSystem(int nameNode) throws IOException {
    return getFileSystem();
  }

  public Configuration getConfiguration(int nameNode) {
    return conf;
  }

  public void waitActive() {}

  public void waitActive(int nameNode) {}

  public void waitClusterUp() {}

  public boolean isClusterUp() {
    return process.isAlive();
  }

  public void shutdown() {
    process.destroy();
    try {
      if (!process.waitFor(20, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

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
