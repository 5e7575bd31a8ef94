package headrace.spark;

import headrace.locality.ResidentShares;
import java.util.Arrays;
import java.util.function.IntUnaryOperator;

/**
 * Orders tasks that wait by their ranks. Spark takes them from the end of a list: the highest rank stands there, and of
 * equal ones that with the lowest number from a given one on, after the last the first. Takes time about in proportion to the
 * list. It keeps what it works with, and is not safe for use by several threads.
 */
final class PendingOrder {
    private static final int RANKS = 2 * ResidentShares.WHOLE + 1;

    private final int tasks;
    /** A bit for each task that is in the list. */
    private final long[] present;
    private final int[] at = new int[RANKS + 1];
    private int[] sorted = new int[0];
    private int[] ranks = new int[0];

    /** @param tasks those in lists have numbers below that */
    PendingOrder(int tasks) {
        this.tasks = tasks;
        this.present = new long[tasks / Long.SIZE + 1];
    }

    /**
     * Orders the first ones of list, each task once, and returns how many that are.
     *
     * @param first where equal ones begin; 0: as in Spark's own order
     * @param rank from -WHOLE to WHOLE
     * @throws IllegalArgumentException when there is an unknown task or rank; the list is as it was
     */
    int sort(int[] list, int of, int first, IntUnaryOperator rank) {
        if (sorted.length < of) {
            sorted = new int[of + of / 4];
            ranks = new int[sorted.length];
        }
        int n = byNumber(list, of);
        int later = 0; // those before it come after all others, so they are put below
        while (later < n && sorted[later] >= first) {
            later++;
        }
        Arrays.fill(at, 0);
        for (int i = 0; i < n; i++) {
            int r = rank.applyAsInt(sorted[i]) + ResidentShares.WHOLE;
            if (r < 0 || r >= RANKS) {
                throw new IllegalArgumentException("task " + sorted[i] + " has rank " + r);
            }
            ranks[i] = r;
            at[r + 1]++;
        }
        for (int r = 0; r < RANKS; r++) {
            at[r + 1] += at[r];
        }
        for (int i = later; i < n; i++) {
            list[at[ranks[i]]++] = sorted[i];
        }
        for (int i = 0; i < later; i++) {
            list[at[ranks[i]]++] = sorted[i];
        }
        return n;
    }

    /** Fills sorted with the list, highest number first, and returns how many that are; a task that is tried again may be there more than once. */
    private int byNumber(int[] list, int n) {
        for (int i = 0; i < n; i++) {
            if (list[i] < 0 || list[i] >= tasks) {
                throw new IllegalArgumentException("task " + list[i] + " of " + tasks);
            }
        }
        int next = 0;
        if (n < present.length / 8) { // a few of a large stage, of which there may be many lists
            int[] upwards = Arrays.copyOf(list, n);
            Arrays.sort(upwards);
            for (int i = n - 1; i >= 0; i--) {
                if (next == 0 || sorted[next - 1] != upwards[i]) {
                    sorted[next++] = upwards[i];
                }
            }
            return next;
        }
        for (int i = 0; i < n; i++) {
            present[list[i] / Long.SIZE] |= 1L << list[i];
        }
        for (int word = present.length - 1; word >= 0; word--) {
            while (present[word] != 0) {
                int task = word * Long.SIZE + Long.SIZE - 1 - Long.numberOfLeadingZeros(present[word]);
                present[word] &= ~(1L << task);
                sorted[next++] = task;
            }
        }
        return next;
    }
}
