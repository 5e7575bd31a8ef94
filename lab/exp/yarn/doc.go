// Package yarn runs the experiments on a real YARN cluster (lab/yarn), with its own
// preemption and with that of Headrace: a pair of jobs (os-assisted-preemption, section IV)
// and a workload (checkpoint-preemption, figures 8 to 12).
package yarn
