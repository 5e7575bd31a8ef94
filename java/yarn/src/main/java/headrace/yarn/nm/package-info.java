/**
 * Plug-ins of YARN's NodeManager. Containers are started under Headrace's shim, so that the daemon of the
 * machine can suspend, checkpoint and resume them; without a daemon the NodeManager does what it does without
 * these classes.
 */
package headrace.yarn.nm;
