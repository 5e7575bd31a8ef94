package headrace.yarn.rm;

import org.apache.hadoop.yarn.api.records.ContainerId;

/** Where one container is between its suspension and its resume. Changed by the thread of the {@link Reconciler} only. */
final class Suspension {
    enum Phase {
        /** The manager has ordered it to be put aside; it has its resources until that is done. */
        ORDERED,
        /** It is put aside, its resources are free. */
        PARKED,
        /** Put aside, and the scheduler is asked for its resources. */
        ASKED,
        /** It has its resources again, and is to go on. */
        RESUMING,
        /** It goes on; remembered for a while because it has been put aside. */
        RUNNING
    }

    final ContainerId id;
    volatile Phase phase;
    /** When the phase began. */
    long sinceMs;
    /** The manager has been seen to be at what this phase waits for. */
    boolean seenBusy;
    /** Runs although its resources are not accounted for. */
    boolean urgent;
    /** Nothing is tried before. */
    volatile long notBeforeMs;
    /** When the scheduler was last asked for its resources. */
    long askedMs;
    /** When it was last asked whether that ask is still due. */
    long lookedMs;
    /** Since when others have been left the room for it; 0: not. */
    long contestedMs;
    /** Since when nothing has been given to it where it is, whatever is free there; 0: it may be. */
    long strandedMs;
    /** Since when it has been put aside, over all asks; 0: it is not. */
    long asideMs;
    /** Its release is not asked for before. */
    long releaseMs;
    /** How often it was put aside soon after it had gone on. */
    int rounds;
    /** When it went on last; 0: never put aside before. */
    long resumedMs;

    // Of one resume, written by the thread that calls the manager.
    volatile boolean calling;
    volatile boolean delivered;
    volatile long deliveredMs;
    /** Since when the manager is to be told, or its node to hear of it; 0: it has been told. */
    volatile long undeliveredMs;
    /** How often it was told to go on and did not, since it ran last. */
    int failures;

    Suspension(ContainerId id, Phase phase, long nowMs) {
        this.id = id;
        this.phase = phase;
        this.sinceMs = nowMs;
    }

    void enter(Phase next, long nowMs) {
        phase = next;
        sinceMs = nowMs;
        seenBusy = false;
        urgent = false;
        contestedMs = 0;
        delivered = false;
        undeliveredMs = 0;
    }
}
