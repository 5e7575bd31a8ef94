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
     * Orders the first n of list.
     *
     * @param first where equal ones begin; 0: as in Spark's own order
     * @param rank from -WHOLE to WHOLE
     * @throws IllegalArgumentException when there is an unknown task or rank; the list is as it was
     */
    void sort(int[] list, int n, int first, IntUnaryOperator rank) {
        if (sorted.length < n) {
            sorted = new int[list.length];
            ranks = new int[list.length];
        }
        byNumber(list, n);
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
    }

    /** Fills sorted with the list, highest number first; a task that is tried again may be there more than once. */
    private void byNumber(int[] list, int n) {
        for (int i = 0; i < n; i++) {
            if (list[i] < 0 || list[i] >= tasks) {
                throw new IllegalArgumentException("task " + list[i] + " of " + tasks);
            }
        }
        if (n < present.length / 8) { // a few of a large stage, of which there may be many lists
            System.arraycopy(list, 0, sorted, 0, n);
            Arrays.sort(sorted, 0, n);
            for (int i = 0, k = n - 1; i < k; i++, k--) {
                int lower = sorted[i];
                sorted[i] = sorted[k];
                sorted[k] = lower;
            }
            return;
        }
        int[] repeated = {};
        int more = 0;
        for (int i = 0; i < n; i++) {
            int task = list[i];
            long bit = 1L << task;
            if ((present[task / Long.SIZE] & bit) != 0) {
                repeated = more == repeated.length ? Arrays.copyOf(repeated, 2 * more + 4) : repeated;
                repeated[more++] = task;
            }
            present[task / Long.SIZE] |= bit;
        }
        Arrays.sort(repeated, 0, more);
        int next = 0;
        for (int word = present.length - 1; word >= 0; word--) {
            while (present[word] != 0) {
                int task = word * Long.SIZE + Long.SIZE - 1 - Long.numberOfLeadingZeros(present[word]);
                present[word] &= ~(1L << task);
                sorted[next++] = task;
                while (more > 0 && repeated[more - 1] == task) {
                    sorted[next++] = task;
                    more--;
                }
            }
        }
    }
}
