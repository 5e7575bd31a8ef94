package headrace.locality;

import static headrace.client.Await.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.client.BlockCopies.Block;
import headrace.client.ClaimedFiles;
import headrace.client.FakeFollow;
import headrace.client.Residency;
import headrace.client.UnixServer;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.HdfsBlockLocation;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.DFSUtilClient;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.hdfs.protocol.HdfsLocatedFileStatus;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.util.functional.RemoteIterators;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a name node is asked. */
class LocalityInputsTest {
    private static final AtomicInteger FILES = new AtomicInteger();
    private static final AtomicInteger LISTED = new AtomicInteger();
    /** The number of the last file that was asked for and is not slow. */
    private static final AtomicInteger LAST_QUICK = new AtomicInteger();

    /** Local files as hdfs://c/..., each of one block, whose number is its name; what is asked is counted. */
    public static final class Counted extends ClaimedFiles {
        private static LocatedBlock block(FileStatus file) {
            DatanodeInfo on = new DatanodeInfo.DatanodeInfoBuilder().setIpAddr("127.0.0.2").setHostName("h1").setXferPort(9866).build();
            ExtendedBlock id = new ExtendedBlock("BP-1", Long.parseLong(file.getPath().getName()));
            LocatedBlock block = !of(file, "coded") ? new LocatedBlock(id, new DatanodeInfo[] {on})
                : new LocatedStripedBlock(id, new DatanodeInfo[] {on}, new String[] {"s1"}, new StorageType[] {StorageType.DISK}, new byte[] {0}, 0, false, null);
            block.getBlock().setNumBytes(file.getLen());
            block.setStartOffset(0);
            return block;
        }

        @Override
        public BlockLocation[] getFileBlockLocations(FileStatus file, long start, long length) throws IOException {
            int number = FILES.incrementAndGet();
            LocatedBlock block = block(file);
            if (of(file, "gone")) {
                throw new IOException("it cannot be looked up");
            } else if (of(file, "slow")) {
                pause();
            } else {
                LAST_QUICK.set(number);
            }
            return new BlockLocation[] {new HdfsBlockLocation(DFSUtilClient.locatedBlocks2Locations(List.of(block))[0], block)};
        }

        private static boolean of(FileStatus file, String directories) {
            return file.getPath().getParent().getName().startsWith(directories);
        }

        private static void pause() {
            try {
                Thread.sleep(20);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        /** As HDFS's client does: with the blocks in the status, and not in the locations. */
        @Override
        public RemoteIterator<LocatedFileStatus> listLocatedStatus(Path path) throws IOException {
            if (path.getName().equals("secret")) {
                throw new IOException("it may not be listed");
            }
            LISTED.incrementAndGet();
            return RemoteIterators.remoteIteratorFromIterable(Arrays.stream(listStatus(path)).map(file -> {
                LocatedBlock block = block(file);
                HdfsFileStatus status = new HdfsFileStatus.Builder().length(file.getLen()).path(DFSUtilClient.string2Bytes(file.getPath().getName()))
                    .locations(new LocatedBlocks(file.getLen(), false, List.of(block), block, true, null, null)).build();
                return ((HdfsLocatedFileStatus) status).makeQualifiedLocated(getUri(), new Path(path.toUri().getPath()));
            }).toList());
        }
    }

    @TempDir
    java.nio.file.Path dir;
    private final FakeFollow manager = new FakeFollow();
    private final Configuration conf = new Configuration(false);
    private UnixServer node;
    private LocalityInputs inputs;
    private final List<StageInputs.Stage> held = new ArrayList<>();

    @BeforeEach
    void start() throws IOException {
        FILES.set(0);
        LISTED.set(0);
        conf.setClass("fs.hdfs.impl", Counted.class, ClaimedFiles.class);
        conf.setBoolean("fs.hdfs.impl.disable.cache", true);
        node = UnixServer.answering(dir.resolve("s"), manager);
        inputs = new LocalityInputs(conf, changed -> Residency.start(dir.resolve("s"), "app-1", changed));
    }

    @AfterEach
    void stop() throws Exception {
        inputs.close();
        node.close();
    }

    private List<Path> files(String name, int from, int count) throws IOException {
        List<Path> files = new ArrayList<>();
        java.nio.file.Path directory = Files.createDirectories(dir.resolve(name));
        for (int i = from; i < from + count; i++) {
            files.add(new Path("hdfs://c" + Files.writeString(directory.resolve("" + i), "x")));
        }
        return files;
    }

    private void add(StageInputs.Stage stage) {
        held.add(stage);
        inputs.add(stage);
    }

    private WeakReference<Object> addAndForget(StageInputs.Stage stage) {
        inputs.add(stage);
        return new WeakReference<>(stage);
    }

    @Test
    void aDirectoryOfWhichManyFilesAreReadIsAskedForOnce() throws Exception {
        List<Path> all = files("many", 0, 50);
        all.addAll(files("few", 100, 3));
        inputs.query(() -> all);
        await(() -> inputs.residency().followed() == 53);
        assertEquals(1, LISTED.get());
        assertEquals(3, FILES.get());
        await(inputs.residency()::answered);
        assertEquals(List.of("h1"), manager.hosts(new Block("BP-1", 7)));
        assertEquals(List.of("h1"), manager.hosts(new Block("BP-1", 101)));
    }

    @Test
    void soItIsForTheFilesOfAStage() throws Exception {
        List<Path> all = files("many", 0, 50);
        manager.set(new Block("BP-1", 7), "h1", 100);
        CountDownLatch known = new CountDownLatch(1);
        add(new StageInputs.Stage() {
            private ResidentShares shares;

            @Override
            public int tasks() {
                return 25;
            }

            @Override
            public void ranges(int task, StageInputs.Taker taker) {
                taker.take(all.get(task), 0, 1);
                taker.take(all.get(49 - task), 0, -1);
            }

            @Override
            public void publish(ResidentShares now) {
                shares = now;
            }

            @Override
            public void known() {
                if (!shares.isEmpty()) {
                    known.countDown();
                }
            }

            @Override
            public boolean over() {
                return false;
            }
        });
        known.await();
        assertEquals(1, LISTED.get());
        assertEquals(0, FILES.get());
    }

    @Test
    void ofALargeDirectoryNotAllIsListedForAFew() throws Exception {
        files("large", 100, 400);
        List<Path> some = files("large", 0, 9);
        some.addAll(files("large", 990, 3));
        inputs.query(() -> some);
        await(() -> inputs.residency().followed() == 12);
        assertEquals(1, LISTED.get());
        assertEquals(12 - 3, FILES.get()); // in the order of names 0, 1 and 2 are among the first 120
    }

    @Test
    void filesOfADirectoryThatMayNotBeListedAreFoundOneByOne() throws Exception {
        List<Path> all = files("secret", 0, 20);
        inputs.query(() -> all);
        await(() -> inputs.residency().followed() == 20);
        assertEquals(20, FILES.get());
        assertEquals(0, inputs.doubts());
    }

    @Test
    void whoseFilesAreAskedForOneByOneLeavesOthersTheirTurn() throws Exception {
        List<Path> many = new ArrayList<>();
        for (int i = 0; i < 20; i++) { // of none so many that it is listed
            many.addAll(files("slow" + i, 1000 + 10 * i, 5));
        }
        List<Path> one = files("few", 1, 1);
        CountDownLatch all = new CountDownLatch(1);
        inputs.query(() -> {
            all.await();
            return many;
        });
        add(new Lone(many));
        inputs.query(() -> one);
        all.countDown();
        await(() -> inputs.residency().followed() == 101);
        assertEquals(101, FILES.get());
        assertTrue(LAST_QUICK.get() < 100, "the one is asked for after " + LAST_QUICK.get());
        assertEquals(0, inputs.doubts());
    }

    /** A stage with a task for each file. */
    private record Lone(List<Path> files) implements StageInputs.Stage {
        @Override
        public int tasks() {
            return files.size();
        }

        @Override
        public void ranges(int task, StageInputs.Taker taker) {
            taker.take(files.get(task), 0, 1);
        }

        @Override
        public void publish(ResidentShares now) { }

        @Override
        public boolean over() {
            return false;
        }
    }

    @Test
    void whoReadsMoreThanCanBeRememberedAsksNothing() throws Exception {
        inputs.query(() -> Collections.nCopies(100_001, new Path("hdfs://c/a/1")));
        await(() -> inputs.doubts() == 1);
        List<Path> next = files("few", 0, 1);
        inputs.query(() -> next);
        await(() -> inputs.residency().followed() == 1);
        assertEquals(1, FILES.get());
    }

    @Test
    void ofAStageThatReadsMoreNoMorePathsAreMade() throws Exception {
        AtomicInteger made = new AtomicInteger();
        class Huge implements StageInputs.Stage {
            private boolean over;

            @Override
            public int tasks() {
                return 200_000;
            }

            @Override
            public void ranges(int task, StageInputs.Taker taker) {
                made.incrementAndGet();
                taker.take(new Path("hdfs://c/" + task), 0, 1);
            }

            @Override
            public void publish(ResidentShares now) { }

            @Override
            public boolean over() {
                return over;
            }
        }

        Huge ended = new Huge();
        ended.over = true;
        add(ended);
        add(new Huge());
        await(() -> inputs.doubts() == 1);
        assertEquals(100_001, made.get());
        assertEquals(0, FILES.get());
    }

    /** So a file system that does not answer costs no memory, however many stages of others come and go. */
    @Test
    void whatWaitsKeepsNoStageThatHasEnded() throws Exception {
        CountDownLatch over = new CountDownLatch(1);
        CountDownLatch busy = new CountDownLatch(1);
        inputs.query(() -> {
            busy.countDown();
            over.await();
            return List.of();
        });
        busy.await();
        List<WeakReference<Object>> gone = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            gone.add(addAndForget(new Lone(files("few", i, 1))));
        }
        await(() -> {
            System.gc();
            return gone.stream().allMatch(stage -> stage.refersTo(null));
        });
        AtomicInteger listed = new AtomicInteger();
        for (int i = 0; i < 200; i++) {
            inputs.query(() -> {
                listed.incrementAndGet();
                return List.of();
            });
        }
        assertEquals(150, inputs.doubts());
        over.countDown();
        await(() -> listed.get() == 50);
    }

    @Test
    void whereThereIsNoNodeNoNameNodeIsAsked() throws Exception {
        node.close();
        List<Path> all = files("few", 0, 3);
        CountDownLatch known = new CountDownLatch(1);
        inputs.query(() -> all);
        add(new StageInputs.Stage() {
            @Override
            public int tasks() {
                return all.size();
            }

            @Override
            public void ranges(int task, StageInputs.Taker taker) {
                taker.take(all.get(task), 0, 1);
            }

            @Override
            public void publish(ResidentShares now) { }

            @Override
            public void known() {
                known.countDown();
            }

            @Override
            public boolean over() {
                return false;
            }
        });
        known.await();
        assertEquals(0, FILES.get());
        assertEquals(1, inputs.residency().failed()); // which is written
        node = UnixServer.answering(dir.resolve("s"), manager);
        await(() -> inputs.residency().followed() == 3);
    }

    @Test
    void whereNothingCanBeFollowedItIsNotAskedForEachTask() throws Exception {
        List<Path> all = new ArrayList<>(files("coded", 0, 20));
        all.addAll(files("codedfew", 0, 2));
        all.addAll(files("gone", 0, 2));
        InputBlocks blocks = new InputBlocks(conf, inputs.residency(), 100, Long.MAX_VALUE);
        long now = System.nanoTime();
        for (int stage = 0; stage < 3; stage++, now += 2_000_000_000L) {
            blocks.expect(all, now);
            for (Path file : all) {
                assertEquals(List.of(), blocks.of(file, 0, 1, now));
            }
        }
        assertEquals(1, LISTED.get());
        assertEquals(4, FILES.get());
        blocks.of(all.get(0), 0, 2, now); // it has grown
        assertEquals(5, FILES.get());
        blocks.of(all.get(22), 0, 1, now + 400_000_000_000L);
        assertEquals(6, FILES.get());
    }

    @Test
    void aSlowFileSystemIsLeftAloneForAWhile() throws Exception {
        List<Path> slow = files("slow", 0, 3);
        InputBlocks blocks = new InputBlocks(conf, inputs.residency(), 100, 1_000_000);
        long now = System.nanoTime();
        assertEquals(1, blocks.of(slow.get(0), 0, 1, now).size());
        assertEquals(List.of(), blocks.of(slow.get(1), 0, 1, now));
        assertEquals(1, blocks.of(slow.get(0), 0, 1, now).size());
        assertEquals(1, FILES.get());
        assertEquals(1, blocks.of(slow.get(1), 0, 1, now + 60_000_000_000L).size());
        assertEquals(2, FILES.get());
    }
}
