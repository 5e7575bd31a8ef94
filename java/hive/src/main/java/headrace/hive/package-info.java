/** A hook of Hive's driver. */
package headrace.hive;
