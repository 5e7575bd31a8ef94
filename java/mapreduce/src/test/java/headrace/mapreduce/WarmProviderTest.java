package headrace.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.UnixServer;
import java.nio.file.Path;
import java.util.ServiceLoader;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.protocol.ClientProtocol;
import org.apache.hadoop.mapreduce.protocol.ClientProtocolProvider;
import org.apache.hadoop.mapreduce.split.JobSplitWriter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Up to the submission itself, which needs a ResourceManager. */
class WarmProviderTest {
    private static final JobID JOB = new JobID("1700000000000", 42);

    @TempDir
    Path dir;
    private final Configuration conf = new Configuration();
    private final BlockingQueue<String> requests = new LinkedBlockingQueue<>();

    private ClientProtocol client(String... properties) throws Exception {
        conf.set("mapreduce.framework.name", "yarn");
        for (int i = 0; i < properties.length; i += 2) {
            conf.set(properties[i], properties[i + 1]);
        }
        return new WarmProvider().create(conf);
    }

    @Test
    void isFoundByHadoop() {
        assertTrue(ServiceLoader.load(ClientProtocolProvider.class).stream().anyMatch(p -> p.type() == WarmProvider.class));
    }

    @Test
    void standsInForYarnUnlessAJobDoesWithout() throws Exception {
        ClientProtocol client = client();
        assertInstanceOf(WarmRunner.class, client);
        new WarmProvider().close(client);
        assertNull(client("headrace.warm", "false"));
        assertNull(client("headrace.warm", "true", "mapreduce.framework.name", "local"));
    }

    @Test
    void asksForTheInputOfAJob() throws Exception {
        conf.set("headrace.node.socket", dir.resolve("s").toString());
        conf.set("headrace.warm.patience", "30s");
        conf.set("headrace.warm.implicit", "true");
        org.apache.hadoop.fs.Path staging = new org.apache.hadoop.fs.Path(dir.toUri());
        JobSplitWriter.createSplitFiles(staging, conf, staging.getFileSystem(conf),
            new FileSplit[] {new FileSplit(new org.apache.hadoop.fs.Path("hdfs://c/a"), 0, 10, new String[0]),
                new FileSplit(new org.apache.hadoop.fs.Path("hdfs://c/b"), 10, 20, new String[] {"h"})});
        try (UnixServer node = UnixServer.answering(dir.resolve("s"), request -> {
            requests.add(request);
            return UnixServer.http("200 OK", "{}");
        })) {
            JobWarming warming = JobWarming.start(JOB, staging.toString(), conf);
            assertNotNull(warming);
            String request = requests.take();
            assertTrue(request.contains("{\"job\":\"application_1700000000000_0042\",\"implicit\":true,"), request);
            assertTrue(request.endsWith("\"paths\":[\"hdfs://c/a\",\"hdfs://c/b\"],"
                + "\"readers\":[{\"path\":1,\"start\":\"10\",\"length\":\"20\",\"host\":\"h\"}]}"), request);
            warming.lost(false); // of what is let go as it is read nobody knows what was read
            warming.end();
            assertTrue(requests.take().endsWith("{\"jobs\":[\"application_1700000000000_0042\"]}"));
        }
    }

    @Test
    void whoHearsNothingAsksForNoPlaces() throws Exception {
        conf.set("headrace.node.socket", dir.resolve("s").toString());
        conf.set("headrace.warm.lead", "60");
        org.apache.hadoop.fs.Path staging = new org.apache.hadoop.fs.Path(dir.toUri());
        JobSplitWriter.createSplitFiles(staging, conf, staging.getFileSystem(conf),
            new FileSplit[] {new FileSplit(new org.apache.hadoop.fs.Path("hdfs://c/a"), 0, 10, new String[0])});
        try (UnixServer node = UnixServer.answering(dir.resolve("s"), request -> {
            requests.add(request);
            return "";
        })) {
            assertNotNull(JobWarming.start(JOB, staging.toString(), conf));
        }
        assertTrue(requests.stream().noneMatch(request -> request.contains("/Places ")), requests::toString);
    }

    @Test
    void aJobGoesOnWithoutTheNodeAndWithSettingsThatMakeNoSense() throws Exception {
        conf.set("headrace.node.socket", dir.resolve("nobody").toString());
        assertNotNull(JobWarming.start(JOB, dir.toString(), conf));
        for (String name : new String[] {"headrace.warm.patience", "headrace.warm.lead"}) {
            for (String value : new String[] {"-1", "soon"}) {
                Configuration wrong = new Configuration(conf);
                wrong.set(name, value);
                assertNull(JobWarming.start(JOB, dir.toString(), wrong), name + " " + value);
            }
        }
        assertEquals(0, requests.size());
    }
}
