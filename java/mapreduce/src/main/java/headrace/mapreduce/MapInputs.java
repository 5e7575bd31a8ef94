package headrace.mapreduce;

import headrace.locality.FirstTask;
import headrace.locality.LocalityInputs;
import headrace.locality.ResidentShares;
import headrace.locality.StageInputs;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobID;

/** What the maps of a job read: its splits. One thread reads them and asks for them; what is published all threads see. */
final class MapInputs implements StageInputs.Stage {
    /** Of more the paths alone would be a good part of a master's memory: about 0.7 KB each. */
    private static final int MOST_PARTS = 200_000;

    private final JobID job;
    private final Path dir;
    private final Configuration conf;
    private List<List<SplitFiles.Part>> splits;
    /** The job begins with maps from first up to large. Written before shares are. */
    private int first;
    private int large;
    private volatile ResidentShares shares;
    private volatile boolean over;

    /** @param dir with the job's splits */
    MapInputs(JobID job, Path dir, Configuration conf) {
        this.job = job;
        this.dir = dir;
        this.conf = conf;
    }

    /** Reads the splits, and returns the files that they are of. Of too many none is kept, and the maps are not ordered. */
    Collection<Path> files() throws IOException {
        splits = null;
        try {
            return read(SplitFiles.parts(job, dir, conf, MOST_PARTS));
        } catch (SplitFiles.TooManyException e) {
            end();
            throw e;
        }
    }

    private Collection<Path> read(List<List<SplitFiles.Part>> all) throws IOException {
        Set<Path> files = new LinkedHashSet<>();
        for (List<SplitFiles.Part> parts : all) {
            parts.forEach(part -> files.add(part.path()));
            if (files.size() > LocalityInputs.MOST_FILES) {
                throw new SplitFiles.TooManyException("the splits of " + job + " are of more than " + LocalityInputs.MOST_FILES + " files");
            }
        }
        splits = all;
        // Those that are a little smaller count as equal; of others the larger come first: the job would wait for them in the end.
        large = 0;
        while (large < splits.size() && 10 * bytes(large) >= 9 * bytes(0)) {
            large++;
        }
        first = FirstTask.of(job.getId(), large);
        return files;
    }

    private long bytes(int map) {
        return splits.get(map).stream().mapToLong(SplitFiles.Part::length).sum();
    }

    /**
     * Whether the job begins with a map among those that are equal ({@link FirstTask}). Small ones stay the last, as MapReduce
     * has them: it numbers maps by the size of their input. Known when there are {@link #shares}.
     */
    boolean early(int map) {
        return first <= map && map < large;
    }

    @Override
    public int tasks() {
        try {
            if (splits == null) { // nobody could be asked before
                files();
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return splits.size();
    }

    @Override
    public void ranges(int map, StageInputs.Taker taker) {
        splits.get(map).forEach(part -> taker.take(part.path(), part.start(), part.length()));
    }

    @Override
    public void publish(ResidentShares now) {
        shares = now;
    }

    /** What is in memory of each map's input; null: that is not known yet. */
    ResidentShares shares() {
        return shares;
    }

    @Override
    public boolean over() {
        return over;
    }

    void end() {
        over = true;
    }
}
