package headrace.cluster;

import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/**
 * Formats an HDFS and is its name node, without the start of a virtual machine for each; with the argument "data" its data
 * node as well. Configured by the class path.
 */
public final class NewHdfs {
  private NewHdfs() {}

  public static void main(String[] args) {
    try {
      DefaultMetricsSystem.setMiniClusterMode(true); // allows for two daemons in one process
      Configuration conf = new HdfsConfiguration();
      NameNode.format(conf);
      NameNode.createNameNode(new String[0], conf);
      if (List.of(args).contains("data")) {
        DataNode.createDataNode(new String[0], conf);
      }
    } catch (Throwable e) {
      e.printStackTrace();
      Runtime.getRuntime().halt(1); // what has started already would go on
    }
  }
}
