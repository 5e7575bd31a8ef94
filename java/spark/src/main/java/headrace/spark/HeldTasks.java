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
 * <p>A host waits once in a stage. All methods are called under the scheduler's lock.
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

    /** Puts back what a host waits for, if it does, and returns its list. */
    ArrayBuffer<Object> putBack(String name) {
        ArrayBuffer<Object> list = listOf.apply(name);
        if (keeps(name)) {
            Host host = hosts.get(name);
            list.insertAll(0, CollectionConverters.asScala(host.tasks));
            host.tasks = List.of();
        }
        return list;
    }

    /** Puts everything back. */
    void putBack() {
        hosts.keySet().forEach(this::putBack);
    }

    /** Whether tasks are kept from a host. */
    boolean keeps(String name) {
        Host host = hosts.get(name);
        return host != null && !host.tasks.isEmpty();
    }

    /** Takes from the beginning of a host's list, which is in order and has all of its tasks, those that are to wait. */
    void take(String name, ArrayBuffer<Object> list, ToIntFunction<Object> rank) {
        int n = 0;
        while (delay > 0 && n < list.length() && rank.applyAsInt(list.apply(n)) <= -MORE) {
            n++;
        }
        if (n == 0) {
            return;
        }
        Host host = hosts.computeIfAbsent(name, none -> new Host());
        if (!host.over) {
            host.tasks = List.copyOf(CollectionConverters.asJava((ArrayBuffer<Object>) list.take(n)));
            list.remove(0, n);
        }
    }

    /** Puts back what hosts have waited for long enough, and returns whether there was any. */
    boolean expire(long now) {
        if (hosts.isEmpty() || now - looked < delay / 8) {
            return false;
        }
        looked = now;
        boolean any = false;
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
                any = true;
            }
        }
        return any;
    }
}
