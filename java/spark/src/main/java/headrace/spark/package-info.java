/** Plug-ins of Spark's driver. */
package headrace.spark;
