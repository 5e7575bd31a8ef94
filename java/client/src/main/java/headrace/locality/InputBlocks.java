package headrace.locality;

import headrace.client.BlockCopies.Block;
import headrace.client.Residency;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.HdfsBlockLocation;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.HdfsLocatedFileStatus;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The blocks of files that an application reads. The file system is asked with the application's own rights, once for
 * each file, or for a directory of which several are wanted, and what is found is followed ({@link Residency}) until the file was not used for a while, or others need
 * its place. Not safe for use by several threads.
 */
final class InputBlocks {
    /** Where a block lies in its file. */
    record Located(Block block, long offset, long length) {
        long end() {
            return offset + length;
        }
    }

    private static final class Known {
        final List<Located> blocks;
        /** Up to where the file was looked up, also where none of its blocks can be followed. */
        final long end;
        final long asked;
        long used;

        Known(List<Located> blocks, long end, long now) {
            this.blocks = blocks;
            this.end = end;
            this.asked = now;
            this.used = now;
        }
    }

    /** Where blocks have numbers. */
    private static final Set<String> SCHEMES = Set.of("hdfs", "viewfs");
    private static final long SECOND = 1_000_000_000L;
    /** A file may have been replaced. */
    private static final long FRESH = 300 * SECOND;
    private static final long UNUSED = 600 * SECOND;
    /** A file system that takes longer to answer is left alone for ten times as long as it took: meanwhile nobody else's files are looked up. */
    static final long SLOW = 10 * SECOND;
    /** So many questions about files are more work for a name node than one about their directory. */
    private static final int SEVERAL = 10;
    /** Of a directory at most so many files are looked at for each that is wanted. */
    private static final int PASSED_OVER = 10;
    private static final Logger LOG = LoggerFactory.getLogger(InputBlocks.class);

    private final Configuration conf;
    private final Residency residency;
    private final int most;
    private final long slow;
    /** Until when file systems are left alone, by {@link System#nanoTime}. */
    private final Map<String, Long> leftAlone = new HashMap<>();
    /** Used last at the end. A file counts as a block itself. */
    private final LinkedHashMap<Path, Known> files = new LinkedHashMap<>(16, 0.75f, true);
    private int size;
    /** Files that will be looked up, by name, of the directories that have several. */
    private final Map<Path, Map<String, Path>> expected = new HashMap<>();
    private final Map<Block, List<String>> found = new HashMap<>();
    private long failed;

    /**
     * @param most blocks to follow
     * @param slow a file system that takes so many nanoseconds to answer is left alone for a while
     */
    InputBlocks(Configuration conf, Residency residency, int most, long slow) {
        this.conf = conf;
        this.residency = residency;
        this.most = most;
        this.slow = slow;
    }

    /** How many files could not be looked up. */
    long failed() {
        return failed;
    }

    /** These files will be looked up next. When the first of a directory is, others that are there are found as well. */
    void expect(Collection<Path> list, long now) {
        expected.clear();
        for (Path file : list) {
            if (hasBlocks(file) && stale(files.get(file), now)) {
                expected.computeIfAbsent(file.getParent(), dir -> new HashMap<>()).put(file.getName(), file);
            }
        }
        expected.values().removeIf(names -> names.size() < SEVERAL);
    }

    private static boolean stale(Known known, long now) {
        return known == null || now - known.asked > FRESH;
    }

    /**
     * Returns the blocks of a file that a part of it is in; none when it is in no file system with blocks, or cannot be
     * looked up, or not now, as its file system was slow to answer a moment ago. What was not known before is followed with the next {@link #follow}.
     *
     * @param length negative: up to the end
     */
    List<Located> of(Path file, long start, long length, long now) {
        long end = length < 0 || start + length < 0 ? Long.MAX_VALUE : start + length;
        Known known = files.get(file);
        if (stale(known, now) && mayAsk(file, now) && list(file.getParent(), now)) {
            known = files.get(file);
        }
        boolean lacking = stale(known, now) || length > 0 && end > known.end && now - known.asked > SECOND;
        if (lacking && mayAsk(file, now)) {
            known = keep(file, ask(file, now));
        }
        if (known == null) {
            return List.of();
        }
        known.used = now;
        List<Located> within = new ArrayList<>();
        for (Located block : known.blocks) {
            if (block.offset < end && block.end() > start) {
                within.add(block);
            }
        }
        return within;
    }

    private static String system(Path file) {
        return file.toUri().getScheme() + "://" + file.toUri().getAuthority();
    }

    private boolean mayAsk(Path file, long now) {
        Long until = leftAlone.isEmpty() ? null : leftAlone.get(system(file));
        return until == null || now - until >= 0;
    }

    /** The file system of a file has answered, or failed. */
    private void answered(Path file, long began) {
        long now = System.nanoTime();
        if (now - began > slow) {
            leftAlone.put(system(file), now + 10 * (now - began));
            LOG.info("{} took {} s to answer; where blocks of its files are in memory is not looked at for {} s",
                system(file), (now - began) / SECOND, 10 * (now - began) / SECOND);
        }
    }

    private Known keep(Path file, Known known) {
        Known before = files.remove(file);
        if (before != null) {
            size -= before.blocks.size() + 1;
            Set<Block> gone = new LinkedHashSet<>();
            before.blocks.forEach(located -> gone.add(located.block));
            known.blocks.forEach(located -> gone.remove(located.block()));
            drop(List.copyOf(gone));
        }
        files.put(file, known);
        size += known.blocks.size() + 1;
        Iterator<Map.Entry<Path, Known>> eldest = files.entrySet().iterator();
        while (size > most && files.size() > 1) {
            Known old = eldest.next().getValue();
            eldest.remove();
            forget(old);
        }
        return known;
    }

    static boolean hasBlocks(Path file) {
        String scheme = file.toUri().getScheme();
        return scheme != null && SCHEMES.contains(scheme);
    }

    private Known ask(Path file, long now) {
        List<Located> blocks = new ArrayList<>();
        if (!hasBlocks(file)) {
            return new Known(blocks, Long.MAX_VALUE, now);
        }
        long end = 0;
        long began = System.nanoTime();
        try {
            for (BlockLocation at : file.getFileSystem(conf).getFileBlockLocations(file, 0, Long.MAX_VALUE)) {
                end = Math.max(end, at.getOffset() + at.getLength());
                if (at instanceof HdfsBlockLocation) {
                    add(at, ((HdfsBlockLocation) at).getLocatedBlock(), blocks);
                }
            }
        } catch (IOException | RuntimeException e) { // the tasks that read it will tell
            failed++;
            end = Long.MAX_VALUE;
            LOG.debug("The blocks of {} are not known", file, e);
        } finally {
            answered(file, began);
        }
        return new Known(blocks, end, now);
    }

    private void add(BlockLocation at, LocatedBlock of, List<Located> blocks) throws IOException {
        if (!of.isStriped()) {
            ExtendedBlock block = of.getBlock();
            Block id = new Block(block.getBlockPoolId(), block.getBlockId());
            blocks.add(new Located(id, at.getOffset(), at.getLength()));
            found.put(id, List.of(at.getHosts()));
        }
    }

    /** Finds the files of a directory that are expected. Returns whether some were. */
    private boolean list(Path directory, long now) {
        Map<String, Path> wanted = expected.remove(directory);
        if (wanted == null) {
            return false;
        }
        long began = System.nanoTime();
        try {
            RemoteIterator<LocatedFileStatus> all = directory.getFileSystem(conf).listLocatedStatus(directory);
            for (int left = PASSED_OVER * wanted.size(); left > 0 && !wanted.isEmpty() && all.hasNext(); left--) {
                LocatedFileStatus status = all.next();
                if (!(status instanceof HdfsLocatedFileStatus)) {
                    break; // such as of viewfs, which does not say which blocks these are
                }
                LocatedBlocks blocks = ((HdfsLocatedFileStatus) status).getLocatedBlocks();
                Path file = blocks == null ? null : wanted.remove(status.getPath().getName());
                if (file != null) {
                    List<Located> located = new ArrayList<>();
                    for (int i = 0; i < blocks.locatedBlockCount(); i++) {
                        add(status.getBlockLocations()[i], blocks.get(i), located);
                    }
                    keep(file, new Known(located, Math.max(status.getLen(), blocks.getFileLength()), now));
                }
            }
        } catch (IOException | RuntimeException e) { // it may not be listed; its files are asked for one by one
            LOG.debug("The blocks of {} are not known", directory, e);
        } finally {
            answered(directory, began);
        }
        return true;
    }

    /** Follows what was found since the last call. */
    void follow() {
        if (!found.isEmpty()) {
            residency.follow(found);
            found.clear();
        }
    }

    /** How many blocks wait for that. */
    int found() {
        return found.size();
    }

    /** Does not follow any longer what was not used for a while. */
    void tidy(long now) {
        Iterator<Known> eldest = files.values().iterator();
        while (eldest.hasNext()) {
            Known old = eldest.next();
            if (now - old.used <= UNUSED) {
                return;
            }
            eldest.remove();
            forget(old);
        }
    }

    private void forget(Known old) {
        size -= old.blocks.size() + 1;
        drop(old.blocks.stream().map(Located::block).toList());
    }

    private void drop(List<Block> blocks) {
        blocks.forEach(found::remove);
        residency.unfollow(blocks);
    }
}
