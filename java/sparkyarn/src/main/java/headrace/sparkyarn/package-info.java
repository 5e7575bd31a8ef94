/** Applications of Spark, as tests submit them to YARN. */
package headrace.sparkyarn;
