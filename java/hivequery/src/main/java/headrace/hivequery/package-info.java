/** Queries of Hive, as tests start them. */
package headrace.hivequery;
