/**
 * Asks the Headrace daemon of this machine: HTTP with JSON over its unix domain socket, with nothing
 * but the JDK and Jackson. Every call ends within a time that the caller gives.
 */
package headrace.client;
