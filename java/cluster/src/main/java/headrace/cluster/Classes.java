package headrace.cluster;

import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.util.ToolRunner;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.nodemanager.NodeManager;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;

/**
 * Loads the classes of Hadoop's daemons and clients by being all of them for a moment, so that a virtual machine that
 * lists its classes has those of all others. The containers of a MapReduce job list theirs in the argument, a directory.
 */
public final class Classes {
  private Classes() {}

  public static void main(String[] args) {
    try {
      load(Path.of(args[0]));
    } catch (Throwable e) {
      e.printStackTrace();
      Runtime.getRuntime().halt(1); // the daemons' threads would go on
    }
  }

  private static void load(Path dir) throws Exception {
    DefaultMetricsSystem.setMiniClusterMode(true); // allows for two daemons in one process
    Configuration conf = new YarnConfiguration();
    new ResourceManager() {{ init(conf); }}.start();
    new NodeManager() {{ init(conf); }}.start();
    hdfs(dir);
    mapReduce(dir);
    ShellMaster.main(new String[] {"--name", "classes", "--queue", "low", "--command", "true"}); // exits
  }

  private static void hdfs(Path dir) throws Exception {
    Configuration conf = new HdfsConfiguration();
    conf.set("dfs.namenode.name.dir", dir.resolve("name").toUri().toString());
    conf.set("dfs.datanode.data.dir", dir.resolve("data").toString());
    conf.set("dfs.replication", "1");
    for (String at : new String[] {"namenode.rpc-", "namenode.http-", "datanode.", "datanode.http.", "datanode.ipc."}) {
      conf.set("dfs." + at + "address", "127.0.0.1:0");
    }
    FileSystem.setDefaultUri(conf, URI.create("hdfs://127.0.0.1:0"));
    NameNode.format(conf);
    NameNode name = new NameNode(conf);
    conf.unset("dfs.namenode.rpc-address");
    FileSystem.setDefaultUri(conf, URI.create("hdfs://127.0.0.1:" + name.getNameNodeAddress().getPort()));
    DataNode.createDataNode(new String[0], conf);
    ToolRunner.run(new FsShell(conf), new String[] {"-put", dir.resolve("name").toString(), "/"});
    ToolRunner.run(new FsShell(conf), new String[] {"-cat", "/name/current/VERSION"});
  }

  private static void mapReduce(Path dir) throws Exception {
    Configuration conf = new YarnConfiguration();
    conf.set("mapreduce.framework.name", "yarn");
    conf.set("mapreduce.job.queuename", "low");
    for (var of : Map.of("yarn.app.mapreduce.am.command-opts", "master", "mapreduce.map.java.opts", "map", "mapreduce.reduce.java.opts",
        "reduce").entrySet()) {
      conf.set(of.getKey(), "-Xmx256m -XX:DumpLoadedClassList=" + dir.resolve(of.getValue()));
    }
    Job job = Job.getInstance(conf, "classes");
    job.setNumReduceTasks(1);
    FileInputFormat.addInputPath(job, new org.apache.hadoop.fs.Path(Files.writeString(dir.resolve("input"), "a line\n").toUri()));
    FileOutputFormat.setOutputPath(job, new org.apache.hadoop.fs.Path(dir.resolve("output").toUri()));
    if (!job.waitForCompletion(false)) {
      throw new IllegalStateException("the job that lists its classes has failed: " + job.getStatus().getFailureInfo());
    }
  }
}
