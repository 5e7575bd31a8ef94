package google

import (
	"headrace/trace/workload"
)

// Options say what the traces of Google's clusters hide.
type Options struct {
	// CPUs and Memory are what the largest machine has; requests are shares of it.
	// The trace does not say. 0: 32 CPUs, 128 GiB.
	CPUs   float64
	Memory int64
	// Grow and Dirty are given to every task: see Assumed.
	workload.Assumed
}
