// Package order runs two identical jobs, one after the other, on data that fit into
// memory and that do not, with and without going by what is in memory (quartet, section
// 5).
package order
