// Package native reads and writes workloads in a CSV of our own, from which nothing gets
// lost. See docs/traces.md.
package native
