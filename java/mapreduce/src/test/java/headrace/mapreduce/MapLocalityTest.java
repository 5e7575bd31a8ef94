package headrace.mapreduce;

import static headrace.client.Await.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.BlockCopies.Block;
import headrace.client.ClaimedFiles;
import headrace.client.FakeFollow;
import headrace.client.Liar;
import headrace.client.PatientResidency;
import headrace.client.UnixServer;
import headrace.locality.ResidentShares;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.HdfsBlockLocation;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.split.JobSplitWriter;
import org.apache.hadoop.mapreduce.v2.api.records.JobId;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptId;
import org.apache.hadoop.mapreduce.v2.api.records.TaskType;
import org.apache.hadoop.mapreduce.v2.app.MRAppMaster;
import org.apache.hadoop.mapreduce.v2.app.job.Job;
import org.apache.hadoop.mapreduce.v2.app.job.event.JobCounterUpdateEvent;
import org.apache.hadoop.mapreduce.v2.app.job.event.TaskAttemptContainerAssignedEvent;
import org.apache.hadoop.mapreduce.v2.app.rm.ContainerAllocator;
import org.apache.hadoop.mapreduce.v2.app.rm.ContainerFailedEvent;
import org.apache.hadoop.mapreduce.v2.app.rm.ContainerRequestEvent;
import org.apache.hadoop.mapreduce.v2.app.rm.RMContainerAllocator;
import org.apache.hadoop.mapreduce.v2.app.rm.preemption.AMPreemptionPolicy;
import org.apache.hadoop.mapreduce.v2.util.MRBuilderUtils;
import org.apache.hadoop.yarn.api.ApplicationMasterProtocol;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterResponse;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.event.Event;
import org.apache.hadoop.yarn.event.EventHandler;
import org.apache.hadoop.yarn.util.SystemClock;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** With MapReduce's own allocator, a ResourceManager that gives what it is told to, and a node that says what is in memory. */
class MapLocalityTest {
    private static final ApplicationAttemptId APPLICATION =
        ApplicationAttemptId.newInstance(ApplicationId.newInstance(1, 1), 1);
    private static final int MAPS = 8;
    private static final int FAILED = 5;
    private static final int REDUCE = 10;
    private static final int MAP = 20;
    private static final Resource SIZE = Resource.newInstance(512, 1);
    private static final String A = "a";
    private static final String B = "b";

    @TempDir
    java.nio.file.Path dir;

    private final JobId job = MRBuilderUtils.newJobId(APPLICATION.getApplicationId(), 1);
    private final FakeFollow manager = new FakeFollow();
    private final Liar liar = new Liar(manager);
    private final Configuration conf = new Configuration();
    private final List<Container> giving = new ArrayList<>();
    private final Map<TaskAttemptId, String> assigned = new HashMap<>();
    private final Map<MapMemory, Long> counts = new EnumMap<>(MapMemory.class);
    private int containers;
    private int maps = MAPS;
    private UnixServer node;
    private Allocator allocator;
    private MemoryLocalityPolicy policy;

    /** Local files as hdfs://c/..., each of one block, whose number is its name. */
    public static final class OneBlock extends ClaimedFiles {
        @Override
        public BlockLocation[] getFileBlockLocations(FileStatus file, long start, long length) {
            String[] hosts = {A, B};
            return new BlockLocation[] {new HdfsBlockLocation(new BlockLocation(hosts, hosts, 0, file.getLen()), new LocatedBlock(
                new ExtendedBlock("BP-1", Long.parseLong(file.getPath().getName())), new DatanodeInfo[0]))};
        }
    }

    /** The allocator is called by the test, not by a thread, but where it looks for events itself. */
    private final class Allocator extends RMContainerAllocator {
        Allocator(MRAppMaster.RunningAppContext context, AMPreemptionPolicy policy) {
            super(null, context, policy);
        }

        @Override
        protected ApplicationMasterProtocol createSchedulerProxy() {
            return (ApplicationMasterProtocol) Proxy.newProxyInstance(getClass().getClassLoader(),
                new Class<?>[] {ApplicationMasterProtocol.class}, (proxy, method, arguments) -> {
                    if (method.getName().equals("registerApplicationMaster")) {
                        return RegisterApplicationMasterResponse.newInstance(SIZE, SIZE, Map.of(), null, List.of(), "q", List.of());
                    }
                    AllocateResponse answer = AllocateResponse.newInstance(0, List.of(), new ArrayList<>(giving), List.of(), SIZE, null,
                        2, null, List.of());
                    giving.clear();
                    return answer;
                });
        }

        @Override
        protected void startAllocatorThread() { }

        void ask(int map, int attempt, boolean again) {
            TaskAttemptId id = attempt(map, attempt);
            Resource size = Resource.newInstance(512, 1);
            handleEvent(again ? ContainerRequestEvent.createContainerRequestEventForFailedContainer(id, size)
                : new ContainerRequestEvent(id, size, new String[] {A, B}, new String[] {"/default-rack"}));
        }

        void fail(int map, String host) {
            handleEvent(new ContainerFailedEvent(attempt(map, 0), host + ":1"));
        }

        /** One in which containers of these hosts come. */
        void heartbeat(int priority, String... hosts) throws Exception {
            for (String host : hosts) {
                giving.add(Container.newInstance(ContainerId.newContainerId(APPLICATION, ++containers), NodeId.newInstance(host, 1),
                    host + ":2", SIZE, Priority.newInstance(priority), null));
            }
            heartbeat();
        }
    }

    private final class Master extends MRAppMaster {
        final RunningAppContext context;

        Master() {
            super(APPLICATION, ContainerId.newContainerId(APPLICATION, 1), "localhost", 1, 2, SystemClock.getInstance(), 0);
            context = new Context(this);
        }

        @Override
        public ContainerAllocator getContainerAllocator() {
            return allocator;
        }
    }

    private final class Context extends MRAppMaster.RunningAppContext {
        Context(MRAppMaster master) {
            master.super(conf, null);
        }

        @Override
        public Job getJob(JobId id) {
            return (Job) Proxy.newProxyInstance(Job.class.getClassLoader(), new Class<?>[] {Job.class}, (proxy, method, arguments) -> {
                Class<?> returns = method.getReturnType();
                return method.getName().equals("getTotalMaps") ? (Object) maps : method.getName().equals("getID") ? job
                    : returns == int.class ? (Object) 0 : returns == float.class ? (Object) 0f : returns == boolean.class ? (Object) false : null;
            });
        }

        @SuppressWarnings({"unchecked", "rawtypes"})
        @Override
        public EventHandler<Event> getEventHandler() {
            return event -> {
                if (event instanceof TaskAttemptContainerAssignedEvent) {
                    TaskAttemptContainerAssignedEvent to = (TaskAttemptContainerAssignedEvent) event;
                    assigned.put(to.getTaskAttemptID(), to.getContainer().getNodeId().getHost());
                } else if (event instanceof JobCounterUpdateEvent) {
                    ((JobCounterUpdateEvent) event).getCounterUpdates().stream().filter(u -> u.getCounterKey() instanceof MapMemory)
                        .forEach(u -> counts.merge((MapMemory) u.getCounterKey(), u.getIncrementValue(), Long::sum));
                }
            };
        }
    }

    private TaskAttemptId attempt(int map, int number) {
        return MRBuilderUtils.newTaskAttemptId(MRBuilderUtils.newTaskId(job, map, TaskType.MAP), number);
    }

    @BeforeEach
    void setUp() throws Exception {
        node = new UnixServer(dir.resolve("s"), liar);
        // It is also asked what is suspended, which it does not know.
        manager.instead(body -> body.contains("\"version\"") ? null : UnixServer.http("404 Not Found", "{\"code\":\"not_found\"}"));
        conf.set("headrace.node.socket", dir.resolve("s").toString());
        conf.set("fs.defaultFS", "hdfs://c");
        conf.setClass("fs.hdfs.impl", OneBlock.class, FileSystem.class);
        conf.setBoolean("fs.hdfs.impl.disable.cache", true);
        conf.setInt(MRJobConfig.MAX_TASK_FAILURES_PER_TRACKER, 1);
        conf.setInt(MRJobConfig.MR_AM_IGNORE_BLACKLISTING_BLACKLISTED_NODE_PERECENT, -1);
        Path staging = new Path(dir.resolve("job").toUri());
        conf.set(MRJobConfig.MAPREDUCE_JOB_DIR, staging.toString());
        InputSplit[] splits = new InputSplit[MAPS];
        for (int i = 0; i < MAPS; i++) {
            Files.writeString(dir.resolve("" + i), "sixteen letters\n");
            splits[i] = new FileSplit(new Path("hdfs://c" + dir.resolve("" + i)), 0, 16, new String[] {A, B});
        }
        JobSplitWriter.createSplitFiles(staging, conf, FileSystem.getLocal(conf).getRawFileSystem(), splits);
    }

    /** Starts a job with all of its maps. */
    private void start() throws Exception {
        Master master = new Master();
        policy = new MemoryLocalityPolicy(PatientResidency::start);
        policy.setConf(conf);
        allocator = new Allocator(master.context, policy);
        policy.init(master.context);
        allocator.init(conf);
        allocator.setShouldUnregister(false);
        allocator.start();
        for (int map = 0; map < MAPS; map++) {
            allocator.ask(map, 0, false);
        }
    }

    @AfterEach
    void tearDown() throws Exception {
        if (allocator != null) {
            allocator.stop();
        }
        node.close();
    }

    private void memory(int block, String host) {
        manager.set(new Block("BP-1", block), host, 100);
    }

    /** Returns when the policy orders by what is in memory of so many blocks. */
    private void awaitKnown(int blocks) throws InterruptedException {
        await(() -> {
            Set<Integer> resident = new HashSet<>();
            ResidentShares shares = policy.locality().shares();
            if (shares != null) {
                shares.homes((map, machine) -> resident.add(map));
            }
            return shares != null && resident.size() == blocks;
        });
    }

    private List<Integer> on(String host) {
        return assigned.entrySet().stream().filter(e -> e.getValue().equals(host)).map(e -> e.getKey().getTaskId().getId())
            .sorted().toList();
    }

    @Test
    void beginsWithWhatIsInMemoryAndCountsIt() throws Exception {
        memory(2, A);
        memory(5, A);
        memory(3, B);
        memory(6, B);
        start();
        awaitKnown(4);
        allocator.heartbeat(MAP, A, B);
        allocator.heartbeat(MAP, B, A);
        assertEquals(List.of(2, 5), on(A));
        assertEquals(List.of(3, 6), on(B));
        allocator.heartbeat(MAP, A, A, B, B);
        assertEquals(List.of(2, 4, 5, 7), on(A));
        assertEquals(List.of(0, 1, 3, 6), on(B));
        allocator.heartbeat(MAP);
        assertEquals(Map.of(MapMemory.MEMORY_LOCAL_MAPS, 4L, MapMemory.NOT_IN_MEMORY_MAPS, 4L), counts);
    }

    @Test
    void whatIsElsewhereIsLastAndCounts() throws Exception {
        for (int map = 0; map < MAPS - 1; map++) {
            memory(map, B);
        }
        start();
        awaitKnown(MAPS - 1);
        allocator.heartbeat(MAP, A, A);
        assertEquals(List.of(4, 7), on(A));
        allocator.heartbeat(MAP);
        assertEquals(Map.of(MapMemory.MEMORY_ELSEWHERE_MAPS, 1L, MapMemory.NOT_IN_MEMORY_MAPS, 1L), counts);
    }

    @Test
    void otherRacksLeaveWhatIsElsewhere() throws Exception {
        memory(0, A);
        memory(1, B);
        start();
        awaitKnown(2);
        allocator.heartbeat(MAP, "c", "c");
        assertEquals(List.of(4, 5), on("c"));
    }

    @Test
    void whatHasFailedGoesFirstAndReducersGetNothing() throws Exception {
        memory(2, A);
        memory(3, B);
        start();
        awaitKnown(2);
        allocator.heartbeat(MAP, A);
        allocator.ask(2, 1, true);
        allocator.heartbeat(REDUCE, B);
        allocator.heartbeat(FAILED, B);
        assertEquals(Map.of(attempt(2, 0), A, attempt(2, 1), B), assigned);
        allocator.ask(2, 2, false); // as one that was killed, or a speculative one
        allocator.heartbeat(MAP, A);
        assertEquals(A, assigned.get(attempt(2, 2)));
    }

    /** So that another job on the same files, which begins at the same time, reads others first. */
    @Test
    void withNothingInMemoryItBeginsInItsOwnPlace() throws Exception {
        start();
        await(() -> policy.locality().orders());
        List<Integer> order = new ArrayList<>();
        for (int map = 0; map < MAPS; map++) {
            allocator.heartbeat(MAP, map % 2 == 0 ? A : B);
            assigned.keySet().forEach(attempt -> order.add(attempt.getTaskId().getId()));
            assigned.clear();
        }
        assertEquals(List.of(4, 5, 6, 7, 0, 1, 2, 3), order); // .618 of 8
        allocator.heartbeat(MAP);
        assertEquals(Map.of(MapMemory.NOT_IN_MEMORY_MAPS, 8L), counts);
    }

    @Test
    void aBlacklistedMachineDoesNotCount() throws Exception {
        memory(0, A);
        start();
        awaitKnown(1);
        allocator.fail(7, A);
        allocator.heartbeat(MAP, A, B);
        allocator.heartbeat(MAP, B, B, B, B, B, B, B);
        assertEquals(List.of(), on(A));
        assertEquals(List.of(0, 1, 2, 3, 4, 5, 6, 7), on(B));
        allocator.heartbeat(MAP);
        assertEquals(Map.of(MapMemory.NOT_IN_MEMORY_MAPS, 8L), counts);
    }

    @Test
    void anyDoubtLeavesTheStockOrder() throws Exception {
        maps = MAPS + 1;
        memory(5, A);
        start();
        awaitKnown(1);
        allocator.heartbeat(MAP, A, B);
        allocator.heartbeat(MAP, A);
        assertEquals(List.of(0, 2), on(A));
        assertEquals(List.of(1), on(B));
        assertEquals(Map.of(MapMemory.MEMORY_DOUBTS, 1L), counts);
    }

    @Test
    void withoutANodeTheOrderIsStock() throws Exception {
        conf.set("headrace.node.socket", dir.resolve("nobody").toString());
        memory(5, A);
        start();
        allocator.heartbeat(MAP, A, B);
        assertEquals(List.of(0), on(A));
        assertEquals(List.of(1), on(B));
        assertNull(policy.locality().shares());
    }

    @Test
    void itCanBeSwitchedOff() throws Exception {
        conf.setBoolean("headrace.locality", false);
        memory(5, A);
        start();
        assertNull(policy.locality());
        allocator.heartbeat(MAP, A, B);
        allocator.heartbeat(MAP);
        assertEquals(List.of(0), on(A));
        assertEquals(Map.of(), counts);
    }

    @Test
    void whenTheNodeGoesTheRestIsInStockOrder() throws Exception {
        memory(5, A);
        memory(6, A);
        start();
        awaitKnown(2);
        allocator.heartbeat(MAP, A);
        manager.instead(body -> UnixServer.http("503 Service Unavailable", "{}"));
        memory(0, B); // so that somebody looks
        awaitKnown(0);
        allocator.heartbeat(MAP, A);
        assertEquals(List.of(0, 5), on(A));
    }

    private static List<String> lies() {
        return new Liar(request -> "").lies();
    }

    @ParameterizedTest
    @MethodSource("lies")
    void aNodeThatLiesKeepsNoMapFromItsContainer(String lie) throws Exception {
        memory(5, A);
        liar.tell(lie);
        start();
        int some = List.of("silence", "byte by byte").contains(lie) ? 1 : 2;
        await(() -> liar.told() >= some);
        for (int i = 0; i < MAPS / 2; i++) {
            allocator.heartbeat(MAP, A, B); // one that waited for an answer would not end
        }
        assertEquals(MAPS / 2, on(A).size());
        assertEquals(MAPS, assigned.size());
        if (!lie.equals("random")) { // all of the others are the same for all maps
            assertEquals(List.of(0, 2, 4, 6), on(A));
        }
        assertNull(counts.get(MapMemory.MEMORY_DOUBTS));
        liar.tell(null);
    }
}
