/** Plug-ins of Spark. */
package headrace.spark;
