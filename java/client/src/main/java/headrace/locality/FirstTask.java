package headrace.locality;

/** Decides with which of its tasks a job begins. Safe for use by several threads. */
public final class FirstTask {
    private FirstTask() { }

    /**
     * Returns the task with which a job or stage begins among those that are equal: another one for each of several. Those that
     * read the same files at the same time would all read the same blocks from disks otherwise, each from another replica,
     * before they hear of each other; so each reads a part, and finds in memory what the others have read.
     *
     * @param job its number, or that of the stage; those of one after another are far apart by the golden section (Fibonacci
     *     hashing: Knuth, The Art of Computer Programming, 6.4)
     * @return from 0 to tasks - 1; 0 when there are none
     */
    public static int of(int job, int tasks) {
        return (int) (Integer.toUnsignedLong(job * 0x9E3779B9) * tasks >>> Integer.SIZE);
    }
}
