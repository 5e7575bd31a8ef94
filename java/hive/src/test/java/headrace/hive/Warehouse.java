package headrace.hive;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.hive.common.metrics.common.MetricsFactory;
import org.apache.hadoop.hive.common.metrics.metrics2.CodahaleMetrics;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.metadata.HiveException;
import org.apache.hadoop.hive.ql.processors.CommandProcessor;
import org.apache.hadoop.hive.ql.processors.CommandProcessorFactory;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/** A Hive with its metastore in this process, on an HDFS of its own; one for all tests. */
final class Warehouse {
    private static Warehouse only;

    private final Path dir = Path.of("target", "warehouse").toAbsolutePath();
    private final HiveConf conf;

    private Warehouse() throws Exception {
        FileUtil.fullyDelete(dir.toFile());
        Files.createDirectories(dir);
        System.setProperty("derby.stream.error.file", dir.resolve("derby.log").toString());
        HdfsConfiguration site = new HdfsConfiguration();
        site.set("hadoop.tmp.dir", dir.resolve("tmp").toString());
        site.set("fs.defaultFS", "hdfs://127.0.0.1:0");
        for (String address : new String[] {"dfs.namenode.http-address", "dfs.datanode.address",
            "dfs.datanode.http.address", "dfs.datanode.ipc.address"}) {
            site.set(address, "127.0.0.1:0");
        }
        site.setBoolean("dfs.permissions.enabled", false);
        DefaultMetricsSystem.setMiniClusterMode(true); // both daemons are in one process
        NameNode.format(site);
        site.set("fs.defaultFS", "hdfs://127.0.0.1:" + new NameNode(site).getNameNodeAddress().getPort());
        DataNode.createDataNode(new String[0], site);
        conf = new HiveConf(site, Warehouse.class);
        set("hive.metastore.warehouse.dir", "/warehouse", "hive.metastore.warehouse.external.dir", "/warehouse",
            "javax.jdo.option.ConnectionURL", "jdbc:derby:memory:metastore;create=true",
            "datanucleus.schema.autoCreateAll", "true", "hive.metastore.schema.verification", "false",
            "hive.exec.scratchdir", "/scratch", "hive.exec.local.scratchdir", dir.resolve("scratch").toString(),
            "hive.downloaded.resources.dir", dir.resolve("resources").toString(),
            "hive.support.concurrency", "false", "hive.stats.autogather", "false",
            "hive.query.reexecution.enabled", "false",
            "mapreduce.framework.name", "local", "mapreduce.cluster.local.dir", dir.resolve("mapred").toString(),
            "hive.exec.submit.local.task.via.child", "false",
            "tez.local.mode", "true", "tez.runtime.optimize.local.fetch", "true", "tez.ignore.lib.uris", "true",
            "tez.staging-dir", "/tez", "hive.jar.directory", "/jars", "hive.user.install.directory", "/users",
            "hive.query.lifetime.hooks", TimedHook.class.getName(), "hive.service.metrics.reporter", "");
        MetricsFactory.init(conf);
    }

    /** What is counted, as HiveServer2 tells it. */
    static String metrics() throws Exception {
        return ((CodahaleMetrics) MetricsFactory.getInstance()).dumpJson();
    }

    static synchronized Warehouse get() throws Exception {
        if (only == null) {
            only = new Warehouse();
        }
        return only;
    }

    private void set(String... settings) {
        for (int i = 0; i < settings.length; i += 2) {
            conf.set(settings[i], settings[i + 1]);
        }
    }

    /** Begins a session of the calling thread. */
    HiveConf session(String... settings) throws HiveException {
        return session(false, settings);
    }

    /** Begins one as HiveServer2 does. */
    HiveConf serverSession(String... settings) throws HiveException {
        return session(true, settings);
    }

    private HiveConf session(boolean server, String... settings) throws HiveException {
        HiveConf own = new HiveConf(conf);
        for (int i = 0; i < settings.length; i += 2) {
            own.set(settings[i], settings[i + 1]);
        }
        SessionState session = new SessionState(own);
        session.setIsHiveServerQuery(server);
        SessionState.start(session);
        session.applyAuthorizationPolicy();
        return own;
    }

    /** Where a path of the file system is, as requests name it. */
    String at(String path) {
        return conf.get("fs.defaultFS") + path;
    }

    void write(String path, String text) throws IOException {
        try (FSDataOutputStream out = FileSystem.get(conf).create(new org.apache.hadoop.fs.Path(path))) {
            out.write(text.getBytes(StandardCharsets.UTF_8));
        }
    }

    /** Runs a statement of the session, and returns its rows. */
    static List<String> run(String sql) throws Exception {
        HiveConf conf = SessionState.get().getConf();
        String[] words = sql.split("\\s+", 2);
        List<String> rows = new ArrayList<>();
        CommandProcessor command = CommandProcessorFactory.getForHiveCommand(words, conf);
        if (command != null) {
            command.run(words[1]);
            return rows;
        }
        try (IDriver driver = DriverFactory.newDriver(conf)) {
            driver.run(sql);
            List<String> some = new ArrayList<>();
            while (driver.getResults(some)) {
                rows.addAll(some);
                some.clear();
            }
        }
        return rows;
    }
}
