package headrace.spark;

import headrace.client.ClaimedFiles;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.HdfsBlockLocation;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.spark.SparkConf;
import org.apache.spark.deploy.master.Master$;
import org.apache.spark.deploy.worker.Worker$;
import org.apache.spark.rpc.RpcEnv;
import scala.Option;

/** For tests: a standalone Spark whose workers are two hosts, and a file system with replicas on both. */
final class TwoHosts implements AutoCloseable {
    static final String A = "127.0.0.2";
    static final String B = "127.0.0.3";

    /**
     * Local files as hdfs://c/..., each of one block, whose number is that in its name. They are on both hosts; those that
     * are called hidden are, too, but nobody says so but in their block.
     */
    public static final class Files2 extends ClaimedFiles {
        @Override
        public BlockLocation[] getFileBlockLocations(FileStatus file, long start, long length) {
            String[] hosts = file.getPath().getName().startsWith("hidden") ? new String[] {"nowhere"} : new String[] {A, B};
            BlockLocation at = new BlockLocation(hosts, hosts, 0, file.getLen());
            return new BlockLocation[] {new HdfsBlockLocation(at, new LocatedBlock(
                new ExtendedBlock("BP-1", number(file.getPath().getName())), new DatanodeInfo[0]))};
        }
    }

    /** The number in a name. */
    static long number(String name) {
        return Long.parseLong("0" + name.replaceAll("[^0-9]", ""));
    }

    private final RpcEnv master;
    private final RpcEnv[] workers = new RpcEnv[2];

    TwoHosts(Path dir) throws IOException {
        Files.createDirectories(Path.of(System.getenv("SPARK_HOME"), "jars"));
        SparkConf conf = new SparkConf(false).set("spark.worker.cleanup.enabled", "false");
        master = Master$.MODULE$.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1();
        String[] hosts = {A, B};
        for (int i = 0; i < hosts.length; i++) {
            workers[i] = Worker$.MODULE$.startRpcEnvAndEndpoint(hosts[i], 0, 0, 1, 512, new String[] {url()},
                dir.resolve("work" + i).toString(), Option.apply((Object) i), conf, Option.empty());
        }
    }

    private String url() {
        return "spark://127.0.0.1:" + master.address().port();
    }

    /** What an application needs to run here. */
    SparkConf conf() {
        return configure(new SparkConf(false)).setMaster(url()).set("spark.hadoop.fs.hdfs.impl", Files2.class.getName());
    }

    /** What any application needs whose executors are processes. */
    static SparkConf configure(SparkConf conf) {
        return conf.setAppName("test")
            .set("spark.ui.enabled", "false").set("spark.driver.host", "127.0.0.1").set("spark.executor.memory", "512m")
            .set("spark.executor.extraClassPath", System.getProperty("java.class.path"))
            .set("spark.executor.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:MetaspaceSize=256m -XX:-UsePerfData -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote");
    }

    @Override
    public void close() {
        for (RpcEnv worker : workers) {
            worker.shutdown();
        }
        master.shutdown();
    }
}
