/**
 * Asks the Headrace daemon of this machine ({@link headrace.client.NodeClient}), by HTTP with JSON over its unix domain
 * socket, and that of the cluster ({@link headrace.client.ManagerClient}), by HTTP with the cluster's token. It needs
 * nothing but the JDK, Jackson and Hadoop's configuration. Every call ends within a time that the caller gives.
 */
package headrace.client;
