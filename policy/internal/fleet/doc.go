// Package fleet finds places for tasks among many nodes: where one fits, where its input
// is, whether its checkpoint moves, and on which node the fewest or cheapest victims
// leave for it. Within a decision it remembers what nodes have answered; no other
// package of policy remembers anything.
package fleet
