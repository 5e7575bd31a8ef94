package headrace.locality;

import headrace.client.Residency;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds out, for stages that run and queries that will, which blocks they read and what of these is in memory. A daemon
 * thread of its own asks the file system; what is in memory comes from that of {@link Residency}. Nobody waits for
 * either: until something is known a stage runs in its framework's own order.
 *
 * <p>What fails is counted and logged once. Safe for use by several threads.
 */
public final class LocalityInputs implements AutoCloseable {
    /** Setting: whether tasks are to be ordered by what is in memory. */
    public static final String WANTED = "headrace.locality";

    /** Stages and queries that wait for the thread; more are left in their framework's own order. */
    private static final int QUEUE = 10_000;
    /** With so many waiting no more queries are taken: each keeps what it would list, which may be a table's files. */
    private static final int QUERY_QUEUE = 100;
    /** A query that has waited that long has stages by now, which are looked up themselves. */
    private static final long QUERY_NANOS = 60_000_000_000L;
    /** About 50 MB. */
    private static final int MOST_BLOCKS = 200_000;
    /** So many files can be remembered at a time. Who reads more would only have the file system asked again and again. */
    public static final int MOST_FILES = MOST_BLOCKS / 2;
    /** What was found in between is followed, and ordered by. */
    private static final int BATCH = 1000;
    private static final long BATCH_NANOS = 100_000_000;
    /** How long the file system is asked for one stage or query while others wait, and for how many files or tasks at least. */
    private static final long TURN_NANOS = 200_000_000;
    private static final int TURN = 50;
    private static final Logger LOG = LoggerFactory.getLogger(LocalityInputs.class);

    private final Residency residency;
    private final InputBlocks blocks;
    private final BlockingQueue<Callable<Void>> queue = new ArrayBlockingQueue<>(QUEUE);
    private final List<StageInputs> stages = new ArrayList<>();
    /** While there is nobody to ask what is in memory. Only the thread uses it. */
    private final List<WeakReference<StageInputs.Stage>> putOff = new ArrayList<>();
    private final Thread thread = new Thread(this::run, "headrace locality");
    private final AtomicLong doubts = new AtomicLong();

    /** @param start a Residency that calls it when something has changed */
    public LocalityInputs(Configuration conf, Function<Runnable, Residency> start) {
        residency = start.apply(this::score);
        blocks = new InputBlocks(conf, residency, MOST_BLOCKS, InputBlocks.SLOW);
        thread.setDaemon(true);
        thread.start();
    }

    public Residency residency() {
        return residency;
    }

    /** Whether a file is in a file system whose blocks have numbers. */
    public static boolean hasBlocks(Path file) {
        return InputBlocks.hasBlocks(file);
    }

    /** How often something was not found out, beside what is counted elsewhere. */
    public long doubts() {
        return doubts.get();
    }

    /**
     * Finds out what a stage reads, as soon as there is somebody to ask what of that is in memory, and unless nobody else
     * refers to it any more when its turn comes. Does not wait.
     */
    public void add(StageInputs.Stage stage) {
        enqueue(new WeakReference<>(stage)); // the turn may be far away
    }

    private void enqueue(WeakReference<StageInputs.Stage> waiting) {
        enqueue(() -> {
            begin(waiting);
            return null;
        });
    }

    private void begin(WeakReference<StageInputs.Stage> waiting) throws ReflectiveOperationException, IOException, InterruptedException {
        StageInputs.Stage stage = waiting.get();
        if (stage == null || stage.over()) {
            return;
        }
        if (residency.silent()) { // a name node would be asked in vain, and the stage would wait for that
            putOff.add(waiting);
            stage.known();
        } else {
            begin(new StageInputs(stage));
        }
    }

    /** Those that were put off begin when there is somebody to ask what is in memory. */
    private void resume() {
        putOff.removeIf(waiting -> {
            StageInputs.Stage stage = waiting.get();
            return stage == null || stage.over();
        });
        if (putOff.isEmpty() || residency.silent()) {
            return;
        }
        putOff.forEach(this::enqueue);
        putOff.clear();
    }

    /** A query will read files; while nobody can be asked what is in memory that is passed over. Does not wait. */
    public void query(Callable<Collection<Path>> files) {
        long asked = System.nanoTime();
        if (queue.size() >= QUERY_QUEUE) {
            doubt(new IOException("the files of a query are not looked up, as " + QUERY_QUEUE + " queries and stages wait for that"));
            return;
        }
        enqueue(() -> {
            if (!late(asked) && !residency.silent()) {
                lookUp(new ArrayDeque<>(expect(files.call())), asked);
            }
            return null;
        });
    }

    private static boolean late(long asked) {
        return System.nanoTime() - asked > QUERY_NANOS;
    }

    private void lookUp(Deque<Path> files, long asked) {
        long began = System.nanoTime();
        for (int done = 0; !files.isEmpty() && !late(asked) && !othersTurn(done, began); done++) {
            blocks.of(files.remove(), 0, 0, System.nanoTime());
            if (blocks.found() >= BATCH) {
                blocks.follow();
            }
        }
        blocks.follow();
        if (!files.isEmpty() && !late(asked)) {
            enqueue(() -> {
                blocks.expect(files, System.nanoTime());
                lookUp(files, asked);
                return null;
            });
        }
    }

    private boolean othersTurn(int done, long began) {
        return done >= TURN && System.nanoTime() - began > TURN_NANOS && !queue.isEmpty();
    }

    private void enqueue(Callable<Void> work) {
        if (!queue.offer(work)) {
            doubts.incrementAndGet();
        }
    }

    private void run() {
        try {
            while (true) {
                Callable<Void> work = queue.poll(putOff.isEmpty() ? 60 : 1, TimeUnit.SECONDS);
                try {
                    if (work != null) {
                        work.call();
                    }
                    resume();
                    blocks.tidy(System.nanoTime());
                    synchronized (stages) {
                        stages.removeIf(StageInputs::over);
                    }
                } catch (InterruptedException e) {
                    throw e;
                } catch (Throwable e) { // in some frameworks an error that leaves a thread ends the whole process
                    doubt(e);
                }
            }
        } catch (InterruptedException e) {
            // Closed.
            return;
        }
    }

    private Collection<Path> expect(Collection<Path> files) throws IOException {
        if (files.size() > MOST_FILES) {
            throw new IOException(files.size() + " files are read at a time, more than are looked up");
        }
        blocks.expect(files, System.nanoTime());
        return files;
    }

    private void begin(StageInputs stage) throws ReflectiveOperationException, IOException, InterruptedException {
        expect(stage.files(MOST_FILES));
        synchronized (stages) {
            stages.add(stage);
        }
        lookUp(stage, 0);
    }

    private void lookUp(StageInputs stage, int from) throws InterruptedException {
        long began = System.nanoTime();
        long told = began;
        for (int task = from; task < stage.tasks() && !stage.over(); task++) {
            if (othersTurn(task - from, began)) {
                blocks.follow();
                score(stage);
                goOn(stage, task);
                return;
            }
            long now = System.nanoTime();
            Object[] found = stage.lookUp(task, blocks, now);
            synchronized (stages) {
                stage.set(task, found);
            }
            if (blocks.found() >= BATCH || now - told > BATCH_NANOS) {
                blocks.follow();
                score(stage);
                told = now;
            }
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
        }
        blocks.follow();
        synchronized (stages) {
            stage.complete();
        }
        score(stage);
    }

    private void goOn(StageInputs stage, int from) {
        enqueue(() -> {
            blocks.expect(stage.filesFrom(from), System.nanoTime());
            lookUp(stage, from);
            return null;
        });
    }

    private void score(StageInputs stage) {
        synchronized (stages) {
            stage.score(residency);
        }
    }

    /** Something has changed in memory. */
    private void score() {
        synchronized (stages) {
            stages.removeIf(StageInputs::over);
            for (StageInputs stage : stages) {
                stage.score(residency);
            }
        }
    }

    /** Something is not ordered. Does not wait, and has the thread write it. */
    public void doubt(Throwable e) {
        if (doubts.getAndIncrement() == 0) {
            queue.offer(() -> {
                LOG.warn("Some tasks run in their framework's own order, whatever is in memory; only this is written of that", e);
                return null;
            });
        }
    }

    @Override
    public void close() {
        thread.interrupt();
        residency.close();
    }
}
