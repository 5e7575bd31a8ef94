/** Plug-ins of MapReduce's application master. */
package headrace.mapreduce;
