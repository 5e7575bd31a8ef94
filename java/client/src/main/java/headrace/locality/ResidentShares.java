package headrace.locality;

import java.util.Arrays;
import java.util.List;

/**
 * Which part of each task's input is in memory on which machine, in sixteenths: what differs by less makes no
 * difference. Immutable.
 */
public final class ResidentShares {
    /** All of it. */
    public static final int WHOLE = 16;
    /** Less is nothing: what the kernel has read ahead past the end of another task's input, not what somebody has read. */
    private static final double LEAST = 1.0 / 8;

    private final List<List<String>> machines;
    /** Of task t are those from starts[t] up to starts[t + 1]. */
    private final int[] starts;
    private final int[] machine;
    private final byte[] share;

    private ResidentShares(List<List<String>> machines, int[] starts, int[] machine, byte[] share) {
        this.machines = machines;
        this.starts = starts;
        this.machine = machine;
        this.share = share;
    }

    /** Takes the shares of one task after another. */
    public static final class Builder {
        private final int[] starts;
        private int[] machine;
        private byte[] share;
        private int tasks;
        private int n;

        public Builder(int tasks) {
            starts = new int[tasks + 1];
            machine = new int[tasks];
            share = new byte[tasks];
        }

        /** Of the current task a part from 0 to 1 is in memory on a machine. */
        public void add(int on, double part) {
            if (!(part >= LEAST)) {
                return;
            }
            int sixteenths = (int) Math.round(WHOLE * Math.min(1, part));
            if (n == machine.length) {
                machine = Arrays.copyOf(machine, 2 * n + 16);
                share = Arrays.copyOf(share, 2 * n + 16);
            }
            machine[n] = on;
            share[n++] = (byte) sixteenths;
        }

        /** The current task has no more. */
        public void next() {
            starts[++tasks] = n;
        }

        /** @param machines their names, by number */
        public ResidentShares build(List<List<String>> machines) {
            return new ResidentShares(List.copyOf(machines), starts, Arrays.copyOf(machine, n), Arrays.copyOf(share, n));
        }
    }

    public int tasks() {
        return starts.length - 1;
    }

    /** The names of the machines, by number. */
    public List<List<String>> machines() {
        return machines;
    }

    public boolean isEmpty() {
        return share.length == 0;
    }

    boolean same(ResidentShares other) {
        return other != null && Arrays.equals(starts, other.starts) && Arrays.equals(share, other.share)
            && Arrays.equals(machine, other.machine) && machines.equals(other.machines);
    }

    /** A machine on which so much of a task's input is in memory that it is worth going there. */
    public interface Home {
        void at(int task, int machine);
    }

    /** Tells of each task the machines that have at least half of its input in memory. */
    public void homes(Home home) {
        for (int task = 0; task < tasks(); task++) {
            for (int i = starts[task]; i < starts[task + 1]; i++) {
                if (2 * share[i] >= WHOLE) {
                    home.at(task, machine[i]);
                }
            }
        }
    }

    /**
     * Returns how early a task is to run on a machine, from -WHOLE to WHOLE (quartet, section 4.2): more than 0 when its
     * input is in memory there, and no larger part of it elsewhere; 0 when it is nowhere; less when it is elsewhere.
     *
     * @param here number of the machine; -1: one that has nothing in memory
     * @param useful machines by number on which tasks can run at all; what others have does not count
     */
    public int rank(int task, int here, boolean[] useful) {
        int local = 0;
        int elsewhere = 0;
        for (int i = starts[task]; i < starts[task + 1]; i++) {
            if (machine[i] == here) {
                local = share[i];
            } else if (useful[machine[i]]) {
                elsewhere = Math.max(elsewhere, share[i]);
            }
        }
        return local >= elsewhere ? local : local - elsewhere;
    }
}
