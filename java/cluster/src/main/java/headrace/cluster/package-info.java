/** Programs for real YARN clusters on one machine, as tests and demonstrations start them. */
package headrace.cluster;
