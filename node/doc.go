// Package node is the agent by which the daemon of a machine speaks to the manager of
// a cluster: it joins, reports what is true of the containers there, and has the
// daemon carry out the manager's orders.
//
// The agent decides nothing. Whatever the manager does, or whether it is there, the
// containers on the machine are not disturbed: the agent only tries again, at growing
// intervals of at most five seconds.
//
// # Order of things
//
// A report follows at once on a change, on the end of an order, and on joining;
// otherwise one is sent every second. There is one at a time. Results of orders are
// taken before the facts, so that a report never tells that something was done along
// with a state from before. A result, and the end of a container, is told again until
// a report with it was answered. Reports have numbers, by which the manager tells those that come late.
//
// Orders are carried out side by side. One that was begun is finished whatever becomes
// of the connection. The manager sends an order again, by its number, when the
// connection was lost; a number that was seen before is not done again.
package node
