// Package trace opens traces of clusters: which jobs and tasks were submitted when, how
// long they ran, and what they read, moved and wrote.
//
// Open makes a Workload, the tasks that a cluster is asked to run, of a trace in any format;
// Describe says what is in it. DescribeSource does so for traces that are larger than
// memory. What the formats are and how tasks are made of them is in docs/traces.md.
//
// A format is a package below this one, and knows nothing of the others: it reads what it
// is given with package input, and gives tasks to a workload.Sink.
package trace
