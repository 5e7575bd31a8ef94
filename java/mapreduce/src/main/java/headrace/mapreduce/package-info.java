/** Plug-ins of MapReduce: of the application master, and of whoever submits a job. */
package headrace.mapreduce;
