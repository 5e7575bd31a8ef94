package headrace.client;

import java.util.List;

/**
 * What of a block is in memory where. Immutable; the array is not to be changed.
 *
 * @param machines that have some of it, each by the names that the file system has for it
 * @param resident bytes on each of them
 * @param bytes of a whole replica
 */
public record BlockCopies(List<List<String>> machines, long[] resident, long bytes) {
    /** A block of a distributed file system: its pool, and its number there. */
    public record Block(String pool, long number) { }

    /** Which part of a replica a machine has in memory, from 0 to 1. */
    public double share(int machine) {
        return (double) resident[machine] / bytes;
    }
}
