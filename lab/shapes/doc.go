// Package shapes has kinds of work that no policy was tuned on, each with the nodes that it
// is made for: heavy tails, bursts, gangs, unlike nodes and others, drawn from a seed.
//
// All is the table. A Shape makes a workload of any number of tasks at any load, and says
// what the cluster is. The same shape, seed, number and load give the same workload on every
// machine of an architecture. All tasks fit on the nodes, and all gangs on all nodes together.
//
// The shapes are in two halves. Whoever changes a policy may look at single runs of Looked to
// see what is wrong; what Judged says is only read once the change is made.
package shapes
