package headrace.locality;

import headrace.client.BlockCopies;
import headrace.client.Residency;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;

/**
 * What the tasks of a stage read, and what of that is in memory. Filled task by task; guarded by its owner.
 */
public final class StageInputs {
    /** A part of a file. */
    private record Range(Path file, long start, long length) { }

    /** A block of a task's input, and how many bytes of it the task reads. */
    private record Piece(InputBlocks.Located block, long bytes) { }

    /** Takes a part of a file; the length may be negative: up to the end. */
    public interface Taker {
        void take(Path file, long start, long length);
    }

    /** Whose tasks are to be ordered. */
    public interface Stage {
        int tasks();

        /** Tells which parts of files a task reads. */
        void ranges(int task, Taker taker) throws ReflectiveOperationException, IOException;

        /** What to order by from now on. */
        void publish(ResidentShares now);

        /** What was published last has all that there is to know by now. May be called more than once; must not wait. */
        default void known() { }

        boolean over();
    }

    private final Stage stage;
    /** What each task reads, until it is looked up. */
    private final Range[][] ranges;
    private final Piece[][] pieces;
    /** Bytes that each task reads, as far as that is known. */
    private final long[] bytes;
    private ResidentShares last;
    /** All tasks were looked up. */
    private boolean complete;

    StageInputs(Stage stage) {
        this.stage = stage;
        this.ranges = new Range[stage.tasks()][];
        this.pieces = new Piece[ranges.length][];
        this.bytes = new long[pieces.length];
    }

    int tasks() {
        return pieces.length;
    }

    boolean over() {
        return stage.over();
    }

    /** Returns the files that the tasks read; throws when they are more than most, before it makes the rest. Not guarded. */
    Set<Path> files(int most) throws ReflectiveOperationException, IOException {
        Map<Path, Path> files = new HashMap<>(); // parts of one file share its path: that may be most of what they take
        for (int task = 0; task < ranges.length && !over(); task++) {
            List<Range> parts = new ArrayList<>();
            stage.ranges(task, (file, start, length) -> parts.add(new Range(files.computeIfAbsent(file, f -> f), start, length)));
            ranges[task] = parts.toArray(Range[]::new);
            if (files.size() > most) {
                throw new IOException("more than " + most + " files are read at a time, more than are looked up");
            }
        }
        return files.keySet();
    }

    /** Returns those of the tasks from a number on, which were not looked up. Not guarded. */
    Set<Path> filesFrom(int from) {
        Set<Path> files = new HashSet<>();
        for (int task = from; task < ranges.length; task++) {
            for (Range range : ranges[task]) {
                files.add(range.file);
            }
        }
        return files;
    }

    /** Finds out what one task reads of these, which may ask the file system. Not guarded: the result is for {@link #set}. */
    Object[] lookUp(int task, InputBlocks blocks, long now) {
        List<Piece> found = new ArrayList<>();
        for (Range range : ranges[task]) {
            long end = range.length < 0 || range.start + range.length < 0 ? Long.MAX_VALUE : range.start + range.length;
            for (InputBlocks.Located block : blocks.of(range.file, range.start, range.length, now)) {
                long part = Math.min(end, block.end()) - Math.max(range.start, block.offset());
                found.add(new Piece(block, part));
            }
        }
        ranges[task] = null;
        return found.toArray(Piece[]::new);
    }

    void set(int task, Object[] found) {
        pieces[task] = (Piece[]) found;
        for (Piece piece : pieces[task]) {
            bytes[task] += piece.bytes;
        }
    }

    void complete() {
        complete = true;
    }

    /** Orders the stage by what is in memory now. */
    void score(Residency residency) {
        boolean all = complete && residency.answered(); // before what it tells is taken
        publish(residency);
        if (all) {
            stage.known();
        }
    }

    private void publish(Residency residency) {
        Map<List<String>, Integer> numbers = new HashMap<>();
        List<List<String>> machines = new ArrayList<>();
        ResidentShares.Builder all = new ResidentShares.Builder(pieces.length);
        Map<Integer, Double> parts = new HashMap<>();
        for (int task = 0; task < pieces.length; task++) {
            parts.clear();
            if (pieces[task] != null) {
                for (Piece piece : pieces[task]) {
                    BlockCopies copies = residency.of(piece.block.block());
                    for (int i = 0; copies != null && i < copies.machines().size(); i++) {
                        int machine = numbers.computeIfAbsent(copies.machines().get(i), names -> {
                            machines.add(names);
                            return machines.size() - 1;
                        });
                        parts.merge(machine, copies.share(i) * piece.bytes / bytes[task], Double::sum);
                    }
                }
            }
            parts.forEach(all::add);
            all.next();
        }
        ResidentShares now = all.build(machines);
        if (!now.same(last)) {
            last = now;
            stage.publish(now);
        }
    }
}
