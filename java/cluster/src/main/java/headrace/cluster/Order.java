package headrace.cluster;

import java.util.List;
import java.util.Map;

/**
 * What a {@link Submitter} is to do.
 *
 * @param name no other has had it
 * @param kind a job: "ratios" (see {@link RatioJob}), "wordcount" or "sort" of Hadoop's examples; or an input: "make-bytes",
 *     "make-text" or "make-sequence"; or what HDFS caches: "cache" or "uncache" (see {@link CacheDirectives})
 * @param inputs files of a job; of an input the one that is made; those to cache
 * @param output directory of a job
 * @param properties of a job
 * @param reduces how many reduce tasks
 * @param bytes of an input
 * @param seed of an input
 */
record Order(String name, String kind, List<String> inputs, String output, Map<String, String> properties, int reduces,
    long bytes, long seed) {}
