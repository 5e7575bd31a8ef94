// Package linux reads and drives the kernel: /proc, signals, memory advice,
// cgroups. It knows processes, not tasks, and keeps no state.
package linux
