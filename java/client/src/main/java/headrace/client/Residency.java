package headrace.client;

import headrace.client.BlockCopies.Block;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A copy of what is in memory where, of the blocks that an application reads (quartet, section 4.1). A daemon thread of
 * its own tells the daemon of this machine which blocks these are, and waits there for changes; to one that was started
 * anew, or a manager that was, it tells them again.
 *
 * <p>While nothing is heard, or what is heard makes no sense, nothing is known to be in memory; that is logged once,
 * until it works again. Memory is bounded by what is followed: what is told of other blocks is passed over.
 *
 * <p>Safe for use by several threads. {@link #of} waits for nobody.
 */
public final class Residency implements AutoCloseable {
    /**
     * How often to ask.
     *
     * @param patience for an answer, beside the time that it may wait for a change
     * @param poll to wait for a change
     * @param pause at least, between questions; what is to be followed is told at once
     * @param retry after a failure; twice as long after each further one, up to twenty times
     * @param refused before that is told again of which the manager takes no more
     */
    record Timing(Duration patience, Duration poll, Duration pause, Duration retry, Duration refused) { }

    /** Starts one: {@link Residency#start(Path, String, Runnable)}. */
    public interface Starter {
        Residency start(Path socket, String application, Runnable changed);
    }

    /** Changes a few times a second, and a dead daemon noticed within ten seconds. */
    static final Timing USUAL =
        new Timing(Duration.ofSeconds(5), Duration.ofSeconds(5), Duration.ofMillis(300), Duration.ofMillis(500), Duration.ofMinutes(1));
    /** Blocks in a request: what is told of them fits into an answer. */
    static final int PART = 20_000;
    /** Characters of names of hosts in a request, about: each list of hosts that is another one is told once. */
    private static final int PART_NAMES = NodeSocket.LIMIT / 2;

    private static final int MOST_NAMES = 10_000;

    private static final Logger LOG = LoggerFactory.getLogger(Residency.class);

    private final Path socket;
    private final String application;
    private final Timing timing;
    private final Runnable changed;
    private final Thread thread;
    private final Map<Block, BlockCopies> known = new ConcurrentHashMap<>();
    private final AtomicLong failed = new AtomicLong();
    private volatile boolean closed;

    // All that follows is guarded by this.
    private final Map<Block, List<String>> followed = new HashMap<>();
    private final Map<Block, List<String>> adding = new LinkedHashMap<>();
    private final Set<Block> removing = new LinkedHashSet<>();
    /** That of the last answer; 0: the other end knows nothing of this application. */
    private long version;
    /** So that equal names are one list in most places. */
    private final Map<List<String>, List<String>> names = new HashMap<>();
    /** The question that is asked is answered when something changes, which may take long. */
    private boolean polling;
    /** Blocks were asked for of which nothing was answered yet. */
    private boolean asking;
    private boolean failing;
    /** The manager takes no more: what is to be added waits until this time, by {@link System#nanoTime}. */
    private boolean full;
    private long fullUntil;
    /** Since when the daemon says that it has too many questions at a time, by {@link System#nanoTime}; null: it does not. */
    private Long busySince;

    private Residency(Path socket, String application, Timing timing, Runnable changed) {
        this.socket = socket;
        this.application = application;
        this.timing = timing;
        this.changed = changed;
        this.thread = new Thread(this::run, "headrace residency");
        thread.setDaemon(true);
    }

    /**
     * @param socket of the daemon
     * @param application as its scheduler names it
     * @param changed called by the thread when something has changed; whatever it throws is logged
     */
    public static Residency start(Path socket, String application, Runnable changed) {
        return start(socket, application, USUAL, changed);
    }

    static Residency start(Path socket, String application, Timing timing, Runnable changed) {
        Residency residency = new Residency(socket, application, timing, changed);
        residency.thread.start();
        return residency;
    }

    /** Where a block is in memory; null: nothing is known of that, or it is not. */
    public BlockCopies of(Block block) {
        return known.get(block);
    }

    /** Whether everything that is followed was answered, or nothing is heard at all: there is no use in waiting. */
    public synchronized boolean answered() {
        return failing || !adds() && !asking;
    }

    /** Whether it is known what is in memory of what is followed, as somebody has answered last. Does not wait. */
    public synchronized boolean heard() {
        return version != 0 && !failing;
    }

    /** Whether there is no use in following more, as nothing is heard, or nobody listens. Does not wait. */
    public boolean silent() {
        boolean listens = NodeSocket.listens(socket);
        synchronized (this) {
            if (!followed.isEmpty()) { // so the thread asks
                return failing || !listens;
            }
            if (!listens && !failing) {
                failing = true;
                failed.incrementAndGet();
                warn(new IOException("Headrace's daemon does not listen at " + socket));
            }
            return !listens;
        }
    }

    /** How many blocks are followed. */
    public synchronized int followed() {
        return followed.size();
    }

    /** How many of them are in memory somewhere. */
    public int resident() {
        return known.size();
    }

    /** How often the daemon was asked in vain. */
    public long failed() {
        return failed.get();
    }

    /**
     * Follows further blocks.
     *
     * @param blocks with the hosts that have replicas, as the file system names them
     */
    public synchronized void follow(Map<Block, List<String>> blocks) {
        blocks.forEach((block, named) -> {
            List<String> hosts = same(named);
            if (!hosts.equals(followed.put(block, hosts))) {
                adding.put(block, hosts);
                removing.remove(block);
            }
        });
        if (adds()) {
            wake();
        }
    }

    /** Ends that. */
    public synchronized void unfollow(Collection<Block> blocks) {
        for (Block block : blocks) {
            if (followed.remove(block) != null) {
                adding.remove(block);
                removing.add(block);
                known.remove(block);
            }
        }
    }

    /**
     * Has what is to be told told now, or after the answer that comes at once: without that, who follows more all the time
     * would hear nothing, and would not notice that nobody answers.
     */
    private void wake() {
        notifyAll();
        if (polling) {
            thread.interrupt();
        }
    }

    /** Whether there is something to add that may be told now. */
    private synchronized boolean adds() {
        return !adding.isEmpty() && !(full && System.nanoTime() - fullUntil < 0);
    }

    /** What the next request says. */
    private record Question(Map<Block, List<String>> add, List<Block> remove, long version, Duration poll) { }

    private void run() {
        long retry = timing.retry.toMillis();
        while (!closed) {
            Question question = null;
            try {
                question = next();
                if (question == null) {
                    return;
                }
                take(question, ask(question));
                retry = timing.retry.toMillis();
                if (!question.poll.isZero()) { // else there may be more to hear already
                    pause(timing.pause.toMillis(), true);
                }
            } catch (InterruptedException e) {
                again(question);
            } catch (Throwable e) { // in some frameworks an error that leaves a thread ends the whole process
                if (busy(question, e)) {
                    pause(timing.retry.toMillis(), false);
                } else if (!refuses(question, e) && fails(e)) {
                    pause(retry, false);
                    retry = Math.min(2 * retry, 20 * timing.retry.toMillis());
                }
            }
        }
    }

    /** Waits until something is followed. Returns null when there is nothing more to do. */
    private synchronized Question next() {
        while (!closed && followed.isEmpty() && (version == 0 || removing.isEmpty())) {
            await(0);
        }
        if (closed) {
            return null;
        }
        Map<Block, List<String>> add = new HashMap<>();
        boolean adds = adds();
        Set<List<String>> lists = new HashSet<>();
        int characters = 0;
        for (Iterator<Map.Entry<Block, List<String>>> i = adding.entrySet().iterator();
                adds && i.hasNext() && add.size() < PART && characters < PART_NAMES;) {
            Map.Entry<Block, List<String>> entry = i.next();
            add.put(entry.getKey(), entry.getValue());
            if (lists.add(entry.getValue())) {
                characters += InputsClient.characters(entry.getKey(), entry.getValue());
            }
            i.remove();
        }
        List<Block> remove = new ArrayList<>();
        for (Iterator<Block> i = removing.iterator(); i.hasNext() && remove.size() < PART;) {
            Block block = i.next();
            if (version != 0) { // else it is not known there
                remove.add(block);
            }
            i.remove();
        }
        asking = !add.isEmpty();
        boolean more = asking || adds() || !removing.isEmpty() || version == 0;
        Thread.interrupted(); // what was to be told until now is
        polling = !more;
        return new Question(add, remove, version, more ? Duration.ZERO : timing.poll);
    }

    private MemoryChanges ask(Question q) throws IOException, InterruptedException {
        try {
            return new InputsClient(socket, q.poll.plus(timing.patience)).follow(application, q.add, q.remove, q.version, q.poll);
        } catch (IOException e) {
            if (over()) {
                throw new InterruptedException();
            }
            throw e;
        } finally {
            over();
        }
    }

    /** The question is over. Returns whether it was interrupted. */
    private synchronized boolean over() {
        polling = false;
        return Thread.interrupted();
    }

    /** A question may not have arrived. */
    private synchronized void again(Question q) {
        asking = false;
        q.add.forEach((block, hosts) -> {
            if (followed.containsKey(block)) {
                adding.putIfAbsent(block, followed.get(block));
            }
        });
        for (Block block : q.remove) {
            if (!followed.containsKey(block)) {
                removing.add(block);
            }
        }
    }

    private void take(Question q, MemoryChanges changes) throws IOException {
        boolean news;
        synchronized (this) {
            if (changes.version() == 0 || q.version == 0 && !changes.full()) {
                throw new IOException("the answer makes no sense: it has no version, or not everything");
            }
            version = changes.version();
            if (changes.full()) {
                known.keySet().retainAll(changes.blocks().keySet());
            }
            changes.blocks().forEach(this::set);
            if (failing) {
                LOG.info("It is known again what is in memory where; it was not {} times so far", failed);
            }
            failing = false;
            asking = false;
            busySince = null;
            full &= !adding.isEmpty();
            news = changes.full() || !changes.blocks().isEmpty() || !q.add.isEmpty();
        }
        if (news) {
            tell();
        }
    }

    /** Catches everything: the thread has to go on. */
    private void tell() {
        try {
            changed.run();
        } catch (Throwable e) {
            LOG.warn("What is in memory has changed, and that was not used", e);
        }
    }

    private void set(Block block, BlockCopies copies) {
        if (!followed.containsKey(block)) {
            return;
        }
        if (copies.machines().isEmpty()) {
            known.remove(block);
            return;
        }
        List<List<String>> on = copies.machines().stream().map(this::same).toList();
        known.put(block, new BlockCopies(on, copies.resident(), copies.bytes()));
    }

    private List<String> same(List<String> hosts) {
        if (names.size() > MOST_NAMES) {
            names.clear();
        }
        return names.computeIfAbsent(hosts, list -> list);
    }

    /**
     * Whether all that is wrong is that the daemon has too many questions at a time: soon it has room, as others have been
     * answered. To begin anew would only have it asked for much more, by all that it refuses. After as long as silence may
     * last it counts as that.
     */
    private synchronized boolean busy(Question q, Throwable e) {
        if (q == null || q.version == 0 || !later(e)) {
            return false;
        }
        long now = System.nanoTime();
        busySince = busySince == null ? now : busySince;
        if (now - busySince > timing.poll.plus(timing.patience).toNanos()) {
            return false;
        }
        again(q);
        failed.incrementAndGet();
        return true;
    }

    private static boolean later(Throwable e) {
        return e instanceof RefusedException && ((RefusedException) e).later();
    }

    /**
     * Whether all that is wrong is that the manager takes no more blocks. It may have taken some of the last, and nothing
     * changes for those that it has. To begin anew would only have it drop those and take them again.
     */
    private synchronized boolean refuses(Question q, Throwable e) {
        boolean refused = q != null && q.version != 0 && !q.add.isEmpty() && !later(e)
            && e instanceof RefusedException && ((RefusedException) e).code().equals("resource_exhausted");
        if (refused) {
            again(q);
            failed.incrementAndGet();
            if (!full) {
                LOG.warn("Of {} blocks it is not known where they are in memory, as no more are taken; they are tried again once"
                    + " a minute, and only this is written of it: {}", adding.size(), e.getMessage());
            }
            full = true;
            fullUntil = System.nanoTime() + timing.refused.toNanos();
        }
        return refused;
    }

    /** Returns whether to wait before the next question. */
    private boolean fails(Throwable e) {
        boolean unknown = e instanceof RefusedException && ((RefusedException) e).code().equals("not_found");
        synchronized (this) {
            boolean again = unknown && version != 0; // the manager was started anew, and is told everything again
            version = 0;
            full = false;
            asking = false;
            adding.clear();
            adding.putAll(followed);
            removing.clear();
            if (again) {
                return false;
            }
            known.clear();
            failed.incrementAndGet();
            if (!failing && !closed) {
                warn(e);
            }
            failing = true;
        }
        tell();
        return true;
    }

    private static void warn(Throwable e) {
        String text = "It is not known what is in memory where; while this lasts, nothing is ordered by it, and only this"
            + " is written of it";
        if (e instanceof IOException) {
            LOG.warn(text + ": {}", e.getMessage());
        } else {
            LOG.warn(text, e);
        }
    }

    /** @param unless there is something to tell */
    private synchronized void pause(long millis, boolean unless) {
        long deadline = System.nanoTime() + millis * 1_000_000;
        long left;
        while (!closed && (left = deadline - System.nanoTime()) > 0 && !(unless && adds())) {
            await(left / 1_000_000 + 1);
        }
    }

    /** @param millis 0: without end */
    private void await(long millis) {
        try {
            wait(millis);
        } catch (InterruptedException e) {
            LOG.debug("interrupted; whoever waits looks whether that means something");
        }
    }

    /** Ends the thread, without waiting for it. The manager forgets who does not ask. */
    @Override
    public synchronized void close() {
        closed = true;
        notifyAll();
        thread.interrupt();
    }

    /** Whether the thread ends in that time. */
    boolean ends(Duration limit) throws InterruptedException {
        thread.join(limit.toMillis());
        return !thread.isAlive();
    }
}
