package headrace.yarn.rm;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.yarn.api.records.ContainerId;

/**
 * Application masters that YARN has chosen while containers of theirs are put aside: with the master their work would be
 * lost. Each is passed over for a while, in which YARN may find another victim; if it does not, the master is one. Safe
 * for use by several threads.
 */
final class SparedMasters {
    // After that long without being chosen again a master is as one that never was.
    private static final int FORGOTTEN = 5;

    private record Chosen(long firstMs, long lastMs) {
    }

    private final long spareMs;
    private final Map<ContainerId, Chosen> chosen = new ConcurrentHashMap<>();

    SparedMasters(long spareMs) {
        this.spareMs = spareMs;
    }

    /** A master was chosen: whether it is to be left alone. */
    boolean spares(ContainerId master, long now) {
        chosen.values().removeIf(c -> now - c.lastMs > FORGOTTEN * spareMs);
        Chosen entry = chosen.merge(master, new Chosen(now, now), (old, fresh) -> new Chosen(old.firstMs, now));
        return now - entry.firstMs < spareMs;
    }

    /** Whether the preemption policy is to pass over a container. */
    boolean passes(ContainerId id, long now) {
        Chosen entry = chosen.get(id);
        return entry != null && now - entry.firstMs < spareMs;
    }
}
