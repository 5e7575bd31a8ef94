// Package simulate has the verb sim: it tells what policies and storage would do to the
// work in a trace. config.go and nodes.go read the cluster from flags, runs.go says which
// simulations are run and runs them, enough.go looks for the least number of nodes that
// will do, report.go shows the results.
package simulate
