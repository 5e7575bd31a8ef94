/**
 * Finds out which blocks the tasks of an application read, and which part of a task's input is in memory on which machine
 * (quartet, section 4): what plug-ins of frameworks order tasks by ({@link headrace.locality.ResidentShares}). It needs
 * HDFS's client beside what {@link headrace.client} needs.
 */
package headrace.locality;
