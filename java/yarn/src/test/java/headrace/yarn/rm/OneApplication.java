package headrace.yarn.rm;

import java.nio.file.Path;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;

/** A scheduler with a node of 8 GB, and an application in the queue low. */
abstract class OneApplication {
    @TempDir
    Path dir;
    FakeManager manager;
    /** What the scheduler is started with. */
    Configuration conf;
    TestCluster cluster;
    MockNM node;
    MockAM am;
    List<ContainerId> ids;

    @BeforeEach
    void prepare() throws Exception {
        manager = new FakeManager(dir);
        conf = TestCluster.conf(manager);
    }

    /** Starts the scheduler; the application has 1 GB for its master, and in containers that run so many. */
    List<ContainerId> start(int containers) throws Exception {
        cluster = cluster == null ? new TestCluster(conf) : cluster;
        node = cluster.node("127.0.0.1:1001", 8);
        am = cluster.application("low", node);
        ids = cluster.containers(am, node, containers);
        ids.forEach(id -> manager.set(id, s -> s.state = "running"));
        return ids;
    }

    @AfterEach
    void stop() {
        if (cluster != null) {
            cluster.close();
        }
        manager.close();
    }
}
