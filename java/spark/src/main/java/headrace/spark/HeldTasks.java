package headrace.spark;

import headrace.locality.ResidentShares;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.ToIntFunction;
import scala.collection.mutable.ArrayBuffer;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Keeps tasks of a stage whose input another host has in memory from a host that has nothing else to do, for about as long
 * as it would take to read it: the other one is probably through with those before it by then, and for whoever waits as long
 * as what he waits to save takes, the wait never costs more than twice what knowing the future would (ski rental). They are out of the
 * host's list meanwhile. In those of racks and of all they stay, so Spark's own delay ({@code spark.locality.wait}) is the
 * other bound.
 *
 * <p>A host waits once in a stage. All methods but {@link #leading} are called under the scheduler's lock.
 */
final class HeldTasks {
    /** A task is kept that has so much more of its input in memory elsewhere. */
    private static final int MORE = ResidentShares.WHOLE / 2;

    private static final class Host {
        /** In the order of Spark's list, from the beginning of which they were taken. */
        List<Object> tasks = List.of();
        /** When the host had nothing else any more. */
        long since;
        boolean waits;
        boolean over;
    }

    private final long delay;
    private final Function<String, ArrayBuffer<Object>> listOf;
    private final Map<String, Host> hosts = new HashMap<>();
    private long looked = System.nanoTime();

    /**
     * @param delay nanoseconds; 0: none are kept
     * @param listOf returns the list of a host, of which Spark makes a new one where it has dropped the old one as empty
     */
    HeldTasks(long delay, Function<String, ArrayBuffer<Object>> listOf) {
        this.delay = delay;
        this.listOf = listOf;
    }

    /** Puts back what a host waits for, if it does. */
    private void putBack(String name) {
        Host host = hosts.get(name);
        if (!host.tasks.isEmpty()) {
            listOf.apply(name).insertAll(0, CollectionConverters.asScala(host.tasks));
            host.tasks = List.of();
        }
    }

    /** Puts everything back. */
    void putBack() {
        hosts.keySet().forEach(this::putBack);
    }

    /** What is kept from a host. */
    List<Object> of(String name) {
        Host host = hosts.get(name);
        return host == null ? List.of() : host.tasks;
    }

    /** Returns how many of a host's tasks, all of which are here and in order, are to wait: the first ones. The lock is not needed. */
    int leading(ArrayBuffer<Object> list, ToIntFunction<Object> rank) {
        int n = 0;
        while (delay > 0 && n < list.length() && rank.applyAsInt(list.apply(n)) <= -MORE) {
            n++;
        }
        return n;
    }

    /** Keeps these from a host, instead of what was kept before. Returns false when it has waited already: they stay in its list then. */
    boolean keep(String name, List<Object> tasks) {
        Host host = tasks.isEmpty() ? hosts.get(name) : hosts.computeIfAbsent(name, none -> new Host());
        if (host == null) {
            return true;
        }
        host.tasks = host.over ? List.of() : tasks;
        return !host.over;
    }

    /** Puts back what hosts have waited for long enough. */
    void expire(long now) {
        if (hosts.isEmpty() || now - looked < delay / 8) {
            return;
        }
        looked = now;
        for (Map.Entry<String, Host> each : hosts.entrySet()) {
            Host host = each.getValue();
            if (host.tasks.isEmpty()) {
                continue;
            }
            if (!host.waits && listOf.apply(each.getKey()).isEmpty()) { // only an offer to the host empties it
                host.waits = true;
                host.since = now;
            }
            if (host.waits && now - host.since >= delay) {
                host.over = true;
                putBack(each.getKey());
            }
        }
    }
}
