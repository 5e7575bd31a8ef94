package headrace.cluster;

import java.util.List;
import java.util.Map;

/**
 * What a {@link FileLoad} is to do.
 *
 * @param name no other has had it
 * @param kind "write", "read", "names", "load" or "delete"
 * @param resources files of configuration, beside what is in the class path
 * @param properties more of it
 * @param path the directory that all is in
 * @param threads that read or write a file each, or give names
 * @param bytes of a file
 * @param count of names for each thread
 * @param readers of a load
 * @param writers of a load
 * @param everyMs a reader or a writer of a load moves a piece
 * @param seconds that a load lasts
 */
record FileOrder(String name, String kind, List<String> resources, Map<String, String> properties, String path, int threads,
    long bytes, int count, int readers, int writers, int everyMs, double seconds) {}
