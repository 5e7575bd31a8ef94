package headrace.mapreduce;

/** Counts of a job: what was in memory of the input of maps when they were given a container. */
public enum MapMemory {
    /** It was in memory on the machine of the container. */
    MEMORY_LOCAL_MAPS,
    /** More of it was in memory on another machine. */
    MEMORY_ELSEWHERE_MAPS,
    /** It was in memory nowhere, or that was not known. */
    NOT_IN_MEMORY_MAPS,
    /** Something has failed, and what was left went in MapReduce's own order. */
    MEMORY_DOUBTS
}
